package takeover

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// ManagerName is the name of the ConfigMap and the Deployment of VM-Operator's manager.
const ManagerName = "vm-operator"

// ConfigKey is the key of the ConfigMap with the manager's configuration.
const ConfigKey = "config.yaml"

// RunnerImageVariable is the environment variable with the image of runners if nothing else names one. The Deployment
// of our manager has it, and that of VM-Operator has not.
const RunnerImageVariable = "VMOP_RUNNER_IMAGE"

// A Namespace is what there is of VM-Operator in a namespace, as far as it matters.
type Namespace struct {
	// Config is the manager's configuration; "" if there is none.
	Config string

	vms, pools   []unstructured.Unstructured
	claims       map[string]metav1.ObjectMeta
	configMaps   map[string]corev1.ConfigMap
	pods         []corev1.Pod
	statefulSets map[string]appsv1.StatefulSet
	deployments  []appsv1.Deployment
	secrets      []metav1.ObjectMeta
}

// Sort returns what the objects of a namespace are, as they were read from a cluster or from files; others than those
// of VM-Operator, and what it has made, don't matter. An error names an object that isn't of its kind's form.
func Sort(all []unstructured.Unstructured) (*Namespace, error) {
	n := &Namespace{
		claims: map[string]metav1.ObjectMeta{}, configMaps: map[string]corev1.ConfigMap{},
		statefulSets: map[string]appsv1.StatefulSet{},
	}
	for i := range all {
		if err := n.add(&all[i]); err != nil {
			return nil, fmt.Errorf("read %s %s: %w", all[i].GetKind(), all[i].GetName(), err)
		}
	}
	byName := func(a, b unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) }
	slices.SortFunc(n.vms, byName)
	slices.SortFunc(n.pools, byName)
	if m, is := n.configMaps[ManagerName]; is {
		n.Config = m.Data[ConfigKey]
	}
	return n, nil
}

func (n *Namespace) add(u *unstructured.Unstructured) (err error) {
	switch kind := u.GroupVersionKind().GroupKind().String(); kind {
	case "VirtualMachine." + v1.GroupName:
		n.vms = append(n.vms, *u)
	case "VmPool." + v1.GroupName:
		n.pools = append(n.pools, *u)
	case "PersistentVolumeClaim":
		c, err := as[corev1.PersistentVolumeClaim](u)
		n.claims[c.Name] = c.ObjectMeta
		return err
	case "ConfigMap":
		n.configMaps[u.GetName()], err = as[corev1.ConfigMap](u)
	case "Pod":
		pod, err := as[corev1.Pod](u)
		n.pods = append(n.pods, pod)
		return err
	case "StatefulSet.apps":
		n.statefulSets[u.GetName()], err = as[appsv1.StatefulSet](u)
	case "Deployment.apps":
		d, err := as[appsv1.Deployment](u)
		n.deployments = append(n.deployments, d)
		return err
	case "Secret":
		s, err := as[metav1.PartialObjectMetadata](u) // what is in it stays there
		n.secrets = append(n.secrets, s.ObjectMeta)
		return err
	}
	return err
}

func as[T any](u *unstructured.Unstructured) (made T, err error) {
	err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &made)
	return made, err
}

// managers returns the Deployments of VM-Operator's manager that have or want pods.
func (n *Namespace) managers() (names []string) {
	for _, d := range n.deployments {
		if !OfOriginal(&d) {
			continue
		}
		if d.Spec.Replicas == nil || *d.Spec.Replicas > 0 || d.Status.Replicas > 0 {
			names = append(names, d.Name)
		}
	}
	return names
}

// OfOriginal reports whether a Deployment is one of VM-Operator's manager.
func OfOriginal(d *appsv1.Deployment) bool {
	for _, c := range d.Spec.Template.Spec.Containers {
		if strings.Contains(c.Image, "org.jdrupes.vmoperator.manager") {
			return true
		}
		if slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == RunnerImageVariable }) {
			return false
		}
	}
	return d.Name == ManagerName
}

// runsIn returns the pod of VM-Operator that may have the disks of a VM; "" if there is none.
func (n *Namespace) runsIn(vm string) string {
	for _, pod := range n.pods {
		ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		of := pod.Labels[objects.LabelName] == objects.AppName && pod.Labels[objects.LabelInstance] == vm
		ours := slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
			return c.Name == objects.ContainerName
		}) && pod.Name != vm
		if of && !ended && !ours {
			return pod.Name
		}
	}
	return ""
}

// StatefulSetOfOriginal reports whether a StatefulSet is one of VM-Operator before 3.4: of a VM, and not made by us.
func StatefulSetOfOriginal(s *appsv1.StatefulSet) bool {
	return s.Labels[objects.LabelName] == objects.AppName && s.Labels[objects.LabelInstance] == s.Name &&
		s.Annotations[objects.AnnotationApplied] == "" && metav1.GetControllerOfNoCopy(s) == nil
}

// secretOf returns the name of the display secret of a VM; "" if there is none.
func (n *Namespace) secretOf(vm string) string {
	for _, s := range n.secrets {
		display := s.Labels[objects.LabelComponent] == objects.ComponentDisplaySecret
		if display && s.Labels[objects.LabelInstance] == vm {
			return s.Name
		}
	}
	return ""
}
