package store

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/vm/objects"
)

// importPodEncoding groups the pods that import by their disk.
func importPodEncoding(namespace string) encoding[*corev1.Pod] {
	e := podEncoding(namespace)
	e.trim = func(pod *corev1.Pod) {
		owners, gates, conditions := pod.OwnerReferences, pod.Spec.SchedulingGates, pod.Status.Conditions
		kept := entriesOf(pod.Annotations, []string{disk.AnnotationKey})
		trimPod(pod)
		pod.Labels, pod.Annotations = nil, kept
		pod.OwnerReferences, pod.Spec.SchedulingGates, pod.Status.Conditions = owners, gates, nil
		for _, c := range conditions {
			if c.Type == corev1.PodScheduled {
				c.LastProbeTime, c.LastTransitionTime = metav1.Time{}, metav1.Time{}
				pod.Status.Conditions = append(pod.Status.Conditions, c)
			}
		}
	}
	e.group = func(pod *corev1.Pod) string { return disk.Owner(pod) }
	e.irregular = nil
	return e
}

// Pod returns the trimmed pod that imports the data of a disk, or nil if it does not exist.
func (s *Disks) Pod(of string) (*corev1.Pod, error) {
	if s.images != nil {
		return s.pods.getObject(disk.ImagePodName(of))
	}
	return s.pods.getObject(disk.PodName(of))
}

// Exporter returns the trimmed pod that exports a disk to a user, or nil if it does not exist.
func (s *Disks) Exporter(of string) (*corev1.Pod, error) {
	if s.images != nil {
		return s.pods.getObject(disk.ImageExporterName(of))
	}
	return s.pods.getObject(disk.ExporterName(of))
}

// SecretVersion returns the version of a source's Secret, or "" if no Secret of that type exists, and the servers
// that may receive the Secret.
func (s *Disks) SecretVersion(of corev1.SecretType, name string) (version, hosts string, err error) {
	c := s.secrets[of]
	if c == nil {
		return "", "", nil
	}
	secret, err := c.getObject(name)
	if err != nil || secret == nil {
		return "", "", err
	}
	return string(secret.UID) + "/" + secret.ResourceVersion, secret.Annotations[v1.AnnotationHosts], nil
}

// newSourceSecrets returns collections of the metadata of Secrets that sources name.
func newSourceSecrets(namespace string, by *compressor, changed func(),
) map[corev1.SecretType]*collection[*objects.Metadata] {
	all := map[corev1.SecretType]*collection[*objects.Metadata]{}
	for _, t := range []corev1.SecretType{v1.SecretTypeHTTP, corev1.SecretTypeDockerConfigJson} {
		all[t] = newCollection(dataEncoding(namespace), by, func(string, record) { changed() })
	}
	return all
}
