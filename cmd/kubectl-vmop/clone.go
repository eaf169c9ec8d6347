package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/manager/vm/objects"
)

// cloning contains the user's request.
type cloning struct {
	vm, snapshot, name, dryRun, form string
	start                            bool
	required                         consistency
	w                                waiting
}

func newClone(f *flags) *cobra.Command {
	var o cloning
	cmd := &cobra.Command{
		Use: "clone VM|--snapshot SNAPSHOT NEW", GroupID: groupChange,
		Short: "Create a VM from another VM or a snapshot",
		Long: "Create a VM with the definition and the disks of another VM, or from an existing\n" +
			"snapshot. clone first creates a snapshot with the name NEW, which is kept. Unique\n" +
			"properties, such as hardware addresses, are left out and listed. The new VM is stopped\n" +
			"unless --start is set. --dry-run prints the new objects.",
		Example: "  kubectl vmop clone web web-copy\n" +
			"  kubectl vmop clone --snapshot before-upgrade web-before --start",
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if o.vm, o.name = o.splitArguments(args); o.name == "" || (o.vm == "") == (o.snapshot == "") {
			return cli.UsageError{Err: errors.New("usage: " + usageOf(cmd))}
		}
		return nil
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if o.snapshot != "" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f.completeNames(cmd, args, word)
	}
	doneFlag(cmd, &o.form)
	p := cmd.Flags()
	p.StringVar(&o.snapshot, "snapshot", "", "`NAME` of the VirtualMachineSnapshot")
	vmSnapshots().completeFlag(f, cmd, "snapshot")
	p.BoolVar(&o.start, "start", false, "start the VM")
	o.required.addFlag(cmd, "true")
	dryRunFlag(cmd, &o.dryRun)
	p.Lookup("dry-run").NoOptDefVal = "client"
	p.BoolVar(&o.w.wait, "wait", false, "wait until the guest is running; needs --start")
	o.w.addLimit(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case o.dryRun != "none" && o.dryRun != "client" && o.dryRun != "server":
			return cli.UsageError{Err: fmt.Errorf("--dry-run %s: must be none, server or client", o.dryRun)}
		case o.w.wait && !o.start:
			return cli.UsageError{Err: errors.New("--wait needs --start")}
		case o.snapshot != "" && o.required.givenValue() != nil:
			return cli.UsageError{Err: errors.New("--" + consistencyFlag +
				" is of a new snapshot: leave it or --snapshot out")}
		}
		c, err := f.onlyCluster(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := o.w.waitContext(cmd.Context())
		defer cancel()
		if o.dryRun != "none" {
			return c.tryClone(ctx, cmd, o)
		}
		return c.cloneVM(ctx, cmd, o)
	}
	return cmd
}

// splitArguments returns the VM, unless a snapshot is given, and the name of the new VM. name is "" if the arguments
// are invalid.
func (o cloning) splitArguments(args []string) (vm, name string) {
	var rest []string
	if o.snapshot == "" {
		if vm, rest = splitName(args); len(rest) == 1 {
			name = bareName(rest[0])
		}
		return vm, name
	}
	if name, rest = splitName(args); len(rest) > 0 {
		name = ""
	}
	return "", name
}

// cloneVM creates the VM and, if no snapshot is given, the snapshot.
func (c *cluster) cloneVM(ctx context.Context, cmd *cobra.Command, o cloning) error {
	if o.vm != "" { // check before freezing the guest
		if p, err := c.planClone(ctx, o); err != nil {
			return err
		} else if err := c.checkClone(ctx, p); err != nil {
			return err
		}
	}
	from, err := c.snapshotFor(ctx, cmd, o)
	if err != nil {
		return err
	}
	p, err := c.planOf(ctx, from, o)
	if err == nil {
		err = c.checkClone(ctx, p)
	}
	if err == nil {
		err = c.makeClone(ctx, p, func() (err error) {
			p.vm, err = c.vms.Create(ctx, p.vm, creating)
			return err
		})
	}
	if err != nil && o.vm != "" {
		return hinted{err, fmt.Sprintf("the snapshot stays: kubectl vmop clone --snapshot %s %s", from.Name, o.name)}
	} else if err != nil {
		return err
	}
	for _, note := range p.notes {
		cmd.PrintErrln("note:", cli.Printable(note))
	}
	cmd.PrintErrf("note: the snapshot %s stays, and is needed until all volumes exist, which may be at the first start; "+
		"after that: kubectl vmop snapshot remove %[1]s\n", from.Name)
	if o.w.wait {
		vm, err := c.awaitVM(ctx, p.vm.Name, isSettled(p.vm.Generation, v1.Running))
		if err != nil {
			return err
		}
		p.vm = vm
	}
	return p.printClone(cmd, o.form, "created", "created")
}

// tryClone prints the objects that clone would create.
func (c *cluster) tryClone(ctx context.Context, cmd *cobra.Command, o cloning) (err error) {
	var p *clonePlan
	if o.vm != "" {
		p, err = c.planClone(ctx, o)
	} else {
		var from *v1.VirtualMachineSnapshot
		if from, err = c.snapshotFor(ctx, cmd, o); err == nil {
			p, err = c.planOf(ctx, from, o)
		}
	}
	if err == nil && o.dryRun == "server" {
		err = c.checkClone(ctx, p)
	}
	if err != nil {
		return err
	}
	for _, note := range p.notes {
		cmd.PrintErrln("note:", cli.Printable(note))
	}
	if o.form == "text" && o.dryRun == "client" {
		o.form = "yaml"
	}
	return p.printClone(cmd, o.form, "created ("+o.dryRun+" dry run)", "created ("+o.dryRun+" dry run)")
}

// planClone returns the plan for cloning a VM without a snapshot.
func (c *cluster) planClone(ctx context.Context, o cloning) (*clonePlan, error) {
	vm, err := c.getVM(ctx, o.vm)
	if err != nil {
		return nil, err
	}
	spec, err := json.Marshal(vm.Spec)
	if err != nil {
		return nil, fmt.Errorf("write the definition of VM %s: %w", o.vm, err)
	}
	maps.DeleteFunc(vm.Annotations, func(key, _ string) bool { return strings.Contains(key, "kubernetes.io/") })
	from := &v1.VirtualMachineSnapshot{ObjectMeta: metav1.ObjectMeta{Name: o.name}}
	from.Status.Definition = &v1.VirtualMachineDefinition{
		Labels: vm.Labels, Annotations: vm.Annotations, Spec: runtime.RawExtension{Raw: spec},
	}
	for _, ref := range objects.DeviceRefs(vm) {
		if ref.Kind != v1.KindVirtualDisk {
			continue
		}
		d, err := c.disks.Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return nil, diskNoun().explainObject(c, ref.Name, err)
		}
		volume := v1.SnapshotVolume{VirtualDiskName: d.Name, VolumeMode: d.Spec.PersistentVolumeClaim.VolumeMode}
		if class := d.Spec.PersistentVolumeClaim.StorageClassName; class != nil {
			volume.StorageClassName = *class
		}
		volume.RestoreSize = d.Spec.PersistentVolumeClaim.Size.String()
		from.Status.Volumes = append(from.Status.Volumes, volume)
	}
	p, err := planClone(from, o.name, string(uuid.NewUUID()), o.start, nil)
	if err == nil {
		p.snapshot = newVMSnapshot(o.vm, o.name, o.required)
	}
	return p, err
}

// snapshotFor returns the snapshot once it is ready. It creates the snapshot if the user has specified a VM.
func (c *cluster) snapshotFor(ctx context.Context, cmd *cobra.Command, o cloning) (*v1.VirtualMachineSnapshot, error) {
	var s anySnapshot
	var err error
	if o.vm != "" {
		if s, err = c.snapshotVM(ctx, o.vm, o.name, o.required); apierrors.IsAlreadyExists(err) {
			err = hinted{err, fmt.Sprintf("to create the VM from that snapshot: kubectl vmop clone --snapshot %s %[1]s", o.name)}
		}
	} else {
		s, err = c.snapshotOfVM(ctx, o.snapshot)
	}
	if err != nil {
		return nil, err
	}
	if s, err = c.awaitMade(ctx, cmd, s); err != nil {
		if errors.As(err, new(cli.SignalError)) || errors.Is(err, errTimeout) {
			cmd.PrintErrf("there is no VM %s yet; make it when the snapshot is ready, by: kubectl vmop clone --snapshot %s %[1]s\n",
				o.name, s.name)
		}
		return nil, err
	}
	return s.object.(*v1.VirtualMachineSnapshot), nil
}

// planOf returns the plan for cloning from a ready snapshot.
func (c *cluster) planOf(ctx context.Context, from *v1.VirtualMachineSnapshot, o cloning) (*clonePlan, error) {
	sizes, err := c.diskSizes(ctx, from)
	if err != nil {
		return nil, err
	}
	return planClone(from, o.name, string(uuid.NewUUID()), o.start, sizes)
}

// diskSizes returns the sizes of the VirtualDisks in a snapshot that still exist.
func (c *cluster) diskSizes(ctx context.Context, from *v1.VirtualMachineSnapshot) (
	map[string]resource.Quantity, error,
) {
	sizes := map[string]resource.Quantity{}
	for _, v := range from.Status.Volumes {
		if v.VirtualDiskName == "" {
			continue
		}
		d, err := c.disks.Get(ctx, v.VirtualDiskName, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err): // its data are in the snapshot
		case err != nil:
			return nil, err
		default:
			sizes[d.Name] = d.Spec.PersistentVolumeClaim.Size
		}
	}
	return sizes, nil
}

// checkClone asks the API server whether it would accept the VM and its disks, and makes sure that the VM does not
// inherit claims of an earlier VM with the same name.
func (c *cluster) checkClone(ctx context.Context, p *clonePlan) error {
	try := metav1.CreateOptions{
		FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict, DryRun: []string{metav1.DryRunAll},
	}
	if _, err := c.vms.Create(ctx, p.vm, try); err != nil {
		return unknownKind(err)
	}
	for _, d := range p.disks {
		if _, err := c.disks.Create(ctx, d, try); err != nil {
			return err
		}
	}
	for _, name := range objects.ClaimNames(p.vm) {
		switch _, err := c.core.PersistentVolumeClaims(c.namespace).Get(ctx, name, metav1.GetOptions{}); {
		case err == nil:
			return hinted{
				fmt.Errorf("the claim %s already exists: the VM %s would use its data, and not the data of the snapshot",
					name, p.vm.Name),
				"choose another name, or delete the claim if its data is not needed any more",
			}
		case !apierrors.IsNotFound(err):
			return err
		}
	}
	return nil
}

// tidyTime limits the deletion of disks if the VM could not be created.
const tidyTime = 10 * time.Second

// creating contains the options for creating objects.
var creating = metav1.CreateOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict}

// makeClone creates the disks, and then calls then, which creates their user. If a step fails, it deletes the disks
// again.
func (c *cluster) makeClone(ctx context.Context, p *clonePlan, then func() error) (err error) {
	var made []*v1.VirtualDisk
	defer func() {
		if err == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyTime)
		defer cancel()
		for _, d := range made {
			if failed := c.disks.Delete(ctx, d.Name, metav1.DeleteOptions{
				Preconditions: metav1.NewUIDPreconditions(string(d.UID)),
			}); failed != nil {
				err = errors.Join(err, fmt.Errorf("delete the disk %s, which is left over: %w", d.Name, failed))
			}
		}
	}()
	for i, d := range p.disks {
		if p.disks[i], err = c.disks.Create(ctx, d, creating); err != nil {
			return err
		}
		made = append(made, p.disks[i])
	}
	return then()
}

// printClone reports the created objects in the form given by -o. made describes the snapshot and the disks, done
// describes the VM.
func (p *clonePlan) printClone(cmd *cobra.Command, form, made, done string) error {
	var all []metav1.Object
	if p.snapshot != nil {
		all = append(all, p.snapshot)
	}
	for _, d := range p.disks {
		all = append(all, typedDisk(d))
	}
	all = append(all, withKind(p.vm))
	if form == "json" || form == "yaml" {
		return cli.PrintValue(cmd.OutOrStdout(), form, listOf(all...))
	}
	if p.snapshot != nil {
		if err := printDone(cmd, form, p.snapshot, vmSnapshots().kind, p.snapshot.Name, made); err != nil {
			return err
		}
	}
	for _, d := range p.disks {
		if err := printDone(cmd, form, d, diskKind, d.Name, made); err != nil {
			return err
		}
	}
	return printDone(cmd, form, p.vm, vmKind, p.vm.Name, done)
}
