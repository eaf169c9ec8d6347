package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// fleetingTime is how long a phase that every VM passes through stays unpublished.
const fleetingTime = 2 * time.Second

// staleRetry is the delay before another reconciliation after a snapshot was out of date.
const staleRetry = 100 * time.Millisecond

// Status publishes the manager's part of the VM's status if it has changed. It writes the events about the change
// first.
func (r *Round) Status(ctx context.Context, s decide.Situation, found decide.Findings, p decide.Phase) error {
	status := decide.Status(s, found, p)
	if decide.SameStatus(status, r.VM.Status) {
		r.memory.fleeting = time.Time{}
		return nil
	}
	if r.isFleeting(p) || p.Phase == r.VM.Status.Phase && !r.mayWrite() {
		return nil
	}
	for _, e := range decide.Events(s, found, p) {
		r.recordEvent(ctx, e)
	}
	var unless string // the write fails if the VM has another version
	if r.VM.Status.Runner == nil {
		unless = r.VM.ResourceVersion // protects the first report of a runner
	}
	version, err := r.writeStatus(ctx, unless, complete{status, status.Reason, status.Message}, managerOwner)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // the VM was deleted or replaced
	case err != nil:
		if decide.Refused(err) != nil { // the status can't report this
			r.recordEvent(ctx, decide.StatusRefused(r.VM.Generation, decide.Readable(err.Error())))
		}
		return fmt.Errorf("write the status of VM %s: %w", r.VM.Name, err)
	}
	r.memory.status = version
	if start, ended := decide.StartOf(r.Snapshot, p); ended {
		r.w.started(start)
	}
	return nil
}

// complete is the manager's part of a status, including empty fields. New VMs start with a reason and a message from
// the resource's definition, which they would otherwise keep.
type complete struct {
	v1.VirtualMachineStatus

	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// isFleeting reports whether a phase is still too short-lived to publish.
func (r *Round) isFleeting(p decide.Phase) bool {
	if !p.Fleeting || r.VM.DeletionTimestamp != nil {
		r.memory.fleeting = time.Time{}
		return false
	}
	if r.memory.fleeting.IsZero() {
		r.memory.fleeting = r.Now
	}
	until := r.memory.fleeting.Add(fleetingTime)
	if !r.Now.Before(until) {
		return false
	}
	r.retryAt(until)
	return true
}

// FinalStatus writes the runner's part of the status on behalf of a runner that can no longer report the end of its
// machine. It reports whether it did. Since the snapshot may be out of date, and the status of a new runner must not
// be overwritten, FinalStatus reads the pod first.
func (r *Round) FinalStatus(ctx context.Context) (bool, error) {
	if !r.NeedsFinalStatus(r.Pod) {
		return false, nil
	}
	name, live := objects.PodName(r.VM.Name, r.VM.Status.PodOrdinal), &corev1.Pod{}
	err := r.w.live.Get(ctx, r.namespacedName(name), live)
	switch {
	case apierrors.IsNotFound(err):
		live = nil
	case err != nil:
		return false, fmt.Errorf("read pod %s: %w", name, err)
	default:
		live = decide.WithoutNode(live, r.Now)
	}
	if (live == nil) != (r.Pod == nil) || live != nil && live.UID != r.Pod.UID || !r.NeedsFinalStatus(live) {
		r.retryAt(r.Now.Add(staleRetry))
		return false, nil
	}
	version, err := r.writeStatus(ctx, r.VM.ResourceVersion, r.Snapshot.FinalStatus(live), runnerOwner)
	if apierrors.IsConflict(err) { // the runner may have reported after the snapshot
		r.retryAt(r.Now.Add(staleRetry))
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("write the final status of VM %s: %w", r.VM.Name, err)
	}
	r.memory.status = version
	return true, nil
}

// patchStatus changes a part of the VM's status before dependent steps are taken, unless the snapshot is out of
// date. It returns the VM's new version, or 0 without a change.
func (r *Round) patchStatus(ctx context.Context, part map[string]any) (uint64, error) {
	vm := &metav1.PartialObjectMetadata{}
	vm.SetGroupVersionKind(v1.GroupVersion().WithKind("VirtualMachine"))
	vm.Name, vm.Namespace = r.VM.Name, r.VM.Namespace
	text, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": r.VM.UID, "resourceVersion": r.VM.ResourceVersion}, "status": part,
	})
	if err != nil {
		return 0, err
	}
	err = r.w.client.Status().Patch(ctx, vm, client.RawPatch(types.MergePatchType, text), managerOwner)
	switch {
	case apierrors.IsNotFound(err):
		return 0, nil
	case apierrors.IsConflict(err):
		r.retryAt(r.Now.Add(staleRetry))
		return 0, nil
	case err != nil:
		return 0, err
	}
	r.memory.status = objects.VersionOf(vm)
	return r.memory.status, nil
}

// writeStatus applies a part of the VM's status, and returns the VM's new version. If version is set and the VM has
// another version, the API server returns a conflict.
func (r *Round) writeStatus(ctx context.Context, version string, status any, owner client.FieldOwner) (uint64, error) {
	vm := r.VM
	text, err := json.Marshal(map[string]any{
		"apiVersion": v1.GroupVersion().String(), "kind": "VirtualMachine",
		"metadata": metav1.ObjectMeta{Name: vm.Name, Namespace: vm.Namespace, UID: vm.UID, ResourceVersion: version},
		"status":   status,
	})
	if err != nil {
		return 0, err
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(v1.GroupVersion().WithKind("VirtualMachine"))
	object.Name, object.Namespace = vm.Name, vm.Namespace
	patch := client.RawPatch(types.ApplyPatchType, text)
	err = r.w.client.Status().Patch(ctx, object, patch, owner, client.ForceOwnership)
	return objects.VersionOf(object), err
}

// TypeSizes writes the sizes that the VM's type decides into its status, before anything follows from them. It reports
// whether it wrote.
func (r *Round) TypeSizes(ctx context.Context, sizes *v1.TypeSizes) (bool, error) {
	if equality.Semantic.DeepEqual(sizes, r.VM.Status.TypeSizes) {
		return false, nil
	}
	var part map[string]any // null removes a size that the type no longer decides
	if sizes != nil {
		part = map[string]any{
			"maximumCpus": sizes.MaximumCPUs, "currentCpus": sizes.CurrentCPUs,
			"maximumRam": sizes.MaximumRAM, "currentRam": sizes.CurrentRAM,
		}
	}
	if _, err := r.patchStatus(ctx, map[string]any{"typeSizes": part}); err != nil {
		return false, fmt.Errorf("write the sizes that the type decides into the status of VM %s: %w", r.VM.Name, err)
	}
	return true, nil
}
