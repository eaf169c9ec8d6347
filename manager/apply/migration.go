package apply

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/decide"
	"vmop/manager/objects"
)

// Migration writes how far the migration of the VM's guest is, and the ordinal of its pod, and reports whether it
// did: not if the VM has been changed since the snapshot.
func (r *Round) Migration(ctx context.Context, record *v1.Migration, ordinal int32) (written bool, err error) {
	text, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": r.VM.UID, "resourceVersion": r.VM.ResourceVersion},
		"status":   map[string]any{"migration": whole(record), "podOrdinal": ordinal},
	})
	if err != nil {
		return false, err
	}
	vm := &metav1.PartialObjectMetadata{}
	vm.SetGroupVersionKind(v1.GroupVersion().WithKind("VirtualMachine"))
	vm.Name, vm.Namespace = r.VM.Name, r.VM.Namespace
	err = r.w.client.Status().Patch(ctx, vm, client.RawPatch(types.MergePatchType, text), managerOwner)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		r.retryAt(r.Now.Add(staleRetry))
		return false, nil
	case err != nil:
		return false, fmt.Errorf("write into the status of VM %s how far its migration is: %w", r.VM.Name, err)
	}
	r.memory.status = objects.VersionOf(vm)
	if e := decide.MigrationEvent(record); e != nil {
		r.event(ctx, *e)
	}
	return true, nil
}

// whole returns a record of which a merge leaves nothing of an earlier one.
func whole(m *v1.Migration) any {
	return struct {
		*v1.Migration

		Message      string            `json:"message"`
		Source       any               `json:"source"`
		Target       any               `json:"target"`
		NodeSelector map[string]string `json:"nodeSelector"`
		EndTime      *metav1.Time      `json:"endTime"`
		Transferred  int64             `json:"transferred"`
	}{m, m.Message, wholePod(m.Source), wholePod(m.Target), m.NodeSelector, m.EndTime, m.Transferred}
}

func wholePod(p v1.MigrationPod) any {
	return map[string]any{"pod": p.Pod, "podUID": p.PodUID, "nodeName": p.NodeName}
}
