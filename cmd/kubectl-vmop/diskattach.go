package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/manager/operation/act"
)

// attachmentKind is kubectl's name for the kind of an attachment.
const attachmentKind = "virtualmachineblockdeviceattachment." + v1.GroupName

// awaiting contains the flags of a verb that waits by default.
type awaiting struct{ waiting }

func (w *awaiting) addFlags(cmd *cobra.Command, until string) {
	w.waiting.addFlags(cmd, until)
	w.wait = true
	wait := cmd.Flags().Lookup("wait")
	wait.DefValue, wait.Usage = "true", wait.Usage+"; --wait=false returns immediately"
}

// takesVM makes a verb require the names of a VM and of a disk or image, and complete them.
func (n noun) takesVM(f *flags, cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		vm, rest := splitName(args)
		if vm == "" || len(rest) != 1 || n.bareName(rest[0]) == "" {
			return cli.UsageError{Err: errors.New("usage: " + usageOf(cmd))}
		}
		return nil
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			return f.vmNames(cmd), cobra.ShellCompDirectiveNoFileComp
		case 1:
			return n.objectNames(f, cmd), cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

func newDiskAttach(f *flags) *cobra.Command {
	return newAttach(f, diskNoun(), diskRef, &cobra.Command{
		Use: "attach VM DISK", Short: "Attach a disk to a VM while its guest runs",
		Long: "Attach a disk to a VM with a VirtualMachineBlockDeviceAttachment named VM-DISK, and wait\n" +
			"until the guest has the disk. It stays attached across restarts. The guest finds it in\n" +
			"/dev/disk/by-id.",
		Example: "  kubectl vmop disk attach web web-data",
	})
}

func newImageAttach(f *flags) *cobra.Command {
	return newAttach(f, anyImages(), imageRef, &cobra.Command{
		Use: "attach VM IMAGE", Short: "Attach an image to a VM while its guest runs",
		Long: "Attach an image to a VM with a VirtualMachineBlockDeviceAttachment named VM-IMAGE-vi,\n" +
			"and wait until the guest has it: a CD image in a CD drive if the VM type supports that\n" +
			"for running guests, any other image as a read-only disk. It stays attached across\n" +
			"restarts. For an image of the cluster use cvi/NAME.",
		Example: "  kubectl vmop image attach web virtio-win\n  kubectl vmop image attach web cvi/virtio-win",
	})
}

// newAttach returns the verb that attaches an object of a noun.
func newAttach(f *flags, n noun, ref func(string) v1.AttachedDeviceRef, cmd *cobra.Command) *cobra.Command {
	var form string
	var w awaiting
	n.takesVM(f, cmd)
	doneFlag(cmd, &form)
	w.addFlags(cmd, "the guest has the "+n.word)
	cmd.RunE = f.inCluster(&w.waiting, func(ctx context.Context, cmd *cobra.Command, c *cluster, args []string) error {
		vm, rest := splitName(args)
		of := ref(rest[0])
		a := act.NewAttachment("", vm, of.Kind, of.Name)
		create := metav1.CreateOptions{FieldManager: fieldManager}
		a, err := c.attachments.Create(ctx, typedAttachment(a), create)
		if err != nil {
			return unknownKind(err)
		}
		if w.wait {
			if a, err = c.awaitAttachment(ctx, cmd, a.Name, isAttached); err != nil {
				return err
			}
		}
		return printDone(cmd, form, typedAttachment(a), attachmentKind, a.Name, doneText(w.wait, "attached", "created"))
	})
	return cmd
}

func newDiskDetach(f *flags) *cobra.Command {
	return newDetach(f, diskNoun(), diskRef, &cobra.Command{
		Use: "detach VM DISK", Short: "Detach a disk from a VM while its guest runs",
		Long: "Detach a disk from a VM: delete its VirtualMachineBlockDeviceAttachments, and wait until\n" +
			"the guest has released it. Unmount it first. A disk in the VM's definition cannot be\n" +
			"detached.",
		Example: "  kubectl vmop disk detach web web-data",
	})
}

func newImageDetach(f *flags) *cobra.Command {
	return newDetach(f, anyImages(), imageRef, &cobra.Command{
		Use: "detach VM IMAGE", Short: "Detach an image from a VM while its guest runs",
		Long: "Detach an image from a VM: delete its VirtualMachineBlockDeviceAttachments, and wait\n" +
			"until the guest has released it. Unmount it first. An image in the VM's definition\n" +
			"cannot be detached.",
		Example: "  kubectl vmop image detach web virtio-win",
	})
}

// newDetach returns the verb that detaches an object of a noun.
func newDetach(f *flags, n noun, ref func(string) v1.AttachedDeviceRef, cmd *cobra.Command) *cobra.Command {
	var form string
	var w awaiting
	n.takesVM(f, cmd)
	doneFlag(cmd, &form)
	w.addFlags(cmd, "the guest has released the "+n.word)
	cmd.RunE = f.inCluster(&w.waiting, func(ctx context.Context, cmd *cobra.Command, c *cluster, args []string) error {
		vm, rest := splitName(args)
		all, err := c.attachmentsOf(ctx, vm, n.word, ref(rest[0]))
		if err != nil {
			return err
		}
		for i := range all {
			a := &all[i]
			if err := c.attachments.Delete(ctx, a.Name, metav1.DeleteOptions{
				Preconditions: metav1.NewUIDPreconditions(string(a.UID)),
			}); err != nil && !isMissingObject(err) {
				return err
			}
			if w.wait {
				gone := func(now *v1.VirtualMachineBlockDeviceAttachment) (bool, error) {
					return now == nil || now.UID != a.UID, nil
				}
				if _, err := c.awaitAttachment(ctx, cmd, a.Name, gone); err != nil {
					return err
				}
			}
			what := doneText(w.wait, "detached", "deleted")
			if err := printDone(cmd, form, typedAttachment(a), attachmentKind, a.Name, what); err != nil {
				return err
			}
		}
		return nil
	})
	return cmd
}

// doneText returns is if the verb has waited for its effect, otherwise asked.
func doneText(waited bool, is, asked string) string {
	if waited {
		return is
	}
	return asked
}

func typedAttachment(a *v1.VirtualMachineBlockDeviceAttachment) *v1.VirtualMachineBlockDeviceAttachment {
	a.SetGroupVersionKind(v1.GroupVersion().WithKind("VirtualMachineBlockDeviceAttachment"))
	return a
}

// attachmentsOf returns the attachments of a disk or image to a VM, at least one. noun is the word for the device
// in errors.
func (c *cluster) attachmentsOf(ctx context.Context, vm, noun string, of v1.AttachedDeviceRef) (
	[]v1.VirtualMachineBlockDeviceAttachment, error,
) {
	list, err := c.attachments.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, unknownKind(err)
	}
	all := slices.DeleteFunc(list.Items, func(a v1.VirtualMachineBlockDeviceAttachment) bool {
		return a.Spec.VirtualMachineName != vm || a.Spec.BlockDeviceRef != of
	})
	if len(all) == 0 {
		return nil, hinted{
			fmt.Errorf("there is no attachment of the %s %s to the VM %s in namespace %s", noun, of.Name, vm, c.namespace),
			"list them by: kubectl get vmbda -o wide; what is part of the VM's definition is not detached",
		}
	}
	return all, nil
}

// awaitAttachment waits until an attachment reaches a goal, shows its progress, and returns it.
func (c *cluster) awaitAttachment(
	ctx context.Context, cmd *cobra.Command, name string,
	wanted func(*v1.VirtualMachineBlockDeviceAttachment) (bool, error),
) (*v1.VirtualMachineBlockDeviceAttachment, error) {
	shown := cli.NewProgress(cmd)
	defer shown.End()
	return awaitObject(ctx, c.attachments, name, func(a *v1.VirtualMachineBlockDeviceAttachment) (bool, error) {
		reached, err := wanted(a)
		if a != nil && !reached && err == nil && a.Status.Message != "" {
			shown.Show(string(a.Status.Phase)+a.Status.Reason, calledIn(a)+": "+
				pendingText(string(a.Status.Phase), a.Status.Reason, strings.TrimSpace(a.Status.Message)))
		}
		return reached, err
	})
}

// isAttached is the goal of a guest with the disk.
func isAttached(a *v1.VirtualMachineBlockDeviceAttachment) (bool, error) {
	switch {
	case a == nil:
		return false, errors.New("the attachment has been deleted meanwhile")
	case a.Status.Phase == v1.AttachmentFailed:
		return false, fmt.Errorf("the %s is not attached: %s: %s", calledIn(a), a.Status.Reason,
			cli.Printable(a.Status.Message))
	}
	return a.Status.Phase == v1.AttachmentAttached, nil
}

// calledIn returns the word and the name of an attachment's disk or image.
func calledIn(a *v1.VirtualMachineBlockDeviceAttachment) string {
	of := a.Spec.BlockDeviceRef
	if of.Kind.IsImage() {
		return "image " + of.Name
	}
	return "disk " + of.Name
}
