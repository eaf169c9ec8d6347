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
	"vmop/cli"
	"vmop/manager/act"
)

// newSnapshot returns the verb whose subcommands are about snapshots of VMs and of disks.
func newSnapshot(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "snapshot", Short: "Make, list and remove snapshots of VMs and disks", GroupID: groupChange,
		Args: cli.NoArguments,
		Long: "snapshot is about VirtualMachineSnapshots, which have all disks of a VM and its definition, and\n" +
			"VirtualDiskSnapshots, which have one VirtualDisk. A snapshot is NAME, or vmsnapshot/NAME or\n" +
			"vdsnapshot/NAME where there is one of both kinds. kubectl vmop clone makes a VM of a snapshot, and\n" +
			"kubectl vmop disk create a disk.",
		RunE: wantSubcommand,
	}
	cmd.AddCommand(newSnapshotList(f), newSnapshotCreate(f), newSnapshotRemove(f))
	return cmd
}

func newSnapshotList(f *flags) *cobra.Command {
	const long = "list shows the snapshots of the namespace: the VM (vm/NAME) or disk (vd/NAME) that they are of, their\n" +
		"phase with its reason, and whether they are consistent. kubectl describe vmsnapshot|vdsnapshot says more."
	return newList(f, "snapshot", long, func(cmd *cobra.Command, c *cluster, form string) error {
		all, err := c.snapshots(cmd.Context())
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
		Use: "create VM|--disk DISK [NAME]", Short: "Make a snapshot of a VM or a disk",
		Long: "create makes a snapshot of all disks of a VM, or with --disk of one VirtualDisk, and waits until it is\n" +
			"ready. Without NAME it is called by the time. The guest keeps running; its agent freezes the file systems\n" +
			"for the moment of the snapshot. Ctrl-C ends the wait only.",
		Example: "  kubectl vmop snapshot create web before-upgrade\n" +
			"  kubectl vmop snapshot create --disk web-data",
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if vm, name := snapshotArguments(disk, args); (vm == "") == (disk == "") || len(name) > 1 {
			return cli.UsageError{Err: errors.New("want: " + usage(cmd))}
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
	cmd.Flags().StringVar(&disk, "disk", "", "`name` of the VirtualDisk")
	disks().completeFlag(f, cmd, "disk")
	required.add(cmd, "true for a VM, false for a disk")
	w.add(cmd, "VMs or disks can be made of it")
	cmd.RunE = f.inCluster(&w.waiting, func(ctx context.Context, cmd *cobra.Command, c *cluster, args []string) error {
		vm, rest := snapshotArguments(disk, args)
		name := strings.Join(rest, "")
		if name == "" {
			name = act.NameByTime(vm+disks().name(disk), time.Now())
		}
		var s anySnapshot
		var err error
		if disk != "" {
			s, err = c.snapshotDisk(ctx, disks().name(disk), name, required)
		} else {
			s, err = c.snapshotVM(ctx, vm, name, required)
		}
		if err == nil && w.wait {
			s, err = c.awaitMade(ctx, cmd, s)
		}
		if err != nil {
			return err
		}
		return printDone(cmd, form, s.object, s.kind, s.name, done(w.wait, "ready", "created"))
	})
	return cmd
}

// snapshotArguments takes the VM, unless the snapshot is of a disk, and the name of the snapshot off the arguments.
func snapshotArguments(disk string, args []string) (vm string, name []string) {
	if disk != "" {
		return "", args
	}
	return split(args)
}

// consistency is spec.requiredConsistency of a new snapshot.
type consistency struct {
	cmd      *cobra.Command
	required bool
}

const consistencyFlag = "required-consistency"

func (r *consistency) add(cmd *cobra.Command, byDefault string) {
	r.cmd = cmd
	cmd.Flags().BoolVar(&r.required, consistencyFlag, false,
		"fail rather than make a snapshot that is as after a power cut; default: "+byDefault)
}

// given returns what the user says; nil for the default of the resource.
func (r *consistency) given() *bool {
	if !r.cmd.Flags().Changed(consistencyFlag) {
		return nil
	}
	return &r.required
}

// snapshotVM makes a snapshot of a VM.
func (c *cluster) snapshotVM(ctx context.Context, vm, name string, r consistency) (anySnapshot, error) {
	if _, err := c.vm(ctx, vm); err != nil {
		return anySnapshot{}, err // the manager would wait for one of that name
	}
	s, err := c.vmSnapshots.Create(ctx, newVMSnapshot(vm, name, r), metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil {
		return anySnapshot{}, unknownKind(err)
	}
	return viewOfVM(s), nil
}

// newVMSnapshot returns a snapshot of a VM that is to be made.
func newVMSnapshot(vm, name string, r consistency) *v1.VirtualMachineSnapshot {
	s := &v1.VirtualMachineSnapshot{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.SetGroupVersionKind(v1.GroupVersion().WithKind(v1.KindVMSnapshot))
	s.Spec.VirtualMachineName, s.Spec.RequiredConsistency = vm, r.given()
	return s
}

// snapshotDisk makes a snapshot of a disk.
func (c *cluster) snapshotDisk(ctx context.Context, disk, name string, r consistency) (anySnapshot, error) {
	if _, err := c.disks.Get(ctx, disk, metav1.GetOptions{}); err != nil {
		return anySnapshot{}, disks().explain(c, disk, err)
	}
	s := &v1.VirtualDiskSnapshot{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Spec.VirtualDiskName = disk
	if given := r.given(); given != nil {
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
		Long: "remove deletes a snapshot with its VolumeSnapshots, at once and without a question. It is refused while\n" +
			"a VM, disk or image is being made of it, unless --force is given. What was made of it stays.",
		Example: "  kubectl vmop snapshot remove before-upgrade",
	}
	vmSnapshots().takes(f, cmd, 0, cobra.ShellCompDirectiveNoFileComp)
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := vmSnapshots().names(f, cmd)
		for _, name := range diskSnapshots().names(f, cmd) {
			names = append(names, diskSnapshots().short+"/"+name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	doneFlag(cmd, &form)
	cmd.Flags().BoolVar(&force, "force", false, "also while something is being made of it")
	w.add(cmd, "it is gone, with its VolumeSnapshots")
	cmd.RunE = f.inCluster(&w, func(ctx context.Context, cmd *cobra.Command, c *cluster, args []string) error {
		s, err := c.snapshot(ctx, args[0])
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

// removeSnapshot deletes a snapshot, and waits until it is gone if that is wanted.
func (c *cluster) removeSnapshot(ctx context.Context, cmd *cobra.Command, s anySnapshot, wait bool) error {
	remove := c.vmSnapshots.Delete
	if s.ofDisk() {
		remove = c.diskSnapshots.Delete
	}
	if err := remove(ctx, s.name, deletion(s.object, wait)); err != nil || !wait {
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
