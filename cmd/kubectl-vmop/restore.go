package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/manager/vm/objects"
)

// restoring contains the user's request.
type restoring struct {
	vm, snapshot, form string
	start              bool
	w                  waiting
}

func newRestore(f *flags) *cobra.Command {
	var o restoring
	cmd := &cobra.Command{
		Use: "restore VM SNAPSHOT", GroupID: groupChange, Short: "Restore a VM's disks from a snapshot",
		Long: "Replace the volumes of a stopped VM, for its disks and the runner's data, with new\n" +
			"volumes from a snapshot of the VM. The old volumes are kept, and restore shows how to\n" +
			"return to them. The rest of the definition is unchanged.",
		Example: "  kubectl vmop stop web --wait\n  kubectl vmop restore web before-upgrade --start --wait",
	}
	f.aVMAnd(cmd, 1, 1)
	doneFlag(cmd, &o.form)
	cmd.Flags().BoolVar(&o.start, "start", false, "start the VM")
	cmd.Flags().BoolVar(&o.w.wait, "wait", false, "wait until the guest is running; needs --start")
	o.w.addLimit(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.w.wait && !o.start {
			return cli.UsageError{Err: errors.New("--wait needs --start")}
		}
		c, err := f.onlyCluster(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := o.w.waitContext(cmd.Context())
		defer cancel()
		var rest []string
		o.vm, rest = splitName(args)
		o.snapshot = rest[0]
		return c.restoreVM(ctx, cmd, o)
	}
	return cmd
}

// restoreVM creates the disks from the snapshot, and then changes the VM's definition. It fails if the VM has been
// changed by someone else in the meantime. See docs/decisions/0134-restore.md.
func (c *cluster) restoreVM(ctx context.Context, cmd *cobra.Command, o restoring) error {
	vm, err := c.getVM(ctx, o.vm)
	if err != nil {
		return err
	}
	from, err := c.snapshotToRestore(ctx, vm, o.snapshot)
	if err != nil {
		return err
	}
	p, err := c.planRestore(ctx, vm, from)
	if err != nil {
		return err
	}
	forth, back, err := restoredBy(vm, p.vm, o.start)
	if err != nil {
		return err
	}
	if err := c.makeClone(ctx, p, func() (err error) {
		p.vm, err = c.patchVM(ctx, vm.Name, types.MergePatchType, forth)
		return err
	}); err != nil {
		return err
	}
	for _, note := range p.notes {
		cmd.PrintErrln("note:", cli.Printable(note))
	}
	cmd.PrintErrf("note: the volumes that the VM had stay. To go back to them, while it is stopped: "+
		"kubectl patch vms.%s -n %s %s --type=merge -p '%s'\n", v1.GroupName, c.namespace, vm.Name, back)
	if o.w.wait {
		if p.vm, err = c.awaitVM(ctx, vm.Name, isSettled(p.vm.Generation, v1.Running)); err != nil {
			return err
		}
	}
	return p.printClone(cmd, o.form, "created", "restored")
}

// snapshotToRestore returns a ready snapshot of a VM, and checks that the VM is off.
func (c *cluster) snapshotToRestore(ctx context.Context, vm *v1.VirtualMachine, name string) (
	*v1.VirtualMachineSnapshot, error,
) {
	s, err := c.snapshotOfVM(ctx, name)
	if err != nil {
		return nil, err
	}
	from := s.object.(*v1.VirtualMachineSnapshot)
	switch {
	case from.Spec.VirtualMachineName != vm.Name:
		return nil, hinted{
			fmt.Errorf("the snapshot %s is of the VM %s, and not of %s", s.name, from.Spec.VirtualMachineName, vm.Name),
			fmt.Sprintf("kubectl vmop clone --snapshot %s NEW creates another VM from it", s.name),
		}
	case from.Status.Phase != v1.SnapshotReady:
		return nil, fmt.Errorf("the snapshot %s is %s: %s", s.name, from.Status.Phase, from.Status.Message)
	case vm.Status.ObservedGeneration != vm.Generation || vm.Status.Phase != v1.PhaseStopped:
		return nil, hinted{
			fmt.Errorf("the VM %s is %s: it gets other disks only while it is stopped", vm.Name, vm.Status.Phase),
			fmt.Sprintf("kubectl vmop stop %s --wait", vm.Name),
		}
	}
	return from, nil
}

// planRestore returns a VM with the volumes of one of its snapshots, and the disks that must be created for it.
func (c *cluster) planRestore(ctx context.Context, vm *v1.VirtualMachine, from *v1.VirtualMachineSnapshot) (
	*clonePlan, error,
) {
	has := map[string]bool{}
	for _, v := range from.Status.Volumes {
		has[v.Name] = true
	}
	for _, name := range objects.VolumeNames(vm) {
		if !has[name] {
			return nil, hinted{
				fmt.Errorf("the snapshot %s doesn't have the volume %s of the VM %s, which would begin empty", from.Name, name,
					vm.Name),
				"remove that disk from the definition, and later add it again as a new disk; the definition at the time: " +
					"kubectl get vmsnapshot " + from.Name + " -o jsonpath='{.status.definition.spec}'",
			}
		}
	}
	sizes, err := c.diskSizes(ctx, from)
	if err != nil {
		return nil, err
	}
	p := &clonePlan{vm: vm.DeepCopy()}
	p.vm.Spec.DataSource = &v1.VirtualMachineDataSource{Kind: v1.KindVMSnapshot, Name: from.Name}
	if p.vm.Spec.ClaimNameSuffix, err = c.freeSuffix(ctx, vm, from); err != nil {
		return nil, err
	}
	if err := c.nameOrigins(ctx, p.vm, from); err != nil {
		return nil, err
	}
	nameOf := func(disk string) string { return restoredAs(disk, p.vm.Spec.ClaimNameSuffix) }
	return p, p.replaceDisks(from, sizes, nameOf)
}

// restoredAs returns the name of the disk that replaces another disk. The other disk may itself be the
// replacement of an earlier disk.
func restoredAs(disk, suffix string) string {
	if at := strings.LastIndex(disk, "-r"); at > 0 && strings.Trim(disk[at+2:], "0123456789") == "" {
		disk = disk[:at]
	}
	return disk + "-" + suffix
}

// freeSuffix returns a suffix that is unused by claims of the VM and by disks.
func (c *cluster) freeSuffix(ctx context.Context, vm *v1.VirtualMachine, from *v1.VirtualMachineSnapshot) (
	string, error,
) {
	next := vm.DeepCopy()
	for n := 1; ; n++ {
		next.Spec.ClaimNameSuffix = fmt.Sprintf("r%d", n)
		taken := next.Spec.ClaimNameSuffix == vm.Spec.ClaimNameSuffix
		for _, name := range objects.ClaimNames(next) {
			_, err := c.core.PersistentVolumeClaims(c.namespace).Get(ctx, name, metav1.GetOptions{})
			if err != nil && !apierrors.IsNotFound(err) {
				return "", err
			}
			taken = taken || err == nil
		}
		for _, v := range from.Status.Volumes {
			if v.VirtualDiskName == "" || taken {
				continue
			}
			_, err := c.disks.Get(ctx, restoredAs(v.VirtualDiskName, next.Spec.ClaimNameSuffix), metav1.GetOptions{})
			if err != nil && !isMissingObject(err) {
				return "", err
			}
			taken = taken || err == nil
		}
		if !taken {
			return next.Spec.ClaimNameSuffix, nil
		}
	}
}

// nameOrigins replaces the disks that earlier restores have created by their original disks, if the snapshot
// contains the originals.
func (c *cluster) nameOrigins(ctx context.Context, vm *v1.VirtualMachine, from *v1.VirtualMachineSnapshot) error {
	isIn := func(disk string) bool {
		of := func(v v1.SnapshotVolume) bool { return v.VirtualDiskName == disk }
		return slices.ContainsFunc(from.Status.Volumes, of)
	}
	for _, name := range diskNames(vm) {
		for range 100 { // the VM may have been restored repeatedly
			if isIn(*name) {
				break
			}
			d, err := c.disks.Get(ctx, *name, metav1.GetOptions{})
			if err != nil && !isMissingObject(err) {
				return err
			}
			if err != nil || d.Spec.DataSource == nil || d.Spec.DataSource.ObjectRef == nil ||
				d.Spec.DataSource.ObjectRef.VirtualDiskName == "" {
				break
			}
			*name = d.Spec.DataSource.ObjectRef.VirtualDiskName
		}
	}
	return nil
}

// restoredBy returns two patches (RFC 7386): forth restores a VM, back undoes that.
func restoredBy(is, becomes *v1.VirtualMachine, start bool) (forth, back []byte, err error) {
	fields := func(of *v1.VirtualMachine) map[string]any {
		spec := map[string]any{"dataSource": of.Spec.DataSource, "claimNameSuffix": nil}
		if of.Spec.ClaimNameSuffix != "" {
			spec["claimNameSuffix"] = of.Spec.ClaimNameSuffix
		}
		for _, ref := range of.Spec.BlockDeviceRefs {
			if ref.Kind == v1.KindVirtualDisk {
				spec["blockDeviceRefs"] = of.Spec.BlockDeviceRefs
			}
		}
		if slices.ContainsFunc(of.Spec.VM.Disks, func(d v1.Disk) bool { return d.VirtualDisk != nil }) {
			spec["vm"] = map[string]any{"disks": of.Spec.VM.Disks}
		}
		return spec
	}
	if back, err = json.Marshal(map[string]any{"spec": fields(is)}); err != nil {
		return nil, nil, err
	}
	spec := fields(becomes)
	if start {
		vm, _ := spec["vm"].(map[string]any)
		if vm == nil {
			vm = map[string]any{}
		}
		vm["state"], spec["vm"] = v1.Running, vm
	}
	forth, err = json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": is.UID, "resourceVersion": is.ResourceVersion}, "spec": spec,
	})
	return forth, back, err
}
