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
	"vmop/manager/vm/objects"
)

// ManagerName is the name of the ConfigMap and the Deployment of VM-Operator's manager.
const ManagerName = "vm-operator"

// ConfigKey is the key of the ConfigMap with the manager's configuration.
const ConfigKey = "config.yaml"

// RunnerImageVariable is the environment variable with the default image of runners. Our manager's Deployment sets
// it, and VM-Operator's Deployment doesn't.
const RunnerImageVariable = "VMOP_RUNNER_IMAGE"

// Namespace contains VM-Operator's relevant objects in a namespace.
type Namespace struct {
	// Config is the manager's configuration; "" without a configuration.
	Config string

	vms, pools   []unstructured.Unstructured
	claims       map[string]metav1.ObjectMeta
	configMaps   map[string]corev1.ConfigMap
	pods         []corev1.Pod
	statefulSets map[string]appsv1.StatefulSet
	deployments  []appsv1.Deployment
	secrets      []metav1.ObjectMeta
}

// Sort returns the Namespace for a list of objects from a cluster or from files. It ignores objects that don't
// belong to VM-Operator and weren't created by it. An error names an object that doesn't match its kind.
func Sort(all []unstructured.Unstructured) (*Namespace, error) {
	n := &Namespace{
		claims: map[string]metav1.ObjectMeta{}, configMaps: map[string]corev1.ConfigMap{},
		statefulSets: map[string]appsv1.StatefulSet{},
	}
	for i := range all {
		if err := n.addResource(&all[i]); err != nil {
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

func (n *Namespace) addResource(u *unstructured.Unstructured) (err error) {
	switch kind := u.GroupVersionKind().GroupKind().String(); kind {
	case "VirtualMachine." + v1.GroupName:
		n.vms = append(n.vms, *u)
	case "VmPool." + v1.GroupName:
		n.pools = append(n.pools, *u)
	case "PersistentVolumeClaim":
		c, err := convertTo[corev1.PersistentVolumeClaim](u)
		n.claims[c.Name] = c.ObjectMeta
		return err
	case "ConfigMap":
		n.configMaps[u.GetName()], err = convertTo[corev1.ConfigMap](u)
	case "Pod":
		pod, err := convertTo[corev1.Pod](u)
		n.pods = append(n.pods, pod)
		return err
	case "StatefulSet.apps":
		n.statefulSets[u.GetName()], err = convertTo[appsv1.StatefulSet](u)
	case "Deployment.apps":
		d, err := convertTo[appsv1.Deployment](u)
		n.deployments = append(n.deployments, d)
		return err
	case "Secret":
		s, err := convertTo[metav1.PartialObjectMetadata](u) // the secret data stays unread
		n.secrets = append(n.secrets, s.ObjectMeta)
		return err
	}
	return err
}

func convertTo[T any](u *unstructured.Unstructured) (made T, err error) {
	err = runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &made)
	return made, err
}

// activeManagers returns the Deployments of VM-Operator's manager that have or request pods.
func (n *Namespace) activeManagers() (names []string) {
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

// OfOriginal reports whether a Deployment belongs to VM-Operator's manager.
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

// runsIn returns the pod of VM-Operator that may use the disks of a VM, or "" without such a pod.
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

// StatefulSetOfOriginal reports whether VM-Operator before 3.4 created a StatefulSet: it belongs to a VM, and our
// manager has not created it.
func StatefulSetOfOriginal(s *appsv1.StatefulSet) bool {
	return s.Labels[objects.LabelName] == objects.AppName && s.Labels[objects.LabelInstance] == s.Name &&
		s.Annotations[objects.AnnotationApplied] == "" && metav1.GetControllerOfNoCopy(s) == nil
}

// secretOf returns the name of the display secret of a VM, or "" without a secret.
func (n *Namespace) secretOf(vm string) string {
	for _, s := range n.secrets {
		display := s.Labels[objects.LabelComponent] == objects.ComponentDisplaySecret
		if display && s.Labels[objects.LabelInstance] == vm {
			return s.Name
		}
	}
	return ""
}
