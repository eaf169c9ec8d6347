package apply

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
)

// TypeImage writes the VM types of an image into the VM's ConfigMap for them, and the image's digest into the
// status, unless both are up to date. It reports whether it wrote either; the VM is reconciled again in that case.
func (r *Round) TypeImage(ctx context.Context, pin v1.VMTypeImage, t objects.FetchedTypes) (
	bool, decide.Obstacle, error,
) {
	const kind = objects.KindConfigMap
	if taken := notOurs(kind, r.VM, r.Types); taken != nil {
		return false, taken, nil
	}
	written := false
	if !decide.HasTypes(r.Types, t.Pinned, r.Settings) {
		configuration, err := objects.TypeImageConfigMap(r.VM, r.Settings, t)
		if err != nil {
			message := "spec.vmType.image: " + err.Error()
			return false, decide.Stalled{Reason: decide.ReasonTypesMissing, Message: message}, nil
		}
		name := objects.TypeImageName(r.VM.Name)
		text, err := json.Marshal(configuration)
		if err == nil {
			_, err = r.patchObject(ctx, kind, name, types.ApplyPatchType, text, client.ForceOwnership)
		}
		if err != nil {
			return false, decide.Refused(err), fmt.Errorf("write the VM types of VM %s: %w", r.VM.Name, err)
		}
		written = true
	}
	if is := r.VM.Status.VMTypeImage; is == nil || *is != pin {
		if _, err := r.patchStatus(ctx, map[string]any{"vmTypeImage": pin}); err != nil {
			return false, nil, fmt.Errorf("write into the status of VM %s what its VM type is: %w", r.VM.Name, err)
		}
		written = true
	}
	return written, nil, nil
}

// NoTypeImage removes the digest of an image that the VM no longer uses from the status.
func (r *Round) NoTypeImage(ctx context.Context) error {
	if _, err := r.patchStatus(ctx, map[string]any{"vmTypeImage": nil}); err != nil {
		return fmt.Errorf("remove the image of the VM type from the status of VM %s: %w", r.VM.Name, err)
	}
	return nil
}
