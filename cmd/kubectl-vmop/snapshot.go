package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/manager/operation/act"
)

// newSnapshot returns the verb with the subcommands for snapshots of VMs and of disks.
func newSnapshot(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "snapshot", Short: "Manage snapshots of VMs and disks", GroupID: groupChange,
		Args: cli.NoArguments,
		Long: "Manage VirtualMachineSnapshots, which contain all disks of a VM and its definition, and\n" +
			"VirtualDiskSnapshots of one VirtualDisk. SNAPSHOT is NAME; use vmsnapshot/NAME or\n" +
			"vdsnapshot/NAME if both kinds have that name. To use a snapshot, run kubectl vmop clone\n" +
			"for a VM or kubectl vmop disk create for a disk.",
		RunE: wantSubcommand,
	}
	cmd.AddCommand(newSnapshotList(f), newSnapshotCreate(f), newSnapshotRemove(f))
	return cmd
}

func newSnapshotList(f *flags) *cobra.Command {
	const long = "List the snapshots of the namespace: the VM (vm/NAME) or disk (vd/NAME), the phase with\n" +
		"its reason, and whether the snapshot is consistent. kubectl describe\n" +
		"vmsnapshot|vdsnapshot shows details."
	return newNounList(f, "snapshot", long, func(cmd *cobra.Command, c *cluster, form string) error {
		all, err := c.listSnapshots(cmd.Context())
		if err != nil {
			return err
		}
		return printSnapshots(cmd, form, all)
	})
}

func newSnapshotCreate(f *flags) *cobra.Command {
	var form, disk string
	var required consistency
	var w awaiting
	cmd := &cobra.Command{
		Use: "create VM|--disk DISK [NAME]", Short: "Create a snapshot of a VM or a disk",
		Long: "Create a snapshot of all disks of a VM, or with --disk of one VirtualDisk, and wait\n" +
			"until it is ready. The default NAME is the time. The guest keeps running; its agent\n" +
			"freezes the file systems for a moment. Ctrl-C only ends the wait.",
		Example: "  kubectl vmop snapshot create web before-upgrade\n" +
			"  kubectl vmop snapshot create --disk web-data",
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if vm, name := snapshotArguments(disk, args); (vm == "") == (disk == "") || len(name) > 1 {
			return cli.UsageError{Err: errors.New("usage: " + usageOf(cmd))}
		}
		return nil
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if disk != "" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f.completeNames(cmd, args, word)
	}
	doneFlag(cmd, &form)
	cmd.Flags().StringVar(&disk, "disk", "", "`NAME` of the VirtualDisk")
	diskNoun().completeFlag(f, cmd, "disk")
	required.addFlag(cmd, "true for a VM, false for a disk")
	w.addFlags(cmd, "VMs or disks can be created from it")
	cmd.RunE = f.inCluster(&w.waiting, func(ctx context.Context, cmd *cobra.Command, c *cluster, args []string) error {
		vm, rest := snapshotArguments(disk, args)
		name := strings.Join(rest, "")
		if name == "" {
			name = act.NameByTime(vm+diskNoun().bareName(disk), time.Now())
		}
		var s anySnapshot
		var err error
		if disk != "" {
			s, err = c.snapshotDisk(ctx, diskNoun().bareName(disk), name, required)
		} else {
			s, err = c.snapshotVM(ctx, vm, name, required)
		}
		if err == nil && w.wait {
			s, err = c.awaitMade(ctx, cmd, s)
		}
		if err != nil {
			return err
		}
		return printDone(cmd, form, s.object, s.kind, s.name, doneText(w.wait, "ready", "created"))
	})
	return cmd
}

// snapshotArguments splits off the VM, unless the snapshot is for a disk, and the name of the snapshot.
func snapshotArguments(disk string, args []string) (vm string, name []string) {
	if disk != "" {
		return "", args
	}
	return splitName(args)
}

// consistency is the spec.requiredConsistency of a new snapshot.
type consistency struct {
	cmd      *cobra.Command
	required bool
}

const consistencyFlag = "required-consistency"

func (r *consistency) addFlag(cmd *cobra.Command, byDefault string) {
	r.cmd = cmd
	cmd.Flags().BoolVar(&r.required, consistencyFlag, false,
		"fail if the guest agent can't freeze the file systems of a running guest (default "+byDefault+")")
}

// givenValue returns the user's choice; nil means the resource's default.
func (r *consistency) givenValue() *bool {
	if !r.cmd.Flags().Changed(consistencyFlag) {
		return nil
	}
	return &r.required
}

// snapshotVM creates a snapshot of a VM.
func (c *cluster) snapshotVM(ctx context.Context, vm, name string, r consistency) (anySnapshot, error) {
	if _, err := c.getVM(ctx, vm); err != nil {
		return anySnapshot{}, err // otherwise the manager would wait for a VM of that name
	}
	s, err := c.vmSnapshots.Create(ctx, newVMSnapshot(vm, name, r), metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil {
		return anySnapshot{}, unknownKind(err)
	}
	return viewOfVM(s), nil
}

// newVMSnapshot returns a new snapshot of a VM, without creating it.
func newVMSnapshot(vm, name string, r consistency) *v1.VirtualMachineSnapshot {
	s := &v1.VirtualMachineSnapshot{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.SetGroupVersionKind(v1.GroupVersion().WithKind(v1.KindVMSnapshot))
	s.Spec.VirtualMachineName, s.Spec.RequiredConsistency = vm, r.givenValue()
	return s
}

// snapshotDisk creates a snapshot of a disk.
func (c *cluster) snapshotDisk(ctx context.Context, disk, name string, r consistency) (anySnapshot, error) {
	if _, err := c.disks.Get(ctx, disk, metav1.GetOptions{}); err != nil {
		return anySnapshot{}, diskNoun().explainObject(c, disk, err)
	}
	s := &v1.VirtualDiskSnapshot{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.VirtualDiskName = disk
	if given := r.givenValue(); given != nil {
		s.Spec.RequiredConsistency = *given
	}
	s, err := c.diskSnapshots.Create(ctx, s, metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil {
		return anySnapshot{}, unknownKind(err)
	}
	return viewOfDisk(s), nil
}

func newSnapshotRemove(f *flags) *cobra.Command {
	var form string
	var force bool
	var w waiting
	cmd := &cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm"}, SuggestFor: []string{"delete", "del"},
		Short: "Delete a snapshot",
		Long: "Delete a snapshot with its VolumeSnapshots, immediately and without confirmation. It is\n" +
			"refused while a VM, disk or image is being created from the snapshot, unless --force is\n" +
			"set. Objects created from it are kept.",
		Example: "  kubectl vmop snapshot remove before-upgrade",
	}
	vmSnapshots().takeName(f, cmd, 0, cobra.ShellCompDirectiveNoFileComp)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := vmSnapshots().objectNames(f, cmd)
		for _, name := range diskSnapshots().objectNames(f, cmd) {
			names = append(names, diskSnapshots().short+"/"+name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	doneFlag(cmd, &form)
	cmd.Flags().BoolVar(&force, "force", false, "delete the snapshot even while an object is being created from it")
	w.addFlags(cmd, "the snapshot and its VolumeSnapshots are deleted")
	cmd.RunE = f.inCluster(&w, func(ctx context.Context, cmd *cobra.Command, c *cluster, args []string) error {
		s, err := c.findSnapshot(ctx, args[0])
		if err == nil && !force {
			err = c.checkUnused(ctx, s)
		}
		if err == nil {
			err = c.removeSnapshot(ctx, cmd, s, w.wait)
		}
		if err != nil {
			return err
		}
		return printDone(cmd, form, s.object, s.kind, s.name, "removed")
	})
	return cmd
}

// removeSnapshot deletes a snapshot and, if requested, waits for the deletion.
func (c *cluster) removeSnapshot(ctx context.Context, cmd *cobra.Command, s anySnapshot, wait bool) error {
	remove := c.vmSnapshots.Delete
	if s.ofDisk() {
		remove = c.diskSnapshots.Delete
	}
	if err := remove(ctx, s.name, deleteOptions(s.object, wait)); err != nil || !wait {
		return err
	}
	_, err := c.awaitSnapshot(ctx, cmd, s, func(now *anySnapshot) (bool, error) {
		return now == nil || now.uid != s.uid, nil
	})
	if err != nil {
		return fmt.Errorf("wait for the end of the snapshot %s: %w", s.name, err)
	}
	return nil
}
