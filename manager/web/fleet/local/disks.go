package local

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"vmop/manager/web/fleet"
	"vmop/runner/disks/snapshot"
	"vmop/runner/inventory"
	"vmop/runner/status"
	"vmop/vmspec"
)

// fillDisks sets the disks, CD drives and snapshots of a VM.
func fillDisks(v *fleet.VM, vm *inventory.VM) {
	files, err := vm.Disks()
	if err != nil {
		v.Problems = append(v.Problems, fleet.Problem{Message: err.Error()})
	}
	for i, d := range vm.Spec().Drives {
		if d.Type == vmspec.DriveIDECD {
			medium, _, _ := vmspec.Credentials(d.File)
			v.Volumes = append(v.Volumes, fleet.Volume{
				Kind: fleet.CDDrive, Name: drivePrefix + strconv.Itoa(i), Source: medium,
			})
			continue
		}
		at := slices.IndexFunc(files, func(f inventory.Disk) bool { return f.Place == i })
		if at < 0 {
			name := cmp.Or(d.File, d.Device, d.Resource)
			v.Volumes = append(v.Volumes, fleet.Volume{Kind: fleet.FileDisk, Name: name})
			continue
		}
		v.Volumes = append(v.Volumes, newVolume(files[at], vm.Status))
	}
	found, err := vm.Snapshots()
	if err != nil {
		v.Problems = append(v.Problems, fleet.Problem{Message: err.Error()})
	}
	for _, s := range slices.Backward(found) {
		v.Snapshots = append(v.Snapshots, newSnapshot(s))
	}
}

// newVolume returns a disk as pages show it. s is the report of the runner; nil if it isn't running.
func newVolume(d inventory.Disk, s *status.Status) fleet.Volume {
	v := fleet.Volume{
		Kind: fleet.FileDisk, Name: d.File, Size: cmp.Or(d.Size, d.Wanted), Stored: d.Stored, Format: d.Format,
		Source: d.Source, Detaches: d.Name,
	}
	if !strings.HasPrefix(d.File, "nbd://") {
		v.Grows, v.Exports = d.Name, d.Name
	}
	if d.Missing {
		v.Exports = ""
		v.State, v.Message = "Missing", "the file does not exist"
		if d.Source != "" || d.Wanted > 0 {
			v.State, v.Message = "WaitForFirstConsumer", "" // the next start creates it
		}
	}
	if s == nil {
		return v
	}
	if i := slices.IndexFunc(s.Drives, func(r status.Drive) bool { return r.Name == d.Name }); i >= 0 {
		v.Attachment = d.Name
		if s.Drives[i].State != status.DriveAttached {
			v.State = "InProgress"
		}
	}
	return v
}

// newSnapshot returns a snapshot as pages show it.
func newSnapshot(d snapshot.Description) fleet.Snapshot {
	consistent := d.Consistency() != "crash-consistent"
	s := fleet.Snapshot{Name: d.Name, State: "Ready", At: d.Created, Consistent: &consistent, Stored: d.Bytes}
	if len(d.Omitted) > 0 {
		s.Reason = fleet.DisksOmitted
		s.Message = "without the disks of NBD servers: " + strings.Join(d.Omitted, ", ")
	}
	return s
}
