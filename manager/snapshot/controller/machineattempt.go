package controller

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
	"vmop/manager/snapshot"
	"vmop/manager/vm/objects"
)

// plan contains the objects that a snapshot of a VM is created from.
type plan struct {
	vm      *v1.VirtualMachine
	volumes []v1.SnapshotVolume
	disks   []*v1.VirtualDisk // the VirtualDisks among the volumes
}

// planOf returns the plan for a snapshot of a VM, or the reason why it can't be created now.
func (m *Machines) planOf(of *v1.VirtualMachineSnapshot) (p plan, why *snapshot.Outcome, err error) {
	fail := func(reason, format string, args ...any) (plan, *snapshot.Outcome, error) {
		return p, new(refusedOutcome(reason, format, args...)), nil
	}
	name := of.Spec.VirtualMachineName
	if p.vm, err = m.opts.VMs.VM(name); err != nil {
		return p, nil, err
	}
	if p.vm == nil || p.vm.DeletionTimestamp != nil {
		return fail(snapshot.ReasonMachine, "there is no VM %s, or it is being deleted: the snapshot is created "+
			"when it is created", name)
	}
	if slices.ContainsFunc(p.vm.Status.RestartAwaitingChanges, objects.OtherVolumes) {
		return fail(snapshot.ReasonBusy, "the VM %s gets other volumes at its next start (spec.claimNameSuffix): the "+
			"snapshot captures them after that start", name)
	}
	claims, err := m.claimsOf(p.vm)
	if err != nil {
		return p, nil, err
	}
	for _, c := range claims {
		switch {
		case c.Problem != nil && c.Problem.Fatal:
			return fail(snapshot.ReasonNoVolume, "%s", c.Problem)
		case c.UID == "":
			return fail(snapshot.ReasonNoVolume, "the claim %s of the VM %s does not exist yet: the snapshot is created "+
				"when it does", c.Name, name)
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
			return fail(snapshot.ReasonDiskInUse, "the VirtualDisk %s (%s) is attached to the VM %s: the snapshot is created when that "+
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

// disksOf returns the VirtualDisks in a VM's definition, and the VirtualDisks attached to its running guest.
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

// claimsOf returns the claims of a VM. A claim that does not exist has no UID.
func (m *Machines) claimsOf(vm *v1.VirtualMachine) ([]objects.Claim, error) {
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

// attemptSnapshot creates the VolumeSnapshots of a VM while its disks are not being written, if possible. Before it
// freezes a guest, it asks the API server whether it would accept the VolumeSnapshots.
func (m *Machines) attemptSnapshot(ctx context.Context, of *v1.VirtualMachineSnapshot, p plan) snapshot.Outcome {
	wanted, why := m.plannedSnapshots(ctx, of, p)
	if why != nil {
		return *why
	}
	holder, before, why := m.holderOf(ctx, p)
	if why != nil {
		return *why
	}
	frozen, why := m.freezeVM(ctx, holder, of.Spec.Consistency())
	if why != nil {
		return *why
	}
	var names []string
	for i, o := range wanted {
		if err := m.opts.Client.Create(ctx, o, owner); err != nil {
			frozen.thawGuest(ctx)
			return outcomeOfError(err) // the controller removes the VolumeSnapshots created so far
		}
		p.volumes[i].VolumeSnapshotUID = o.GetUID()
		names = append(names, o.GetName())
	}
	shows := m.awaitMoments(ctx, frozen.until, names...)
	lasted := frozen.thawGuest(ctx)
	came := snapshot.Outcome{Message: frozen.why, Volumes: p.volumes}
	var err error
	if came.Definition, err = definitionOf(p.vm); err != nil {
		return refusedOutcome(snapshot.ReasonRefused, "%s", err)
	}
	switch {
	case frozen.why != "":
	case !shows:
		came.Message = "the storage did not create the snapshots while writes were frozen"
	case frozen.guest != nil && !lasted:
		came.Message = "the guest's file systems were thawed before the snapshots were created"
	case frozen.guest == nil && !m.stayedOff(ctx, p, before):
		came.Message = "this VM, or another VM with its disks, was started while the snapshots were created"
	default:
		came.Consistent = true
	}
	return came
}

// plannedSnapshots returns the VolumeSnapshots for a VM that the API server would accept, or the reason for a failure.
// It completes the plan's volumes.
func (m *Machines) plannedSnapshots(ctx context.Context, of *v1.VirtualMachineSnapshot, p plan) (
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
		class, claim, why := m.snapshotClass(ctx, v.PersistentVolumeClaimName, v.PersistentVolumeClaimUID, asked)
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
			return nil, new(refusedOutcome(snapshot.ReasonDiskNotReady, "the claim %s has no volume yet", claim.Name))
		}
		o := volumeSnapshot(of, v1.KindVMSnapshot, snapshot.MachineAppName, wantedVolume{
			name: v.VolumeSnapshotName, claim: v.PersistentVolumeClaimName, class: class,
		})
		if err := m.opts.Client.Create(ctx, o.DeepCopy(), client.DryRunAll, owner); err != nil {
			return nil, new(outcomeOfError(err))
		}
		all = append(all, o)
	}
	return all, nil
}

// holderOf returns the VM's name if it is running, or the version of its stateful set if it is off; otherwise the
// reason.
func (m *Machines) holderOf(ctx context.Context, p plan) (name, version string, why *snapshot.Outcome) {
	off, version, err := m.isStopped(ctx, p.vm)
	switch {
	case err != nil:
		return "", "", new(outcomeOfError(err))
	case off:
		return "", version, nil
	}
	pod, err := m.opts.VMs.Pod(p.vm.Name)
	if err != nil {
		return "", "", new(outcomeOfError(err))
	}
	if pod == nil || pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
		return "", "", new(refusedOutcome(snapshot.ReasonBusy,
			"the VM %s is starting or stopping: the snapshot is created "+
				"afterwards", p.vm.Name))
	}
	return p.vm.Name, "", nil
}

// isStopped reports whether a VM has no pod and will not get a pod. version is the version of the stateful set that
// determines that.
func (m *Machines) isStopped(ctx context.Context, vm *v1.VirtualMachine) (off bool, version string, err error) {
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

// stayedOff reports whether the VM has stayed off, and its disks have been unused by VMs, since they were read.
func (m *Machines) stayedOff(ctx context.Context, p plan, before string) bool {
	for _, d := range p.disks {
		if !m.isUndisturbed(ctx, d) {
			return false
		}
	}
	off, now, err := m.isStopped(ctx, p.vm)
	return err == nil && off && now == before
}

// definitionOf returns the definition of a VM, without annotations from Kubernetes, its tools and this project.
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
