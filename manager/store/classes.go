package store

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/class"
)

// Class returns a class, or nil if it does not exist. Callers must not change it.
func (s *Store) Class(name string) *v1.VirtualMachineClass { return s.classes.getObject(name) }

// Classes returns all classes, and the reason if they are not known. Callers must not change them.
func (s *Store) Classes() (all []*v1.VirtualMachineClass, unavailable string) {
	return s.classes.listObjects(), s.classes.whyUnknown()
}

// ClassesUnavailable returns the reason why classes are not known, or "".
func (s *Store) ClassesUnavailable() string { return s.classes.whyUnknown() }

// DefaultClass returns the class for new VMs, or nil.
func (s *Store) DefaultClass() *v1.VirtualMachineClass {
	c, _ := class.DefaultOf(s.classes.listObjects())
	return c
}

// Nodes returns the cluster's nodes with the fields that classes need, and the reason if they are not known.
// Callers must not change them.
func (s *Store) Nodes() (all []*corev1.Node, unavailable string) {
	return s.nodes.listObjects(), s.nodes.whyUnknown()
}

// AwaitNodes waits until the nodes are listed, or can't be. Without this, a manager that has just started would replace
// the status of another manager, which knows the nodes.
func (s *Store) AwaitNodes(ctx context.Context) error {
	select {
	case <-s.nodes.tried:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the list of each Node: %w", context.Cause(ctx))
	}
}

// isDrained reports whether a node refuses new pods, for example while it is being drained.
func isDrained(node *corev1.Node) bool {
	return node != nil && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeUnschedulable
	})
}

// Drained reports whether a node is known to refuse new pods.
func (s *Store) Drained(node string) bool {
	for _, n := range s.nodes.listObjects() {
		if n.Name == node {
			return isDrained(n)
		}
	}
	return false
}

// UsersOfClasses returns the names of the VMs of each class. It visits all records.
func (s *Store) UsersOfClasses() map[string][]string {
	users := map[string][]string{}
	s.vms.eachRecord(func(name string, r record) {
		if class := r.commonOf().class; class != "" {
			users[class] = append(users[class], name)
		}
	})
	return users
}

// ClassesChanged returns a channel that receives after a change of a class, of a node, or of a VM with a class.
// Several changes may send only one value.
func (s *Store) ClassesChanged() <-chan struct{} { return s.uses }

func (s *Store) wakeAll() {
	select {
	case s.uses <- struct{}{}:
	default:
	}
}

// classChanged enqueues the VMs of a class if a field that VMs use has changed. They come after VMs that have
// changed themselves.
func (s *Store) classChanged(was, is *v1.VirtualMachineClass) {
	s.wakeAll()
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

// usersOfClassTypes returns the VMs that get their VM type through their class from a ConfigMap.
func (s *Store) usersOfClassTypes(configMap string) (users []string) {
	for _, c := range s.classes.listObjects() {
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

// trimNode keeps the fields that determine which VMs can run on a node.
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
