package apply

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/store/publish"
	"vmop/manager/vm/class"
)

// ClassWriter writes into classes what the manager of a namespace knows about them. Managers of other namespaces write
// the same classes. Fields with the same value for all managers share a single field owner; fields about one namespace
// have their own owner.
type ClassWriter struct {
	Client    publish.Client
	Namespace string
}

func (w ClassWriter) fieldOwner() client.FieldOwner {
	return managerOwner + client.FieldOwner("/"+w.Namespace)
}

// Status writes the fields with the same value for all managers.
func (w ClassWriter) Status(ctx context.Context, c *v1.VirtualMachineClass, s v1.VirtualMachineClassStatus) error {
	return w.applyPart(ctx, c, map[string]any{"status": s}, managerOwner, true)
}

// Use writes who uses the class in the namespace. A count of zero removes the entry.
func (w ClassWriter) Use(ctx context.Context, c *v1.VirtualMachineClass, use v1.ClassUse) error {
	var status v1.VirtualMachineClassStatus
	if use.Count > 0 {
		status.UsedBy = []v1.ClassUse{use}
	}
	return w.applyPart(ctx, c, map[string]any{"status": status}, w.fieldOwner(), true)
}

// Protect adds or removes the finalizer that delays the deletion of a class as long as VMs of the namespace use it.
func (w ClassWriter) Protect(ctx context.Context, c *v1.VirtualMachineClass, protect bool) error {
	var finalizers []string
	if protect {
		finalizers = append(finalizers, class.Finalizer(w.Namespace))
	}
	metadata := metav1.ObjectMeta{Finalizers: finalizers}
	return w.applyPart(ctx, c, map[string]any{"metadata": metadata}, w.fieldOwner(), false)
}

// applyPart applies a part of a class. It does not create a deleted class again: managers lack the right to create
// classes, and a new class with the same name has another UID.
func (w ClassWriter) applyPart(ctx context.Context, c *v1.VirtualMachineClass, part map[string]any,
	owner client.FieldOwner, status bool,
) error {
	metadata, _ := part["metadata"].(metav1.ObjectMeta)
	metadata.Name, metadata.UID = c.Name, c.UID
	part["apiVersion"], part["kind"], part["metadata"] = v1.GroupVersion().String(), "VirtualMachineClass", metadata
	text, err := json.Marshal(part)
	if err != nil {
		return fmt.Errorf("write VirtualMachineClass %s: %w", c.Name, err)
	}
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(v1.GroupVersion().WithKind("VirtualMachineClass"))
	object.Name = c.Name
	patch := client.RawPatch(types.ApplyPatchType, text)
	if status {
		err = w.Client.Status().Patch(ctx, object, patch, owner, client.ForceOwnership)
	} else {
		err = w.Client.Patch(ctx, object, patch, owner, client.ForceOwnership)
	}
	if err != nil {
		return fmt.Errorf("write VirtualMachineClass %s: %w", c.Name, err)
	}
	return nil
}
