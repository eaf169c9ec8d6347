package apply

import (
	"context"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/class"
)

// A ClassWriter writes what the manager of a namespace has to say about classes. Managers of
// other namespaces write the same classes: what all say alike has one owner, and what is of
// one namespace has its own.
type ClassWriter struct {
	Client    Client
	Namespace string
}

func (w ClassWriter) own() client.FieldOwner {
	return managerOwner + client.FieldOwner("/"+w.Namespace)
}

// Status writes what all managers say alike.
func (w ClassWriter) Status(ctx context.Context, c *v1.VirtualMachineClass, s v1.VirtualMachineClassStatus) error {
	return w.apply(ctx, c, map[string]any{"status": s}, managerOwner, true)
}

// Use writes who uses the class in the namespace; no VM is no entry.
func (w ClassWriter) Use(ctx context.Context, c *v1.VirtualMachineClass, use v1.ClassUse) error {
	var all []v1.ClassUse
	if use.Count > 0 {
		all = append(all, use)
	}
	return w.apply(ctx, c, map[string]any{"status": map[string]any{"usedBy": all}}, w.own(), true)
}

// Protect makes the deletion of a class wait for the VMs of the namespace, or no longer.
func (w ClassWriter) Protect(ctx context.Context, c *v1.VirtualMachineClass, protect bool) error {
	var finalizers []string
	if protect {
		finalizers = append(finalizers, class.Finalizer(w.Namespace))
	}
	metadata := metav1.ObjectMeta{Finalizers: finalizers}
	return w.apply(ctx, c, map[string]any{"metadata": metadata}, w.own(), false)
}

// apply applies a part of a class. A class that is gone is not made again: no manager has the
// right to, and another one of its name has another uid.
func (w ClassWriter) apply(ctx context.Context, c *v1.VirtualMachineClass, part map[string]any,
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
