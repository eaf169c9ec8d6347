package class

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	v1 "vmop/api/v1"
)

// Finalizer returns the one by which the VMs of a namespace keep a class from being deleted.
func Finalizer(namespace string) string { return namespace + "." + v1.GroupName + "/in-use" }

// Writes are what of a class is not as a manager has it.
type Writes struct {
	Status, Use, Protect bool
	// Again is when to look again because something had to wait; zero: never.
	Again time.Time
}

// Pauses between two writes of a manager about the same class. Two managers of different
// versions, which may say different things, write no more often.
const (
	statusPause = 30 * time.Second
	usePause    = 10 * time.Second
)

// Last is when a manager last wrote about a class.
type Last struct{ Status, Use time.Time }

// Differences returns what of a class is to be written: its status is to be want, and the VMs
// of a namespace are use. What users wait for is written at once, and else only after a pause.
func Differences(c *v1.VirtualMachineClass, want v1.VirtualMachineClassStatus, use v1.ClassUse, last Last,
	now time.Time,
) (w Writes) {
	is := c.Status
	protected := slices.Contains(c.Finalizers, Finalizer(use.Namespace))
	w.Protect = protected != (use.Count > 0) && (protected || c.DeletionTimestamp == nil)
	wait := func(last time.Time, pause time.Duration) bool {
		at := last.Add(pause)
		if !now.Before(at) {
			return true
		}
		if w.Again.IsZero() || at.Before(w.Again) {
			w.Again = at
		}
		return false
	}
	if !sameStatus(want, is) {
		ends := c.DeletionTimestamp != nil && is.Phase != want.Phase
		w.Status = is.ObservedGeneration != c.Generation || ends || wait(last.Status, statusPause)
	}
	var had v1.ClassUse
	if i := slices.IndexFunc(is.UsedBy, func(u v1.ClassUse) bool { return u.Namespace == use.Namespace }); i >= 0 {
		had = is.UsedBy[i]
	}
	if had.Count != use.Count || !slices.Equal(had.VirtualMachines, use.VirtualMachines) {
		w.Use = (had.Count == 0) != (use.Count == 0) || wait(last.Use, usePause)
	}
	return w
}

// sameStatus reports whether all that managers say alike is there.
func sameStatus(want, is v1.VirtualMachineClassStatus) bool {
	for _, kind := range []string{v1.ConditionReady, v1.ConditionDefaultClass} {
		a, b := meta.FindStatusCondition(want.Conditions, kind), meta.FindStatusCondition(is.Conditions, kind)
		if !equality.Semantic.DeepEqual(a, b) {
			return false
		}
	}
	want.Conditions, want.UsedBy, is.Conditions, is.UsedBy = nil, nil, nil, nil
	return equality.Semantic.DeepEqual(want, is)
}
