package capture

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/objects"
	"vmop/manager/snapshot"
)

// A plan is what a snapshot of a VM is made of.
type plan struct {
	vm      *v1.VirtualMachine
	volumes []v1.SnapshotVolume
	disks   []*v1.VirtualDisk // of those that are VirtualDisks
}

// planOf returns what a snapshot of a VM is made of, or why it can't be made now.
func (m *Machines) planOf(of *v1.VirtualMachineSnapshot) (p plan, why *snapshot.Outcome, err error) {
	fail := func(reason, format string, args ...any) (plan, *snapshot.Outcome, error) {
		return p, new(refuse(reason, format, args...)), nil
	}
	name := of.Spec.VirtualMachineName
	if p.vm, err = m.opts.VMs.VM(name); err != nil {
		return p, nil, err
	}
	if p.vm == nil || p.vm.DeletionTimestamp != nil {
		return fail(snapshot.ReasonMachine, "there is no VM %s, or it is being deleted: the snapshot is made "+
			"when it is created", name)
	}
	if slices.ContainsFunc(p.vm.Status.RestartAwaitingChanges, objects.OtherVolumes) {
		return fail(snapshot.ReasonBusy, "the VM %s gets other volumes at its next start (spec.claimNameSuffix): the "+
			"snapshot is made of those, afterwards", name)
	}
	claims, err := m.claims(p.vm)
	if err != nil {
		return p, nil, err
	}
	for _, c := range claims {
		switch {
		case c.Problem != nil && c.Problem.Fatal:
			return fail(snapshot.ReasonNoVolume, "%s", c.Problem)
		case c.UID == "":
			return fail(snapshot.ReasonNoVolume, "the claim %s of the VM %s isn't there yet: the snapshot is made "+
				"when it is", c.Name, name)
		}
		p.volumes = append(p.volumes, v1.SnapshotVolume{
			VolumeSnapshotName: snapshot.MachineVolumeName(of.Name, len(p.volumes)), Name: c.Volume,
			PersistentVolumeClaimName: c.Name, PersistentVolumeClaimUID: c.UID, Untrusted: c.Untrusted,
		})
	}
	for _, ref := range disksOf(p.vm) {
		d, err := m.opts.Disks.Disk(ref.Name)
		switch {
		case err != nil:
			return p, nil, err
		case d == nil:
			return fail(snapshot.ReasonDiskMissing, "there is no VirtualDisk %s (%s)", ref.Name, ref.Path)
		case !snapshot.HasVolume(d):
			return fail(snapshot.ReasonDiskNotReady, "the VirtualDisk %s (%s) is %s: %s", ref.Name, ref.Path,
				d.Status.Phase, d.Status.Message)
		case disk.Holder(d) != "" && disk.Holder(d) != name:
			return fail(snapshot.ReasonDiskInUse, "the VirtualDisk %s (%s) is attached to the VM %s: the snapshot is made when that "+
				"has stopped", ref.Name, ref.Path, disk.Holder(d))
		}
		p.disks = append(p.disks, d)
		p.volumes = append(p.volumes, v1.SnapshotVolume{
			VolumeSnapshotName: snapshot.MachineVolumeName(of.Name, len(p.volumes)), VirtualDiskName: d.Name,
			PersistentVolumeClaimName: d.Status.Target.PersistentVolumeClaimName,
			PersistentVolumeClaimUID:  d.Status.Target.UID, Untrusted: d.Status.Untrusted,
		})
	}
	return p, nil, nil
}

// disksOf returns the VirtualDisks that a VM names, and those that its guest has beside them.
func disksOf(vm *v1.VirtualMachine) []objects.DeviceRef {
	other := func(r objects.DeviceRef) bool { return r.Kind != v1.KindVirtualDisk }
	all := slices.DeleteFunc(objects.DeviceRefs(vm), other)
	for _, r := range vm.Status.BlockDeviceRefs {
		named := slices.ContainsFunc(all, func(n objects.DeviceRef) bool { return n.Name == r.Name })
		if r.Hotplugged && r.Attached && r.Kind == v1.KindVirtualDisk && !named {
			all = append(all, objects.DeviceRef{Kind: r.Kind, Name: r.Name, Path: "attached while the VM runs"})
		}
	}
	return all
}

// claims returns those of a VM, as far as they exist.
func (m *Machines) claims(vm *v1.VirtualMachine) ([]objects.Claim, error) {
	have := objects.Existing{Claims: map[string]metav1.ObjectMeta{}, Records: map[string]*objects.Metadata{}}
	for _, name := range objects.ClaimNames(vm) {
		claim, err := m.opts.VMs.Metadata(objects.KindClaim, name)
		if err != nil {
			return nil, err
		}
		if claim == nil {
			continue
		}
		have.Claims[name] = claim.ObjectMeta
		record, err := m.opts.VMs.Metadata(objects.KindConfigMap, objects.ClaimRecordName(name))
		if err != nil {
			return nil, err
		}
		if record != nil {
			have.Records[name] = record
		}
	}
	return objects.Claims(vm, m.opts.Settings(), have)
}

// attempt makes the VolumeSnapshots of a VM while nothing is written to its disks, if that can be had. Whether
// the API server would take them is asked before a guest is frozen for it.
func (m *Machines) attempt(ctx context.Context, of *v1.VirtualMachineSnapshot, p plan) snapshot.Outcome {
	wanted, why := m.wanted(ctx, of, p)
	if why != nil {
		return *why
	}
	holder, before, why := m.holder(ctx, p)
	if why != nil {
		return *why
	}
	frozen, why := m.freeze(ctx, holder, of.Spec.Consistency())
	if why != nil {
		return *why
	}
	var names []string
	for i, o := range wanted {
		if err := m.opts.Client.Create(ctx, o, owner); err != nil {
			frozen.end(ctx)
			return refusal(err) // what was made is removed
		}
		p.volumes[i].VolumeSnapshotUID = o.GetUID()
		names = append(names, o.GetName())
	}
	shows := m.shown(ctx, frozen.until, names...)
	lasted := frozen.end(ctx)
	came := snapshot.Outcome{Message: frozen.why, Volumes: p.volumes}
	var err error
	if came.Definition, err = definitionOf(p.vm); err != nil {
		return refuse(snapshot.ReasonRefused, "%s", err)
	}
	switch {
	case frozen.why != "":
	case !shows:
		came.Message = "the storage has not made the snapshots while nothing was written"
	case frozen.guest != nil && !lasted:
		came.Message = "the guest's file systems were thawed before the snapshots were made"
	case frozen.guest == nil && !m.stayedOff(ctx, p, before):
		came.Message = "the VM, or another one with its disks, was started while the snapshots were made"
	default:
		came.Consistent = true
	}
	return came
}

// wanted returns the VolumeSnapshots of a VM, which the API server would take, or why there are none. It completes
// the plan's volumes.
func (m *Machines) wanted(ctx context.Context, of *v1.VirtualMachineSnapshot, p plan) (
	all []client.Object, why *snapshot.Outcome,
) {
	asked := asked{"spec.volumeSnapshotClasses", func(storageClass string) string {
		for _, c := range of.Spec.VolumeSnapshotClasses {
			if c.StorageClassName == storageClass {
				return c.VolumeSnapshotClassName
			}
		}
		return ""
	}}
	for i := range p.volumes {
		v := &p.volumes[i]
		class, claim, why := m.class(ctx, v.PersistentVolumeClaimName, v.PersistentVolumeClaimUID, asked)
		if why != nil {
			why.Message = fmt.Sprintf("the claim %s: %s", v.PersistentVolumeClaimName, why.Message)
			return nil, why
		}
		v.StorageClassName, v.VolumeMode = *claim.Spec.StorageClassName, corev1.PersistentVolumeFilesystem
		if claim.Spec.VolumeMode != nil {
			v.VolumeMode = *claim.Spec.VolumeMode
		}
		if slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteMany) {
			v.AccessMode = corev1.ReadWriteMany
		}
		if claim.Status.Phase != corev1.ClaimBound {
			return nil, new(refuse(snapshot.ReasonDiskNotReady, "the claim %s has no volume yet", claim.Name))
		}
		o := volumeSnapshot(of, v1.KindVMSnapshot, snapshot.MachineAppName, wantedVolume{
			name: v.VolumeSnapshotName, claim: v.PersistentVolumeClaimName, class: class,
		})
		if err := m.opts.Client.Create(ctx, o.DeepCopy(), client.DryRunAll, owner); err != nil {
			return nil, new(refusal(err))
		}
		all = append(all, o)
	}
	return all, nil
}

// holder returns the VM's name if it is running, and else its stateful set's version; or why neither is so.
func (m *Machines) holder(ctx context.Context, p plan) (name, version string, why *snapshot.Outcome) {
	off, version, err := m.off(ctx, p.vm)
	switch {
	case err != nil:
		return "", "", new(refusal(err))
	case off:
		return "", version, nil
	}
	pod, err := m.opts.VMs.Pod(p.vm.Name)
	if err != nil {
		return "", "", new(refusal(err))
	}
	if pod == nil || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
		return "", "", new(refuse(snapshot.ReasonBusy, "the VM %s is starting or ending: the snapshot is made "+
			"afterwards", p.vm.Name))
	}
	return p.vm.Name, "", nil
}

// off reports whether a VM has no pod and is to have none, with the version of the object that says so.
func (m *Machines) off(ctx context.Context, vm *v1.VirtualMachine) (off bool, version string, err error) {
	key := client.ObjectKey{Namespace: m.opts.Namespace, Name: vm.Name}
	var set appsv1.StatefulSet
	if err := m.opts.Live.Get(ctx, key, &set); err != nil {
		return apierrors.IsNotFound(err), "", client.IgnoreNotFound(err)
	}
	settled := set.Status.ObservedGeneration == set.Generation && (set.Spec.Replicas == nil || *set.Spec.Replicas == 0)
	key.Name = objects.PodName(vm.Name, vm.Status.PodOrdinal)
	err = m.opts.Live.Get(ctx, key, &corev1.Pod{})
	return settled && apierrors.IsNotFound(err), fmt.Sprint(set.UID, " ", set.Generation), client.IgnoreNotFound(err)
}

// stayedOff reports whether no VM has had the disks since they were read.
func (m *Machines) stayedOff(ctx context.Context, p plan, before string) bool {
	for _, d := range p.disks {
		if !m.undisturbed(ctx, d) {
			return false
		}
	}
	off, now, err := m.off(ctx, p.vm)
	return err == nil && off && now == before
}

// definitionOf returns the definition of a VM, without what Kubernetes and its tools note in it.
func definitionOf(vm *v1.VirtualMachine) (*v1.VirtualMachineDefinition, error) {
	spec, err := json.Marshal(vm.Spec)
	if err != nil {
		return nil, fmt.Errorf("write the definition of VM %s: %w", vm.Name, err)
	}
	annotations := maps.Clone(vm.Annotations)
	for _, key := range slices.Collect(maps.Keys(annotations)) {
		if strings.HasPrefix(key, v1.GroupName+"/") || strings.Contains(key, "kubernetes.io/") {
			delete(annotations, key)
		}
	}
	return &v1.VirtualMachineDefinition{
		UID: vm.UID, Labels: maps.Clone(vm.Labels), Annotations: annotations, Spec: runtime.RawExtension{Raw: spec},
	}, nil
}
