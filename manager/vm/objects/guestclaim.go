package objects

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// DataClaimNames returns the possible claim names for the data of a VM's two runners.
func DataClaimNames(vm *v1.VirtualMachine) []string {
	var names []string
	for ordinal := range int32(2) {
		of := dataClaim(vm, ordinal).withSuffix(vm)
		names = append(names, of.name)
		if of.newer != "" {
			names = append(names, of.newer)
		}
	}
	return names
}

// OrdinalByClaims returns the ordinal of the pod that received the guest of a VM last, according to the existing
// claims of DataClaimNames. It returns 0 if the guest has never moved. A wrong guess doesn't create a second guest:
// a runner that its guest has left doesn't start another guest.
//
// See docs/decisions/0138-migration-in-the-cluster.md.
func OrdinalByClaims(vm *v1.VirtualMachine, existing map[string]metav1.ObjectMeta) (ordinal int32) {
	var last time.Time
	for i := range int32(2) {
		name, exists := dataClaim(vm, i).withSuffix(vm).findExisting(vm, existing)
		if since := guestSince(existing[name]); exists && since.After(last) {
			ordinal, last = i, since
		}
	}
	return ordinal
}

// MarkGuest returns the data claim of the runner that has received the guest of a VM, and the merge patch that
// records the time of the move in it. It returns nil if the guest hasn't moved, or the claim already contains the
// time.
func MarkGuest(vm *v1.VirtualMachine, existing map[string]metav1.ObjectMeta) (claim string, patch []byte) {
	m := vm.Status.Migration
	if m == nil || m.Stage != v1.MigrationCompleted || m.EndTime == nil {
		return "", nil
	}
	name, exists := dataClaim(vm, vm.Status.PodOrdinal).withSuffix(vm).findExisting(vm, existing)
	if !exists || !guestSince(existing[name]).Before(m.EndTime.Time) {
		return "", nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{AnnotationGuestSince: m.EndTime.UTC().Format(time.RFC3339)},
	}})
	if err != nil {
		return "", nil // unreachable: strings can be encoded
	}
	return name, patch
}

// guestSince returns the time that a claim records, or zero without a record.
func guestSince(claim metav1.ObjectMeta) time.Time {
	since, err := time.Parse(time.RFC3339, claim.Annotations[AnnotationGuestSince])
	if err != nil {
		return time.Time{}
	}
	return since
}
