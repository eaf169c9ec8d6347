package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
)

func newDelete(f *flags) *cobra.Command {
	var form string
	var disks bool
	var w waiting
	cmd := &cobra.Command{
		Use: "delete NAME", Short: "Delete a VM, and keep its disks", GroupID: groupChange,
		Long: "Shut the guest down and delete the VM. The claims of its disks are kept, and a new VM of\n" +
			"the same name uses them. --disks deletes them with all their data.",
		Example: "  kubectl vmop delete web --wait\n  kubectl vmop delete web --disks",
	}
	f.oneVM(cmd)
	doneFlag(cmd, &form)
	cmd.Flags().BoolVar(&disks, "disks", false, "also delete the disks, with all their data")
	w.addFlags(cmd, "the guest has shut down and the VM is deleted")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch m, err := f.viaManager(cmd); {
		case err != nil:
			return err
		case m != nil:
			return m.deleteVM(cmd, args, disks, form, w)
		}
		c, vm, err := f.findVM(cmd, args)
		if err != nil {
			return err
		}
		ctx, cancel := w.waitContext(cmd.Context())
		defer cancel()
		claims, err := c.claimsOf(ctx, vm.Name)
		if err != nil {
			return err
		}
		if err := c.deleteVM(ctx, vm, w.wait); err != nil {
			return err
		}
		for i, claim := range claims {
			if !disks {
				if i == 0 {
					cmd.PrintErrf("%d claims stay; delete them by: kubectl delete pvc -n %s -l %s\n",
						len(claims), c.namespace, ofVM(vm.Name))
				}
				continue
			}
			if err := c.core.PersistentVolumeClaims(c.namespace).Delete(ctx, claim.Name, metav1.DeleteOptions{
				Preconditions: metav1.NewUIDPreconditions(string(claim.UID)),
			}); err != nil {
				return fmt.Errorf("delete a disk of VM %s: %w", vm.Name, err)
			}
			cmd.PrintErrln("persistentvolumeclaim/"+claim.Name, "deleted")
		}
		return printDone(cmd, form, vm, vmKind, vm.Name, "deleted")
	}
	return cmd
}

// deleteVM deletes a VM. Kubernetes then deletes its pod and its other objects, except its claims.
func (c *cluster) deleteVM(ctx context.Context, vm *v1.VirtualMachine, wait bool) error {
	err := c.vms.Delete(ctx, vm.Name, deleteOptions(vm, wait))
	if err != nil || !wait {
		return c.explainVM(vm.Name, err)
	}
	_, err = c.awaitVM(ctx, vm.Name, func(now *v1.VirtualMachine) (bool, error) {
		return now == nil || now.UID != vm.UID, nil
	})
	return err
}

// ofVM selects the objects of a VM.
func ofVM(name string) string {
	return labels.SelectorFromSet(labels.Set{objects.LabelName: objects.AppName, objects.LabelInstance: name}).String()
}

// claimsOf returns the claims of a VM.
func (c *cluster) claimsOf(ctx context.Context, name string) ([]corev1.PersistentVolumeClaim, error) {
	list, err := c.core.PersistentVolumeClaims(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: ofVM(name)})
	if err != nil {
		return nil, fmt.Errorf("list the disks of VM %s: %w", name, err)
	}
	return list.Items, nil
}
