package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/act"
	"vmop/manager/apply"
	"vmop/manager/decide"
	"vmop/manager/fleet"
	"vmop/manager/objects"
	"vmop/manager/stream"
	"vmop/printable"
	"vmop/runner/control"
	"vmop/vmspec"
)

// owner is who owns the fields that are written: the manager.
const owner = client.FieldOwner(objects.ManagerName)

// found is a VM and its pod, nil if there is none, as the store has them.
type found struct {
	*v1.VirtualMachine
	pod *corev1.Pod
}

// find returns a VM, or fleet.ErrNotFound.
func (f *Fleet) find(name string) (found, error) {
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
	vm, err := f.find(name)
	if err != nil {
		return err
	}
	if state := stateOf(vm.VirtualMachine); !view(vm.VirtualMachine, vm.pod).Can[a] {
		return fleet.Refusal(fmt.Sprintf("the VM is %s: %s is not possible now", state, a))
	}
	switch a {
	case fleet.Start:
		err = f.setState(ctx, vm, v1.Running)
	case fleet.Stop:
		err = f.setState(ctx, vm, v1.Stopped)
	case fleet.Kill:
		err = f.kill(ctx, user, vm)
	case fleet.Restart:
		err = f.restart(ctx, vm)
	case fleet.Reset:
		err = f.reset(ctx, user, vm)
	case fleet.Pause, fleet.Resume:
		err = f.request(ctx, user, vm, control.Action(a))
	case fleet.Delete:
		err = explain(f.opts.Client.Delete(ctx, vm.bare(), client.Preconditions{UID: &vm.UID}))
	default:
		return fleet.Refusal(fmt.Sprintf("%q is no action", a))
	}
	if err != nil {
		return err
	}
	f.record(ctx, user, vm, string(a), string(a))
	return nil
}

func (f *Fleet) setState(ctx context.Context, vm found, state v1.State) error {
	patch, err := act.State(vm.VirtualMachine, state)
	if err != nil {
		return err
	}
	return f.patch(ctx, vm, types.MergePatchType, patch)
}

// kill ends the machine: the VM is stopped, or it would be started again, and its runner doesn't
// wait for the guest.
func (f *Fleet) kill(ctx context.Context, user string, vm found) error {
	target, err := vm.target()
	if errors.Is(err, stream.ErrUnreachable) && vm.Status.Runner != nil && vm.Status.Runner.PodUID == vm.pod.UID {
		return explain(err) // it would only be asked to shut down, which is another action
	}
	if vm.DeletionTimestamp == nil {
		if err := f.setState(ctx, vm, v1.Stopped); err != nil {
			return err
		}
	}
	if err != nil { // there is no runner yet, and no guest
		return nil
	}
	return explain(f.opts.Keys.Client(target, user).Act(ctx, control.Kill))
}

// restart deletes the VM's pod: its runner asks the guest to shut down, and the stateful set makes
// another one of the present definition, whatever becomes of this manager.
func (f *Fleet) restart(ctx context.Context, vm found) error {
	if err := act.CanRestart(vm.VirtualMachine); err != nil {
		return fleet.Refusal(err.Error())
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: vm.pod.Name, Namespace: f.opts.Namespace}}
	return explain(f.opts.Client.Delete(ctx, pod, client.Preconditions{UID: &vm.pod.UID}))
}

// reset presses the reset button: at once, or where the runner can't be reached by the definition.
func (f *Fleet) reset(ctx context.Context, user string, vm found) error {
	err := f.request(ctx, user, vm, control.Reset)
	if _, unreachable := vm.target(); unreachable == nil {
		return err
	}
	patch, err := act.Reset(vm.VirtualMachine)
	if err != nil {
		return err
	}
	return f.patch(ctx, vm, types.MergePatchType, patch)
}

// Resize implements fleet.Fleet.
func (f *Fleet) Resize(ctx context.Context, user, name string, s fleet.Size) error {
	vm, err := f.find(name)
	if err != nil {
		return err
	}
	var notes []string
	var ram string
	if s.CPUs != nil {
		notes = append(notes, fmt.Sprintf("%d CPUs", *s.CPUs))
	}
	if s.RAM != nil {
		ram = resource.NewQuantity(*s.RAM, resource.BinarySI).String()
		notes = append(notes, ram+" of RAM")
	}
	if len(notes) == 0 {
		return nil
	}
	patch, err := act.Size(vm.VirtualMachine, s.CPUs, ram)
	if err != nil {
		return err
	}
	if err := f.patch(ctx, vm, types.MergePatchType, patch); err != nil {
		return err
	}
	f.record(ctx, user, vm, "resize", strings.Join(notes, ", "))
	return nil
}

// Insert implements fleet.Fleet. A drive's name is its place in spec.vm.disks. The medium that is
// there stays as it is written, with a password that pages don't show.
func (f *Fleet) Insert(ctx context.Context, user, name, drive, medium string) error {
	vm, err := f.find(name)
	if err != nil {
		return err
	}
	at, err := strconv.Atoi(strings.TrimPrefix(drive, drivePrefix))
	drives := view(vm.VirtualMachine, vm.pod).Drives
	i := slices.IndexFunc(drives, func(d fleet.Drive) bool { return d.Name == drive })
	switch {
	case i < 0 || err != nil:
		return fleet.Refusal("there is no " + drive + " for media")
	case drives[i].Medium == medium:
		return nil
	}
	return f.insert(ctx, user, vm, at, medium)
}

// insert changes the medium of the drive that is at a place in spec.vm.disks.
func (f *Fleet) insert(ctx context.Context, user string, vm found, at int, medium string) error {
	patch, err := act.Medium(vm.VirtualMachine, at, medium)
	if err != nil {
		return fleet.Refusal(err.Error())
	}
	if err := f.patch(ctx, vm, types.JSONPatchType, patch); err != nil {
		return err
	}
	bare, _, _ := vmspec.Credentials(medium)
	f.record(ctx, user, vm, "insert", fmt.Sprintf("%s%d: %s", drivePrefix, at, cmp.Or(bare, "no medium")))
	return nil
}

// Left implements fleet.Fleet: claims stay.
func (f *Fleet) Left(_ context.Context, name string) ([]string, error) {
	vm, err := f.find(name)
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

// bare returns an object that names the VM.
func (vm found) bare() *v1.VirtualMachine {
	return &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: vm.Name, Namespace: vm.Namespace}}
}

// patch changes a VM, unless it is another VM by now.
func (f *Fleet) patch(ctx context.Context, vm found, form types.PatchType, patch []byte) error {
	return explain(f.opts.Client.Patch(ctx, vm.bare(), client.RawPatch(form, patch), owner))
}

// longestUser bounds the name of a user in an event, in bytes.
const longestUser = 256

// record writes an event about what a user has requested. That it could not be written keeps
// nothing from being done.
func (f *Fleet) record(ctx context.Context, user string, vm found, what, note string) {
	user = decide.Shorten(printable.Line(user), longestUser)
	e := decide.Requested(strings.ToUpper(what[:1])+what[1:], user, note, rand.Text())
	object := apply.NewEvent(vm.VirtualMachine, e, f.opts.Now(), f.opts.Instance)
	object.Annotations = map[string]string{apply.AnnotationUser: user}
	if err := f.opts.Client.Create(context.WithoutCancel(ctx), object, owner); err != nil {
		f.opts.Log.Error("event not written", "vm", vm.Name, "reason", e.Reason, "note", object.Note, "err", err)
	}
}
