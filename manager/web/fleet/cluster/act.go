package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/operation"
	"vmop/manager/operation/act"
	"vmop/manager/store/publish"
	"vmop/manager/vm/apply"
	"vmop/manager/vm/decide"
	"vmop/manager/vm/objects"
	"vmop/manager/web/fleet"
	"vmop/runner/control"
	"vmop/vmspec"
)

// owner is the field manager of writes: the manager.
const owner = client.FieldOwner(objects.ManagerName)

// found is a VM from the store with its pod; nil if it has none.
type found struct {
	*v1.VirtualMachine
	pod *corev1.Pod
}

// findVM returns a VM, or fleet.ErrNotFound.
func (f *Fleet) findVM(name string) (found, error) {
	vm, err := f.opts.Store.VM(name)
	if err != nil {
		return found{}, err
	}
	if vm == nil {
		return found{}, fleet.ErrNotFound
	}
	pod, err := f.opts.Store.Pod(name)
	return found{vm, pod}, err
}

// Do implements fleet.Fleet.
func (f *Fleet) Do(ctx context.Context, user, name string, a fleet.Action) error {
	vm, err := f.findVM(name)
	if err != nil {
		return err
	}
	if spec, is := operationOf(a, name); is {
		return f.createOperation(ctx, user, vm, spec)
	}
	if v := newView(vm.VirtualMachine, vm.pod, nil); !v.Can[a] {
		return fleet.Refusal(fmt.Sprintf("the VM is %s: %s is not possible now", v.State, a))
	}
	switch a {
	case fleet.Pause, fleet.Resume:
		err = f.requestAction(ctx, user, vm, control.Action(a))
	case fleet.Delete:
		err = asRefusal(f.opts.Client.Delete(ctx, vm.bareObject(), client.Preconditions{UID: &vm.UID}))
	default:
		return fleet.Refusal(fmt.Sprintf("%q is not an action", a))
	}
	if err != nil {
		return err
	}
	f.recordEvent(ctx, user, vm, string(a), string(a))
	return nil
}

// operationOf returns the operation for an action on a VM, and whether there is one.
func operationOf(a fleet.Action, vm string) (spec v1.VirtualMachineOperationSpec, is bool) {
	spec.VirtualMachineName = vm
	switch a {
	case fleet.Start:
		spec.Type = v1.OperationStart
	case fleet.Stop, fleet.Kill:
		spec.Type, spec.Force = v1.OperationStop, a == fleet.Kill
	case fleet.Restart, fleet.ForceRestart:
		spec.Type, spec.Force = v1.OperationRestart, a == fleet.ForceRestart
	case fleet.Reset:
		spec.Type = v1.OperationReset
	case fleet.Migrate:
		spec.Type = v1.OperationMigrate
	}
	return spec, spec.Type != ""
}

// takenTime is how long a user waits for the leading manager to accept an operation. After that the request returns;
// the operation is still carried out or refused later.
const takenTime = 5 * time.Second

// createOperation creates an operation, unless it would be refused, and returns when its signal was sent.
func (f *Fleet) createOperation(ctx context.Context, user string, vm found, spec v1.VirtualMachineOperationSpec) error {
	all, err := f.opts.Store.Operations(vm.Name)
	if err != nil {
		return err
	}
	if r := operation.Possible(spec, f.withClass(vm.VirtualMachine, vm.pod), vm.pod, all); r != nil {
		return fleet.Refusal(r.Message)
	}
	o := act.NewOperation(f.opts.Namespace, user, spec)
	if err := f.opts.Client.Create(ctx, o, owner); err != nil {
		return asRefusal(err)
	}
	late := time.After(takenTime)
	for {
		changed := f.Changed()
		now, err := f.opts.Store.Operation(o.Name)
		switch {
		case err != nil:
			return err
		case now == nil: // the watch is behind
		case now.Status.Phase == v1.OperationFailed:
			return fleet.Refusal(now.Status.Message)
		case now.Status.Phase.Finished() || operation.Sent(now):
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late:
			return nil
		case <-changed:
		}
	}
}

// Resize implements fleet.Fleet.
func (f *Fleet) Resize(ctx context.Context, user, name string, s fleet.Size) error {
	vm, err := f.findVM(name)
	if err != nil {
		return err
	}
	is := newView(f.withClass(vm.VirtualMachine, vm.pod), vm.pod, nil)
	machine := map[string]any{}
	var notes []string
	if s.CPUs != nil {
		machine["currentCpus"] = *s.CPUs
		if *s.CPUs > is.CPUs.Maximum {
			machine["maximumCpus"] = *s.CPUs
		}
		notes = append(notes, fmt.Sprintf("%d CPUs", *s.CPUs))
	}
	if s.RAM != nil {
		ram := formatQuantity(*s.RAM)
		machine["currentRam"] = ram
		if *s.RAM > is.RAM.Maximum {
			machine["maximumRam"] = ram
		}
		notes = append(notes, ram+" of RAM")
	}
	if len(notes) == 0 {
		return nil
	}
	patch, err := act.Spec(vm.VirtualMachine, map[string]any{"vm": machine})
	if err != nil {
		return err
	}
	if err := f.patchVM(ctx, vm, types.MergePatchType, patch); err != nil {
		return err
	}
	f.recordEvent(ctx, user, vm, "resize", strings.Join(notes, ", "))
	return nil
}

// Insert implements fleet.Fleet. The name of a drive contains its index in spec.vm.disks. If the medium is the same as
// the one that pages show, the definition stays unchanged, including a password in it.
func (f *Fleet) Insert(ctx context.Context, user, name, drive, medium string) error {
	vm, err := f.findVM(name)
	if err != nil {
		return err
	}
	at, err := strconv.Atoi(strings.TrimPrefix(drive, drivePrefix))
	drives := newView(vm.VirtualMachine, vm.pod, nil).Drives
	i := slices.IndexFunc(drives, func(d fleet.Drive) bool { return d.Name == drive })
	switch {
	case i < 0 || err != nil:
		return fleet.Refusal("there is no " + drive + " for media")
	case drives[i].Medium == medium:
		return nil
	}
	return f.changeMedium(ctx, user, vm, at, medium)
}

// changeMedium changes the medium of the drive with this index in spec.vm.disks.
func (f *Fleet) changeMedium(ctx context.Context, user string, vm found, at int, medium string) error {
	patch, err := act.Medium(vm.VirtualMachine, at, medium)
	if err != nil {
		return fleet.Refusal(err.Error())
	}
	if err := f.patchVM(ctx, vm, types.JSONPatchType, patch); err != nil {
		return err
	}
	bare, _, _ := vmspec.Credentials(medium)
	f.recordEvent(ctx, user, vm, "insert", fmt.Sprintf("%s%d: %s", drivePrefix, at, cmp.Or(bare, "no medium")))
	return nil
}

// Left implements fleet.Fleet. Claims stay when a VM is deleted.
func (f *Fleet) Left(_ context.Context, name string) ([]string, error) {
	vm, err := f.findVM(name)
	if err != nil {
		return nil, err
	}
	var claims []string
	for _, claim := range objects.ClaimNames(vm.VirtualMachine) {
		there, err := f.opts.Store.Metadata(objects.KindClaim, claim)
		if err != nil {
			return nil, err
		}
		if there != nil {
			claims = append(claims, "PersistentVolumeClaim "+claim)
		}
	}
	return claims, nil
}

// bareObject returns an object with only the name and namespace of the VM.
func (vm found) bareObject() *v1.VirtualMachine {
	return &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: vm.Name, Namespace: vm.Namespace}}
}

// patchVM patches a VM, unless it has been replaced by another VM.
func (f *Fleet) patchVM(ctx context.Context, vm found, form types.PatchType, patch []byte) error {
	return asRefusal(f.opts.Client.Patch(ctx, vm.bareObject(), client.RawPatch(form, patch), owner))
}

// recordEvent writes an event about a user's request. An error is only logged.
func (f *Fleet) recordEvent(ctx context.Context, user string, vm found, what, note string) {
	user = decide.User(user)
	e := decide.Requested(strings.ToUpper(what[:1])+what[1:], user, note, rand.Text())
	object := apply.NewEvent(vm.VirtualMachine, e, f.opts.Now(), f.opts.Instance)
	object.Annotations = map[string]string{publish.AnnotationUser: user}
	if err := f.opts.Client.Create(context.WithoutCancel(ctx), object, owner); err != nil {
		f.opts.Log.Error("event not written", "vm", vm.Name, "reason", e.Reason, "note", object.Note, "err", err)
	}
}
