package store

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/class"
)

// Class returns a class, which must not be changed; nil if there is none of that name.
func (s *Store) Class(name string) *v1.VirtualMachineClass { return s.classes.get(name) }

// Classes returns all classes, which must not be changed, and why they are not known.
func (s *Store) Classes() (all []*v1.VirtualMachineClass, unavailable string) {
	return s.classes.list(), s.classes.why()
}

// ClassesUnavailable says why classes are not known; "" if they are.
func (s *Store) ClassesUnavailable() string { return s.classes.why() }

// DefaultClass returns that of new VMs; nil if there is none.
func (s *Store) DefaultClass() *v1.VirtualMachineClass {
	c, _ := class.DefaultOf(s.classes.list())
	return c
}

// Nodes returns those of the cluster, as far as classes need them, and why they are not known.
// They must not be changed.
func (s *Store) Nodes() (all []*corev1.Node, unavailable string) {
	return s.nodes.list(), s.nodes.why()
}

// drains reports whether a node takes no more pods, as one that is being drained.
func drains(node *corev1.Node) bool {
	return node != nil && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeUnschedulable
	})
}

// Drained reports whether a node is known to take no more pods.
func (s *Store) Drained(node string) bool {
	for _, n := range s.nodes.list() {
		if n.Name == node {
			return drains(n)
		}
	}
	return false
}

// UsersOfClasses returns the names of the VMs of each class. It goes through all records.
func (s *Store) UsersOfClasses() map[string][]string {
	users := map[string][]string{}
	s.vms.each(func(name string, r record) {
		if class := r.in().class; class != "" {
			users[class] = append(users[class], name)
		}
	})
	return users
}

// ClassesChanged receives after a change of a class, of a node, or of a VM that has a class;
// of several changes at least once.
func (s *Store) ClassesChanged() <-chan struct{} { return s.uses }

func (s *Store) signal() {
	select {
	case s.uses <- struct{}{}:
	default:
	}
}

// classChanged enqueues the VMs of a class of which something has changed that they take, behind
// VMs that change themselves.
func (s *Store) classChanged(was, is *v1.VirtualMachineClass) {
	s.signal()
	if was != nil && is != nil && was.Generation == is.Generation &&
		(was.Status.ObservedGeneration > 0) == (is.Status.ObservedGeneration > 0) &&
		equality.Semantic.DeepEqual(was.Status.CPUFeatures, is.Status.CPUFeatures) {
		return
	}
	of := is
	if of == nil {
		of = was
	}
	s.enqueuer.addLast(s.UsersOfClasses()[of.Name]...)
}

// usersOfClassTypes returns the VMs whose class takes its VM type from a ConfigMap.
func (s *Store) usersOfClassTypes(configMap string) (users []string) {
	for _, c := range s.classes.list() {
		if c.Spec.VMType != nil && c.Spec.VMType.ConfigMap == configMap {
			users = append(users, s.UsersOfClasses()[c.Name]...)
		}
	}
	return users
}

func trimClass(c *v1.VirtualMachineClass) {
	c.TypeMeta, c.ManagedFields = metav1.TypeMeta{}, nil
	delete(c.Annotations, corev1.LastAppliedConfigAnnotation)
}

// trimNode keeps what says which VMs can run on a node.
func trimNode(n *corev1.Node) {
	kept := corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion, Labels: n.Labels,
	}}
	kept.Spec.Taints = n.Spec.Taints
	kept.Status.Allocatable = corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if quantity, is := n.Status.Allocatable[name]; is {
			kept.Status.Allocatable[name] = quantity
		}
	}
	*n = kept
}
