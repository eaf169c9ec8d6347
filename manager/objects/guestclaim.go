package objects

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// DataClaimNames returns the names that the claims for the data of a VM's two runners can have.
func DataClaimNames(vm *v1.VirtualMachine) []string {
	var names []string
	for ordinal := range int32(2) {
		of := dataClaim(vm, ordinal).suffixed(vm)
		names = append(names, of.name)
		if of.newer != "" {
			names = append(names, of.newer)
		}
	}
	return names
}

// OrdinalByClaims returns the ordinal of the pod to which the guest of a VM has moved last, as the claims of
// DataClaimNames say that exist; 0 if it has never moved. A guess that is wrong makes no second guest: a runner whose
// guest has left starts none.
//
// See docs/decisions/0138-migration-in-the-cluster.md.
func OrdinalByClaims(vm *v1.VirtualMachine, existing map[string]metav1.ObjectMeta) (ordinal int32) {
	var last time.Time
	for i := range int32(2) {
		name, exists := dataClaim(vm, i).suffixed(vm).among(vm, existing)
		if since := guestSince(existing[name]); exists && since.After(last) {
			ordinal, last = i, since
		}
	}
	return ordinal
}

// MarkGuest returns the claim for the data of the runner to which the guest of a VM has moved, and the merge patch that
// says in it since when; nil if the guest hasn't moved, or the claim says it.
func MarkGuest(vm *v1.VirtualMachine, existing map[string]metav1.ObjectMeta) (claim string, patch []byte) {
	m := vm.Status.Migration
	if m == nil || m.Stage != v1.MigrationCompleted || m.EndTime == nil {
		return "", nil
	}
	name, exists := dataClaim(vm, vm.Status.PodOrdinal).suffixed(vm).among(vm, existing)
	if !exists || !guestSince(existing[name]).Before(m.EndTime.Time) {
		return "", nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{AnnotationGuestSince: m.EndTime.UTC().Format(time.RFC3339)},
	}})
	if err != nil {
		return "", nil // strings can be encoded
	}
	return name, patch
}

// guestSince is what a claim says; zero if it says nothing.
func guestSince(claim metav1.ObjectMeta) time.Time {
	since, err := time.Parse(time.RFC3339, claim.Annotations[AnnotationGuestSince])
	if err != nil {
		return time.Time{}
	}
	return since
}
