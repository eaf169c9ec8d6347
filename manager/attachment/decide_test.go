package attachment

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
)

// attached is the situation of a disk that a guest uses.
func attached() Situation {
	vm := &v1.VirtualMachine{}
	vm.Name, vm.Spec.VM.State = "vm", v1.Running
	d := &v1.VirtualDisk{}
	d.Name, d.Status.Phase, d.Status.Target.UID = "data", v1.DiskReady, "1"
	d.Status = disk.Lock(d, "vm", "", time.Time{})
	return Situation{
		VMName: "vm", Ref: v1.AttachedDeviceRef{Kind: v1.AttachedDisk, Name: "data"}, VM: vm, HasPod: true, Disk: d,
		Export: Export{Exists: true, Ready: true},
		Drive:  Drive{Configured: true, State: DriveAttached},
	}
}

// anImage turns the situation into one for an image.
func anImage(s *Situation) {
	s.Ref.Kind, s.Awaits = v1.AttachedImage, true
	s.Disk = &v1.VirtualDisk{}
	s.Disk.Kind, s.Disk.Name, s.Disk.Status.Phase, s.Disk.Status.Target.UID = "VirtualImage", "data", v1.DiskReady, "1"
}

// An image needs no lock. A guest keeps its image even if the image is deleted, and another image replaces it only
// after the guest has released it.
func TestDecideOfAnImage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Situation)
		want   Plan // without the message
		says   string
	}{
		"attached": {func(*Situation) {}, Plan{Export: true, Drive: true, Phase: Attached, Reason: ReasonAttached}, ""},
		"new": {
			func(s *Situation) { s.Drive, s.Export = Drive{}, Export{} },
			Plan{Export: true, Phase: inProgress, Reason: ReasonExporting},
			"being started",
		},
		"an export that starts": {
			func(s *Situation) { s.Drive, s.Export.Ready = Drive{}, false },
			Plan{Export: true, Phase: inProgress, Reason: ReasonExporting},
			"being started",
		},
		"a runner that has not reported": {
			func(s *Situation) { s.Drive, s.Awaits = Drive{}, false },
			Plan{Export: true, Phase: inProgress, Reason: ReasonRequested},
			"is being written",
		},
		"an earlier runner": {
			func(s *Situation) { s.Drive, s.Export, s.Awaits, s.Earlier = Drive{}, Export{}, false, true },
			Plan{Phase: Pending, Reason: reasonRestart},
			"earlier version",
		},
		"not ready": {
			func(s *Situation) { s.Drive, s.Export, s.Disk.Status.Phase = Drive{}, Export{}, v1.DiskPending },
			Plan{Phase: Pending, Reason: disk.ReasonImageNotReady},
			"the VirtualImage data",
		},
		"missing": {
			func(s *Situation) { s.Drive, s.Export, s.Disk = Drive{}, Export{}, nil },
			Plan{Phase: Pending, Reason: disk.ReasonImageMissing},
			"there is no VirtualImage data: it is attached when it is created",
		},
		"failed": {
			func(s *Situation) { s.Drive, s.Export, s.Disk.Status.Phase = Drive{}, Export{}, v1.DiskFailed },
			Plan{Phase: failed, Reason: disk.ReasonImageFailed},
			"the VirtualImage data",
		},
		"deleted while the guest has it": {
			func(s *Situation) { s.Disk = nil },
			Plan{Export: true, Drive: true, Phase: Attached, Reason: ReasonAttached},
			"",
		},
		"deleted, and its export is lost": {
			func(s *Situation) { s.Disk, s.Export = nil, Export{} },
			Plan{Phase: Pending, Reason: disk.ReasonImageMissing},
			"there is no VirtualImage data",
		},
		"deleted, and the guest lets go of it": {
			func(s *Situation) { s.Deleted, s.Disk, s.Drive = true, nil, Drive{State: DriveDetaching} },
			Plan{Export: true, Phase: Terminating, Reason: reasonDetaching},
			"lets go",
		},
		"in the definition": {
			func(s *Situation) {
				s.VM.Spec.BlockDeviceRefs = []v1.BlockDeviceRef{{Kind: v1.KindVirtualImage, Name: "data"}}
				s.Drive, s.Export = Drive{}, Export{}
			},
			Plan{Phase: failed, Reason: ReasonConflict},
			"the VM vm has the VirtualImage data by its definition",
		},
		"a disk of that name in the definition": {
			func(s *Situation) {
				s.VM.Spec.BlockDeviceRefs = []v1.BlockDeviceRef{{Kind: v1.KindVirtualDisk, Name: "data"}}
				s.Drive, s.Export = Drive{}, Export{}
			},
			Plan{Export: true, Phase: inProgress, Reason: ReasonExporting},
			"being started",
		},
	} {
		s := attached()
		anImage(&s)
		c.change(&s)
		got := Decide(s)
		if s.isImage() {
			require.NotContains(t, got.Message, "disk", name)
		}
		require.Contains(t, got.Message, c.says, name)
		got.Message = ""
		require.Equal(t, c.want, got, name)
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Situation)
		want   Plan // without the message
		says   string
	}{
		"attached": {func(*Situation) {}, Plan{Export: true, Drive: true, Phase: Attached, Reason: ReasonAttached}, ""},
		"no VM": {
			func(s *Situation) { s.VM, s.HasPod = nil, false },
			Plan{Phase: Pending, Reason: ReasonVMMissing},
			"there is no VM vm",
		},
		"stopped": {
			func(s *Situation) { s.VM.Spec.VM.State, s.HasPod = v1.Stopped, false },
			Plan{Phase: Pending, Reason: ReasonVMStopped},
			"attached when it is",
		},
		"a guest that shuts down": {
			func(s *Situation) { s.VM.Spec.VM.State = v1.Stopped },
			Plan{Export: true, Drive: true, Phase: Attached, Reason: ReasonAttached},
			"",
		},
		"a disk that someone adds to the definition": {
			func(s *Situation) {
				s.VM.Spec.BlockDeviceRefs = []v1.BlockDeviceRef{{Kind: v1.KindVirtualDisk, Name: "data"}}
			},
			Plan{Export: true, Drive: true, Phase: Attached, Reason: ReasonAttached},
			"",
		},
		"a disk of the definition": {
			func(s *Situation) {
				s.VM.Spec.BlockDeviceRefs = []v1.BlockDeviceRef{{Kind: v1.KindVirtualDisk, Name: "data"}}
				s.Drive, s.Export = Drive{}, Export{}
			},
			Plan{Phase: failed, Reason: ReasonConflict},
			"by its definition",
		},
		"another VM's": {
			func(s *Situation) {
				s.Disk.Status, s.Drive, s.Export = disk.Lock(s.Disk, "other", "", time.Time{}), Drive{}, Export{}
			},
			Plan{Phase: Pending, Reason: disk.ReasonInUse},
			"attached to the VM other",
		},
		"free": {
			func(s *Situation) {
				s.Disk.Status, s.Drive, s.Export = disk.Unlock(s.Disk, time.Time{}), Drive{}, Export{}
			},
			Plan{Take: true, Phase: inProgress, Reason: ReasonExporting},
			"reserved",
		},
		"an export that starts": {
			func(s *Situation) { s.Drive, s.Export.Ready = Drive{}, false },
			Plan{Export: true, Phase: inProgress, Reason: ReasonExporting},
			"being started",
		},
		"a runner that awaits an export which no node takes": {
			func(s *Situation) {
				s.Drive = Drive{Configured: true, State: DriveAttaching, Message: "no answer"}
				s.Export, s.Awaits = Export{Exists: true, Problem: "no node takes the pod vd-data"}, true
			},
			Plan{Export: true, Drive: true, Phase: inProgress, Reason: ReasonExporting},
			"being started: no node takes the pod vd-data",
		},
		"deleted before it was served": {
			func(s *Situation) { s.Deleted, s.Drive.State, s.Export.Ready = true, DriveAttaching, false },
			Plan{Export: true, Phase: Terminating, Reason: reasonDetaching},
			"the runner detaches",
		},
		"deleted before it was served, and the runner has not reported it": {
			func(s *Situation) {
				s.Deleted, s.Drive, s.Export.Ready = true, Drive{Configured: true, Unseen: true}, false
			},
			Plan{Export: true, Drive: true, Phase: Terminating, Reason: reasonDetaching},
			"waiting for the disk's export",
		},
		"an export that starts again": {
			func(s *Situation) { s.Export.Ready = false },
			Plan{Export: true, Drive: true, Phase: inProgress, Reason: ReasonExporting},
			"being restarted",
		},
		"an export that was evicted": {
			func(s *Situation) {
				s.Export = Export{Exists: true, Over: true, Problem: "the pod vd-data was ended: Evicted"}
			},
			Plan{Export: true, Renew: true, Drive: true, Phase: inProgress, Reason: ReasonExporting},
			"being restarted: the pod vd-data was ended: Evicted",
		},
		"an export that was evicted, and is being deleted": {
			func(s *Situation) { s.Export = Export{Exists: true, Over: true, Ending: true} },
			Plan{Export: true, Drive: true, Phase: inProgress, Reason: ReasonExporting},
			"being restarted",
		},
		"an export that no node takes": {
			func(s *Situation) {
				s.Drive, s.Export = Drive{}, Export{Exists: true, Problem: "no node takes the pod vd-data"}
			},
			Plan{Export: true, Phase: inProgress, Reason: ReasonExporting},
			"being started: no node takes the pod vd-data",
		},
		"evicted while it isn't wanted": {
			func(s *Situation) { s.Deleted, s.Drive, s.Export = true, Drive{}, Export{Exists: true, Over: true} },
			Plan{Phase: Terminating, Reason: reasonDetaching},
			"being ended",
		},
		"a runner that can't": {
			func(s *Situation) { s.Drive.State, s.Drive.Message = DriveFailed, "no free slot" },
			Plan{Export: true, Drive: true, Phase: failed, Reason: reasonNotPlugged},
			"no free slot",
		},
		"deleted": {
			func(s *Situation) { s.Deleted = true },
			Plan{Export: true, Phase: Terminating, Reason: reasonDetaching},
			"the runner detaches",
		},
		"deleted, without an export": {
			func(s *Situation) { s.Deleted, s.Export = true, Export{} },
			Plan{Export: true, Drive: true, Phase: Terminating, Reason: reasonDetaching},
			"waiting for the disk's export",
		},
		"deleted, and the guest lets go": {
			func(s *Situation) { s.Deleted, s.Drive = true, Drive{State: DriveDetaching} },
			Plan{Export: true, Phase: Terminating, Reason: reasonDetaching},
			"lets go",
		},
		"deleted, and the guest keeps a disk without an export": {
			func(s *Situation) { s.Deleted, s.Export, s.Drive = true, Export{}, Drive{State: DriveDetaching} },
			Plan{Export: true, Phase: Terminating, Reason: reasonDetaching},
			"lets go",
		},
		"deleted, and the runner has not reported that it is gone": {
			func(s *Situation) { s.Deleted, s.Drive = true, Drive{Unseen: true} },
			Plan{Export: true, Phase: Terminating, Reason: reasonDetaching},
			"the runner detaches",
		},
		"deleted with its disk": {
			func(s *Situation) { s.Deleted, s.Disk, s.Export, s.HasPod = true, nil, Export{}, false },
			Plan{Done: true, Phase: Terminating, Reason: reasonDetaching},
			"being ended",
		},
		"a disk that is gone while the guest has it": {
			func(s *Situation) { s.Disk = nil },
			Plan{Phase: Pending, Reason: disk.ReasonMissing},
			"there is no VirtualDisk data",
		},
		"a disk without a claim": {
			func(s *Situation) {
				s.Disk.Status.Phase, s.Disk.Status.Message = v1.DiskFailed, "its claim is gone"
				s.Drive, s.Export = Drive{}, Export{}
			},
			Plan{Phase: failed, Reason: disk.ReasonFailed},
			"its claim is gone",
		},
		"a disk loses its claim while the guest has it": {
			func(s *Situation) { s.Disk.Status.Phase = v1.DiskFailed },
			Plan{Export: true, Drive: true, Phase: Attached, Reason: ReasonAttached},
			"",
		},
		"an older attachment of the disk": {
			func(s *Situation) { s.Other, s.Drive, s.Export = "first", Drive{}, Export{} },
			Plan{Phase: failed, Reason: ReasonConflict},
			"the attachment first is also for the VirtualDisk data",
		},
		"an older attachment that is being deleted": {
			func(s *Situation) { s.Other, s.OtherEnds, s.Drive, s.Export = "first", true, Drive{}, Export{} },
			Plan{Phase: Pending, Reason: ReasonConflict},
			"waiting until",
		},
		"a pod of an earlier manager": {
			func(s *Situation) { s.OldPod, s.Drive, s.Export = true, Drive{}, Export{} },
			Plan{Phase: Pending, Reason: reasonRestart},
			"has been restarted",
		},
		"a VM type without places for disks": {
			func(s *Situation) { s.Drive = Drive{Configured: true} },
			Plan{Export: true, Drive: true, Phase: failed, Reason: reasonNotPlugged},
			"hotplug.disks",
		},
		"mounted": {
			func(s *Situation) { s.Mounted, s.Drive, s.Export = true, Drive{}, Export{} },
			Plan{Phase: Pending, Reason: ReasonConflict},
			"mounts the claim",
		},
		"deleted, and let go of": {
			func(s *Situation) { s.Deleted, s.Drive = true, Drive{} },
			Plan{Phase: Terminating, Reason: reasonDetaching},
			"being ended",
		},
		"deleted, and ended": {
			func(s *Situation) { s.Deleted, s.Drive, s.Export = true, Drive{}, Export{} },
			Plan{Done: true, Phase: Terminating, Reason: reasonDetaching},
			"",
		},
		"deleted, of a VM without a pod": {
			func(s *Situation) { s.Deleted, s.HasPod = true, false },
			Plan{Phase: Terminating, Reason: reasonDetaching},
			"being ended",
		},
	} {
		s := attached()
		c.change(&s)
		got := Decide(s)
		if s.isImage() {
			require.NotContains(t, got.Message, "disk", name)
		}
		require.Contains(t, got.Message, c.says, name)
		got.Message = ""
		require.Equal(t, c.want, got, name)
	}
}
