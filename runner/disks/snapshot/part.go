package snapshot

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"vmop/runner/prepare"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// Kind is the kind of a part.
type Kind string

// The kinds of parts.
const (
	Disk     Kind = "disk"     // in vm.drives
	Firmware Kind = "firmware" // an image of the VM type that the guest writes to
	File     Kind = "file"
	Folder   Kind = "folder" // with files only
)

// isImage reports whether the part is a block device of QEMU.
func (k Kind) isImage() bool { return k == Disk || k == Firmware }

// A Part is a part of a VM that snapshots contain.
type Part struct {
	Kind Kind `json:"kind"`
	// Name is the disk's serial number, or the name in the data directory.
	Name string `json:"name"`
	// Path is the absolute path in the VM.
	Path string `json:"path"`
	// Format is the format of an image in the VM: raw or qcow2.
	Format string `json:"format,omitempty"`
	// Stored is the name in the snapshot's folder, and StoredFormat the format there.
	Stored       string `json:"stored"`
	StoredFormat string `json:"storedFormat,omitempty"`
	// Size is the size of an image that the guest sees, in bytes. For a qcow2 image that was copied while the VM
	// was stopped, it is the size of the file.
	Size int64 `json:"size,omitempty"`

	node string // QEMU's name
}

// Parts returns the parts of a VM that snapshots contain, according to the plan. It omits disks of NBD servers,
// because their data belongs to the server. The names in the folder are without a format.
func Parts(vm *prepare.VM) ([]Part, error) {
	var list []Part
	for i, d := range vm.Spec.Drives {
		if d.Type != vmspec.DriveRaw || d.ReadOnly || d.NBD != nil {
			continue
		}
		at := slices.IndexFunc(vm.Plan.Drives, func(known plan.Drive) bool { return known.Index == i })
		if at < 0 || len(vm.Plan.Drives[at].Nodes) == 0 {
			return nil, fmt.Errorf("vm.drives[%d]: the VM type %s does not declare which of QEMU's drives it is, so it cannot be in "+
				"a snapshot; declare it with part(drives = …)", i, vm.Config.VMType)
		}
		list = append(list, Part{
			Kind: Disk, Name: d.Serial, Path: cmp.Or(d.File, d.Device, d.Resource), Format: d.Format,
			Stored: fmt.Sprintf("drive%d", i), node: vm.Plan.Drives[at].Nodes[0],
		})
	}
	for _, f := range vm.Plan.Files {
		name := filepath.Base(f.To)
		p := Part{Kind: File, Name: name, Path: f.To, Stored: name}
		if node, format := nodeOf(vm.Plan, f.To); node != "" {
			p.Kind, p.node, p.Format = Firmware, node, format
		}
		list = append(list, p, filePart(f.To+prepare.KindSuffix))
	}
	list = append(list, filePart(filepath.Join(vm.DataDir, prepare.TypeFile)),
		filePart(filepath.Join(vm.DataDir, prepare.PinnedMachines)))
	tpm := filepath.Join(vm.DataDir, plan.TPMFolder)
	if slices.ContainsFunc(vm.Plan.Helpers, func(h plan.Process) bool { return h.Dir == tpm }) {
		list = append(list, Part{Kind: Folder, Name: plan.TPMFolder, Path: tpm, Stored: plan.TPMFolder})
	}
	return list, nil
}

func filePart(path string) Part {
	return Part{Kind: File, Name: filepath.Base(path), Path: path, Stored: filepath.Base(path)}
}

// nodeOf returns QEMU's node for a file, and its format; "" if there is none.
func nodeOf(p *plan.Plan, path string) (node, format string) {
	for _, d := range p.Drives {
		if d.File != path || len(d.Nodes) == 0 {
			continue
		}
		for i := range p.QEMU.Args {
			o := &p.QEMU.Args[i]
			if o.ID() != d.Nodes[0] {
				continue
			}
			if driver, ok := o.Get("driver"); ok && (driver == "raw" || driver == "qcow2") {
				return d.Nodes[0], driver
			}
		}
	}
	return "", ""
}
