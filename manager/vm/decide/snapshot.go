package decide

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

// Snapshot contains what is known of a VM when a reconciliation begins. It is immutable. Objects that don't exist are
// nil.
type Snapshot struct {
	// VM includes what its class provides; see package class.
	VM       *v1.VirtualMachine
	Class    ClassOf
	Now      time.Time
	Settings objects.Settings
	// Pod is the pod that the VM's StatefulSet has created, as [WithoutNode] returns it.
	Pod *corev1.Pod
	// Other is the second pod of the VM's StatefulSet: the source or target of a current or finished migration.
	Other *corev1.Pod
	// Strays are running pods with the VM's label that its StatefulSet has not created.
	Strays []*corev1.Pod

	StatefulSet, ConfigMap, Service, DisruptionBudget *objects.Metadata
	// Drained is set if Pod's node accepts no more pods.
	Drained bool
	// Types is the ConfigMap with the VM's custom types.
	Types *objects.Metadata
	// Secrets are the display secrets with the VM's label.
	Secrets []objects.Metadata
	// Data are the Secrets from which the guest configures itself, each of the required type, in the order of
	// objects.DataSecrets.
	Data []*objects.Metadata
	// Claims are the existing claims by name.
	Claims map[string]metav1.ObjectMeta
	// ClaimRecords are the records of claims, by the claim's name.
	ClaimRecords map[string]*objects.Metadata
	// MadeClaims are the UIDs of the claims that this process has created for the VM.
	MadeClaims map[string]types.UID
	// Source is the snapshot from which missing claims are created; nil without a snapshot.
	Source *v1.VirtualMachineSnapshot
}

// Situation contains everything that determines a VM's future.
type Situation struct {
	*Snapshot
	// Obstacle keeps the VM from starting. A running VM continues to run.
	Obstacle Obstacle
	// Failures include the failure of the current pod.
	Failures *v1.Failures
}

// Wanted reports whether the VM should run, according to its definition.
func (s *Snapshot) Wanted() bool { return s.VM.Spec.DesiredState() == v1.Running }

// Elsewhere reports whether the guest may be running in a pod that this manager has not created, with a runner that
// reads the VM's ConfigMap: for example a pod of VM-Operator. The objects that such a pod depends on are left alone.
//
// See docs/decisions/0148-takeover.md.
func (s *Snapshot) Elsewhere() bool { return len(s.Strays) > 0 || s.ForeignStatefulSet() }

// ForeignStatefulSet reports whether another program created the StatefulSet with the VM's name. VM-Operator before
// 3.4 created a StatefulSet for each VM, and its pod has the same name as ours. One of our StatefulSets that has
// lost its hash still has a controller.
func (s *Snapshot) ForeignStatefulSet() bool {
	return s.StatefulSet != nil && s.StatefulSet.Annotations[objects.AnnotationApplied] == "" &&
		metav1.GetControllerOfNoCopy(s.StatefulSet) == nil
}

// Settled reports whether the VM is in the state that its user wants, as far as the user can see. In this case
// pending writes are not urgent.
func (s *Snapshot) Settled() bool {
	if s.VM.Generation != s.VM.Status.ObservedGeneration || s.VM.Status.Phase == "" || Terminating(s.Pod) {
		return false
	}
	if s.Wanted() {
		return isContainerRunning(s.Pod)
	}
	return s.Pod == nil
}
