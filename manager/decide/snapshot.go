package decide

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
)

// A Snapshot is what is known of a VM when a reconciliation begins. It is not changed
// afterwards. Objects that don't exist are nil.
type Snapshot struct {
	// VM has what its class gives it: package class resolves it.
	VM       *v1.VirtualMachine
	Class    ClassOf
	Now      time.Time
	Settings objects.Settings
	// Pod is the one that the VM's stateful set has made, as [WithoutNode] returns it.
	Pod *corev1.Pod
	// Other is the second pod of the VM's stateful set: its guest is being moved from there, or to
	// there, or has been.
	Other *corev1.Pod
	// Strays are running pods that have the VM's label, and that its stateful set
	// has not made.
	Strays []*corev1.Pod

	StatefulSet, ConfigMap, Service, DisruptionBudget *objects.Metadata
	// Drained: the node of Pod takes no more pods.
	Drained bool
	// Types is the ConfigMap with the VM's custom types.
	Types *objects.Metadata
	// Secrets are the display secrets with the VM's label.
	Secrets []objects.Metadata
	// Data are the Secrets from which the guest configures itself, each of its type, in the
	// order of objects.DataSecrets.
	Data []*objects.Metadata
	// Claims are those that exist, by name.
	Claims map[string]metav1.ObjectMeta
	// ClaimRecords are the records of the claims that have one, by the claim's name.
	ClaimRecords map[string]*objects.Metadata
	// MadeClaims are the uids of those that this process has created for the VM.
	MadeClaims map[string]types.UID
	// Source is the snapshot of which the claims are made that don't exist; nil if there is none.
	Source *v1.VirtualMachineSnapshot
}

// A Situation is what a VM's future depends on.
type Situation struct {
	*Snapshot
	// Obstacle keeps the VM from starting. A VM that is running continues.
	Obstacle Obstacle
	// Failures include that of the present pod.
	Failures *v1.Failures
}

// Wanted reports whether the VM is to run, as its definition says.
func (s *Snapshot) Wanted() bool { return s.VM.Spec.DesiredState() == v1.Running }

// Elsewhere reports whether the guest may be running in a pod that this manager has not made, whose runner reads
// the VM's ConfigMap: that of VM-Operator, say. What such a pod depends on is left alone.
//
// See docs/decisions/0148-takeover.md.
func (s *Snapshot) Elsewhere() bool { return len(s.Strays) > 0 || s.ForeignStatefulSet() }

// ForeignStatefulSet reports whether the StatefulSet of the VM's name was made by another: VM-Operator before 3.4 had
// one for each VM, and its pod has the name that ours has. One of ours that has lost its hash has a controller still.
func (s *Snapshot) ForeignStatefulSet() bool {
	return s.StatefulSet != nil && s.StatefulSet.Annotations[objects.AnnotationApplied] == "" &&
		metav1.GetControllerOfNoCopy(s.StatefulSet) == nil
}

// Settled reports whether the VM is as its user wants it, as far as the user can see:
// then whatever is to be written has time.
func (s *Snapshot) Settled() bool {
	if s.VM.Generation != s.VM.Status.ObservedGeneration || s.VM.Status.Phase == "" || Terminating(s.Pod) {
		return false
	}
	if s.Wanted() {
		return running(s.Pod)
	}
	return s.Pod == nil
}
