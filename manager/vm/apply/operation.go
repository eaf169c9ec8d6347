package apply

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/operation"
	"vmop/manager/vm/decide"
)

// OperationStatus writes the status of an operation, and reports whether it succeeded. It writes no status if the
// operation is gone or has changed since the version in o. After a successful write, o contains the new version.
func (w *Writer) OperationStatus(ctx context.Context, o *v1.VirtualMachineOperation) (written bool, err error) {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": o.ResourceVersion, "uid": o.UID}, "status": o.Status,
	})
	if err != nil {
		return false, fmt.Errorf("write the status of the operation %s: %w", o.Name, err)
	}
	after := &v1.VirtualMachineOperation{ObjectMeta: metav1.ObjectMeta{Name: o.Name, Namespace: o.Namespace}}
	err = w.client.Status().Patch(ctx, after, client.RawPatch(types.MergePatchType, patch), managerOwner)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return false, nil // the watch delivers the change
	case err != nil:
		return false, fmt.Errorf("write the status of the operation %s: %w", o.Name, err)
	}
	o.ResourceVersion = after.ResourceVersion
	return true, nil
}

// RemoveOperation deletes a finished operation.
func (w *Writer) RemoveOperation(ctx context.Context, o *v1.VirtualMachineOperation) error {
	err := w.client.Delete(ctx, o.DeepCopy(), client.Preconditions{UID: &o.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove the finished operation %s: %w", o.Name, err)
	}
	return nil
}

// atOnce is the grace period, in seconds, of a pod when its guest isn't asked to shut down. With 0 the pod would
// disappear from the API server while QEMU may still be running.
const atOnce = 1

// Signal sends the signal of an operation, and returns the VM's generation afterward. It deletes the pod in the same
// reconciliation, before the StatefulSet's controller can notice the change to zero replicas. The kubelet keeps to
// the first grace period that it receives, and the controller would use the guest's grace period.
func (w *Writer) Signal(ctx context.Context, s operation.Signal, vm *v1.VirtualMachine, pod *corev1.Pod) (
	generation int64, err error,
) {
	generation = vm.Generation
	if s.Patch != nil {
		after := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: vm.Name, Namespace: vm.Namespace}}
		if err := w.client.Patch(ctx, after, client.RawPatch(s.PatchType, s.Patch), managerOwner); err != nil {
			return 0, fmt.Errorf("change VM %s: %w", vm.Name, err)
		}
		generation = after.Generation
	}
	if s.DeletePod == "" {
		return generation, nil
	}
	options := []client.DeleteOption{client.Preconditions{UID: &s.DeletePod}}
	if s.AtOnce {
		options = append(options, client.GracePeriodSeconds(atOnce))
	}
	err = w.client.Delete(ctx, pod.DeepCopy(), options...)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return 0, fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	return generation, nil
}

// Requester returns the printable name of the user who requested an operation, or "" if the user is unknown.
func Requester(o *v1.VirtualMachineOperation) string {
	return decide.User(o.Annotations[v1.AnnotationRequestedBy])
}

// OperationRequested writes an event after an operation's signal was sent.
func (w *Writer) OperationRequested(ctx context.Context, s *decide.Snapshot, o *v1.VirtualMachineOperation) {
	r := Round{Snapshot: s, w: w}
	user, what := Requester(o), string(o.Spec.Type)
	if o.Spec.Force {
		what += " by force"
	}
	note := fmt.Sprintf("%s (VirtualMachineOperation %s)", what, o.Name)
	e := decide.Requested(string(o.Spec.Type), cmp.Or(user, "someone"), note, string(o.UID))
	r.eventOf(ctx, e, user)
}

// OperationFailed writes an event about a failed operation.
func (w *Writer) OperationFailed(ctx context.Context, s *decide.Snapshot, o *v1.VirtualMachineOperation) {
	note := fmt.Sprintf("%s requested by %s has failed: %s: %s (VirtualMachineOperation %s)", o.Spec.Type,
		cmp.Or(Requester(o), "someone"), o.Status.Reason, o.Status.Message, o.Name)
	r := Round{Snapshot: s, w: w}
	r.recordEvent(ctx, decide.Event{
		Reason: "OperationFailed", Action: string(o.Spec.Type), Initiator: decide.ByUser, Note: decide.Readable(note),
		Key: string(o.UID), Warning: true,
	})
}
