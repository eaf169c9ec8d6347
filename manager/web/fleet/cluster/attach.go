package cluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/operation/act"
	"vmop/manager/snapshot"
	"vmop/manager/web/fleet"
	"vmop/vmstatus"
)

// deviceOf parses a user's reference to a disk (NAME), an image (vi/NAME) or a cluster image (cvi/NAME).
func deviceOf(text string) v1.AttachedDeviceRef {
	if image, is := strings.CutPrefix(text, fleet.ImagePrefix); is {
		return v1.AttachedDeviceRef{Kind: v1.AttachedImage, Name: image}
	}
	if image, is := strings.CutPrefix(text, fleet.ClusterImagePrefix); is {
		return v1.AttachedDeviceRef{Kind: v1.AttachedClusterImage, Name: image}
	}
	return v1.AttachedDeviceRef{Kind: v1.AttachedDisk, Name: text}
}

// nameWithWord returns such a reference with "disk" or "image" before it.
func nameWithWord(text string) string {
	switch ref := deviceOf(text); ref.Kind {
	case v1.AttachedImage:
		return "image " + ref.Name
	case v1.AttachedClusterImage:
		return "image " + text
	case v1.AttachedDisk:
	}
	return "disk " + text
}

// Attachments implements fleet.Fleet.
func (f *Fleet) Attachments() fleet.Attachments { return f }

// Snapshots implements fleet.Fleet.
func (f *Fleet) Snapshots() fleet.Snapshots { return f }

// Restores returns nil, like Copies: these need more than one object, which kubectl vmop creates.
func (f *Fleet) Restores() fleet.Restores { return nil }

// Copies implements fleet.Fleet.
func (f *Fleet) Copies() fleet.Copies { return nil }

// Autostarts returns nil: the run policy of a VM decides.
func (f *Fleet) Autostarts() fleet.Autostarts { return nil }

// DataDeletion returns nil: claims and disks have their own lifecycle.
func (f *Fleet) DataDeletion() fleet.DataDeletion { return nil }

// Attachable implements fleet.Attachments.
func (f *Fleet) Attachable(ctx context.Context, _ *fleet.VM) (a fleet.Attachable) {
	list, err := f.Disks(ctx)
	if err != nil {
		return a // the page of disks shows the reason
	}
	for _, of := range list {
		usable := of.State != string(v1.DiskFailed) && of.State != missing
		switch {
		case !usable, of.Kind == fleet.VirtualDisk && len(of.UsedBy) > 0:
		case of.Kind == fleet.VirtualDisk:
			a.Disks = append(a.Disks, of.Name)
		case of.Kind == fleet.VirtualImage:
			a.Disks = append(a.Disks, fleet.ImagePrefix+of.Name)
		case of.Kind == fleet.ClusterVirtualImage:
			a.Disks = append(a.Disks, fleet.ClusterImagePrefix+of.Name)
		}
	}
	return a
}

// Media implements fleet.Attachments. CD drives of a cluster have no uploaded images.
func (f *Fleet) Media() []fleet.Medium { return nil }

// Grow implements fleet.Attachments.
func (f *Fleet) Grow(context.Context, string, string, string, int64) error {
	return fleet.Refusal("a VM's own disk grows with the size in the VM's definition, and another disk on the page of disks")
}

// Attach implements fleet.Attachments.
func (f *Fleet) Attach(ctx context.Context, user, name string, which fleet.Attachment) error {
	diskName := which.Disk
	if diskName == "" {
		return fleet.Refusal("a blank disk needs a name: create it on the page of disks, and attach it by name")
	}
	vm, err := f.findVM(name)
	if err != nil {
		return err
	}
	ref := deviceOf(diskName)
	d, err := f.deviceNamed(v1.BlockDeviceKind(ref.Kind), ref.Name)
	switch {
	case err != nil:
		return err
	case d == nil:
		return fleet.Refusal(fmt.Sprintf("there is no %s %q", ref.Kind, ref.Name))
	case disk.Holder(d) != "":
		return fleet.Refusal(fmt.Sprintf("the VM %s has the disk %s", disk.Holder(d), diskName))
	}
	a := act.NewAttachment(f.opts.Namespace, name, ref.Kind, ref.Name)
	err = f.opts.Client.Create(ctx, a, owner)
	switch {
	case apierrors.IsAlreadyExists(err):
		return fleet.Refusal(fmt.Sprintf("there is an attachment %s already", a.Name))
	case err != nil:
		return asRefusal(err)
	}
	f.recordEvent(ctx, user, vm, "attach", "attach the "+nameWithWord(diskName))
	return nil
}

// Detach implements fleet.Attachments.
func (f *Fleet) Detach(ctx context.Context, user, name, diskName string) error {
	vm, err := f.findVM(name)
	if err != nil {
		return err
	}
	all, err := f.opts.Volumes.Attachments.Of(name)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(a *v1.VirtualMachineBlockDeviceAttachment) bool {
		return a.Spec.BlockDeviceRef != deviceOf(diskName)
	})
	if len(all) == 0 {
		return fleet.Refusal(fmt.Sprintf("the %s is not attached to the VM %s: what is part of its definition is not "+
			"detached", nameWithWord(diskName), name))
	}
	for _, a := range all {
		gone := &v1.VirtualMachineBlockDeviceAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: a.Name, Namespace: f.opts.Namespace},
		}
		err := f.opts.Client.Delete(ctx, gone, client.Preconditions{UID: &a.UID})
		if err != nil && !apierrors.IsNotFound(err) {
			return asRefusal(err)
		}
	}
	f.recordEvent(ctx, user, vm, "detach", "detach the "+nameWithWord(diskName))
	return nil
}

// Named implements fleet.Snapshots. The name contains the time, as with kubectl vmop.
func (f *Fleet) Named() bool { return false }

// Snapshot implements fleet.Snapshots.
func (f *Fleet) Snapshot(ctx context.Context, user, name, called string) (string, error) {
	if called != "" {
		return "", fleet.Refusal("snapshots in a cluster are named after the VM and the time; leave the name out")
	}
	vm, err := f.findVM(name)
	if err != nil {
		return "", err
	}
	s := &v1.VirtualMachineSnapshot{ObjectMeta: metav1.ObjectMeta{
		Name: act.NameByTime(name, f.opts.Now()), Namespace: f.opts.Namespace,
	}}
	s.Spec.VirtualMachineName = name
	err = f.opts.Client.Create(ctx, s, owner)
	switch {
	case apierrors.IsAlreadyExists(err):
		return "", fleet.Refusal(fmt.Sprintf("there is a snapshot %s already: try again in a second", s.Name))
	case err != nil:
		return "", asRefusal(err)
	}
	f.recordEvent(ctx, user, vm, "snapshot", "create the snapshot "+s.Name)
	return s.Name, nil
}

// snapshotsOf returns the snapshots of a VM, the latest first.
func (f *Fleet) snapshotsOf(vm string) (all []fleet.Snapshot) {
	for _, name := range f.opts.Volumes.Snapshots.Of(vm) {
		of := f.opts.Volumes.Snapshots.Snapshot(name)
		if of == nil {
			continue
		}
		s := fleet.Snapshot{
			Name: name, State: string(cmp.Or(of.Status.Phase, v1.SnapshotPending)), Reason: of.Status.Reason,
			Message: of.Status.Message, Consistent: of.Status.Consistent, At: momentOf(of),
			Advice: vmstatus.AdviceFor(of.Status.Reason, snapshot.Explanations),
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b fleet.Snapshot) int {
		return cmp.Or(b.At.Compare(a.At), strings.Compare(a.Name, b.Name))
	})
	return all
}

// momentOf returns the moment that a snapshot captures; until that is known, the time of its request.
func momentOf(of *v1.VirtualMachineSnapshot) time.Time {
	if of.Status.CreationTime != nil {
		return of.Status.CreationTime.UTC()
	}
	return of.CreationTimestamp.UTC()
}
