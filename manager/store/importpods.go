package store

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/objects"
)

// importPodEncoding is how the pods are kept that import, each found by its disk.
func importPodEncoding(namespace string) encoding[*corev1.Pod] {
	e := podEncoding(namespace)
	e.trim = func(pod *corev1.Pod) {
		owners, gates, conditions := pod.OwnerReferences, pod.Spec.SchedulingGates, pod.Status.Conditions
		kept := entries(pod.Annotations, []string{disk.AnnotationKey})
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

// Pod returns the pod that imports the data of a disk, as far as it is kept; nil if there is none.
func (s *Disks) Pod(of string) (*corev1.Pod, error) {
	if s.images != nil {
		return s.pods.get(disk.ImagePodName(of))
	}
	return s.pods.get(disk.PodName(of))
}

// Exporter returns the pod that exports a disk to a user, as far as it is kept; nil if there is none.
func (s *Disks) Exporter(of string) (*corev1.Pod, error) {
	if s.images != nil {
		return s.pods.get(disk.ImageExporterName(of))
	}
	return s.pods.get(disk.ExporterName(of))
}

// SecretVersion returns the version of a Secret for a source, "" if there is none of that type, and the servers to
// which it may be sent.
func (s *Disks) SecretVersion(of corev1.SecretType, name string) (version, hosts string, err error) {
	c := s.secrets[of]
	if c == nil {
		return "", "", nil
	}
	secret, err := c.get(name)
	if err != nil || secret == nil {
		return "", "", err
	}
	return string(secret.UID) + "/" + secret.ResourceVersion, secret.Annotations[v1.AnnotationHosts], nil
}

// newSourceSecrets returns the collections of Secrets that sources name, of which the metadata is known.
func newSourceSecrets(namespace string, by *compressor, changed func(),
) map[corev1.SecretType]*collection[*objects.Metadata] {
	all := map[corev1.SecretType]*collection[*objects.Metadata]{}
	for _, t := range []corev1.SecretType{v1.SecretTypeHTTP, corev1.SecretTypeDockerConfigJson} {
		all[t] = newCollection(dataEncoding(namespace), by, func(string, record) { changed() })
	}
	return all
}
