package class

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"

	v1 "vmop/api/v1"
)

// Finalizer returns the finalizer that prevents the deletion of a class while VMs of a namespace use it.
func Finalizer(namespace string) string { return namespace + "." + v1.GroupName + "/in-use" }

// Writes lists the parts of a class that a manager must update.
type Writes struct {
	Status, Use, Protect bool
	// Again is when to check again because a write must wait; zero means never.
	Again time.Time
}

// Minimum times between two writes of a manager to the same class. They also limit writes of two managers of
// different versions that disagree.
const (
	statusPause = 30 * time.Second
	usePause    = 10 * time.Second
)

// Last contains when a manager last wrote to a class.
type Last struct{ Status, Use time.Time }

// Differences returns which parts of a class to write. want is the desired status, and use are the VMs of a
// namespace. Changes that users wait for are written immediately, and others only after a pause.
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

// sameStatus reports whether the status contains all fields with the same value for all managers.
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
