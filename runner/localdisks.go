package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"vmop/qmp"
	"vmop/runner/machine/reconcile"
	"vmop/runner/migrate/handover"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// offeredDisk is a disk that the source can copy to the target.
type offeredDisk struct {
	// ID of the device. Both plans use the same ID.
	ID string `json:"id"`
	// Size that the guest sees, in bytes.
	Size int64 `json:"size"`
	// Blank reports whether the file or device begins and ends with zeros, or can't be read. In that case a blank
	// device of the target may be the same disk.
	Blank bool `json:"blank,omitempty"`
}

// isWritten reports whether a drive is a disk that the guest can write and that is not on an NBD server.
func isWritten(d vmspec.Drive) bool { return d.Type == vmspec.DriveRaw && !d.ReadOnly && d.NBD == nil }

// nodeOf returns the device of a disk and its QEMU node name. Both are "" if the VM type does not declare them.
func nodeOf(p *plan.Plan, drive int) (device, node string) {
	at := slices.IndexFunc(p.Drives, func(d plan.Drive) bool { return d.Index == drive })
	if at < 0 || len(p.Drives[at].Nodes) == 0 {
		return "", ""
	}
	return p.Drives[at].Device, p.Drives[at].Nodes[0]
}

// copyableDisks returns the disks that can be copied, including those attached while the guest ran. The lists are
// empty if the machine was started by a version of the runner that could not copy disks.
func (m *run) copyableDisks(ctx context.Context, plugs []plug) (
	disks []handover.Disk, offered []offeredDisk, err error,
) {
	if _, err := os.Stat(filepath.Dir(m.vm.CopySocket())); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	var nodes []struct {
		Name  string `json:"node-name"`
		Image struct {
			Size int64 `json:"virtual-size"`
		} `json:"image"`
	}
	if err := m.driver.Query(ctx, qmp.Command{Execute: "query-named-block-nodes"}, &nodes); err != nil {
		return nil, nil, err
	}
	sizes := map[string]int64{}
	for _, n := range nodes {
		sizes[n.Name] = n.Image.Size
	}
	offer := func(d vmspec.Drive, device, node string) {
		if !isWritten(d) || device == "" || sizes[node] == 0 {
			return
		}
		blank, _, err := handover.IsBlank(pathOf(d), os.O_RDONLY)
		disks = append(disks, handover.Disk{ID: device, Node: node})
		offered = append(offered, offeredDisk{ID: device, Size: sizes[node], Blank: blank || err != nil})
	}
	for i, d := range m.vm.Spec.Drives {
		device, node := nodeOf(m.vm.Plan, i)
		offer(d, device, node)
	}
	rule, _ := m.vm.Plan.Rules.Disks()
	for _, p := range plugs {
		offer(p.Drive.Drive, pluggedID(p.Serial), reconcile.AttachmentOf(rule, p.Drive, p.slot, nil).Node)
	}
	return disks, offered, nil
}

// chooseCopies decides which disks of the guest are copied, and where to: to files that do not exist here yet, and to
// blank devices. All other files must be shared with the source.
func (r *receiver) chooseCopies(o offer) (list []handover.Image, err error) {
	for i, d := range r.vm.Spec.Drives {
		device, node := nodeOf(r.vm.Plan, i)
		if list, err = r.addImage(list, o.Disks, d, device, node); err != nil {
			return nil, fmt.Errorf("vm.drives[%d]: %w", i, err)
		}
	}
	rule, _ := r.vm.Plan.Rules.Disks()
	for _, p := range r.plugs {
		node := reconcile.AttachmentOf(rule, p.Drive, p.slot, nil).Node
		if list, err = r.addImage(list, o.Disks, p.Drive.Drive, pluggedID(p.Serial), node); err != nil {
			return nil, fmt.Errorf("%s: %w", p.Path(), err)
		}
	}
	return list, nil
}

// addImage adds the copy target of a disk to list, unless the disk is shared with the source.
func (r *receiver) addImage(list []handover.Image, all []offeredDisk, d vmspec.Drive, device, node string) (
	[]handover.Image, error,
) {
	switch {
	case !isWritten(d):
	case r.opts.Receive.CopyDisks, slices.Contains(r.opts.Receive.Copies, pathOf(d)):
		image, err := imageFor(all, d, device, node, slices.Contains(r.opts.Receive.Copies, pathOf(d)))
		if image != nil {
			list = append(list, *image)
		}
		return list, err
	default:
		err := isShared(d)
		if errors.Is(err, fs.ErrNotExist) && r.opts.Receive.Migration == "" {
			err = fmt.Errorf("%w; receive --copy-disks copies missing disks", err)
		}
		return list, err
	}
	return list, nil
}

// pathOf returns the path of a disk.
func pathOf(d vmspec.Drive) string { return cmp.Or(d.File, d.Device, d.Resource) }

// imageFor returns the copy target of a disk, or nil if the disk is shared with the source. other means that the
// target is known to be a different disk than the source's.
func imageFor(all []offeredDisk, d vmspec.Drive, device, node string, other bool) (*handover.Image, error) {
	at := slices.IndexFunc(all, func(offered offeredDisk) bool { return offered.ID == device && device != "" })
	path := pathOf(d)
	if d.File != "" {
		if _, err := os.Lstat(d.File); err == nil {
			if err := isShared(d); err != nil {
				return nil, fmt.Errorf("%w; disks are copied only to files that don't exist: move it away", err)
			}
			return nil, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	if at < 0 {
		return nil, fmt.Errorf("%s cannot be copied: the source's QEMU was started by a version of vmrunner that copies no disks, "+
			"or the VM type does not declare which of QEMU's drives it is", path)
	}
	offered := all[at]
	if offered.Size <= 0 {
		return nil, fmt.Errorf("%s cannot be copied: the source reports that the disk has %d bytes", path, offered.Size)
	}
	if d.File != "" {
		image := handover.NewFile(device, node, d.File, d.Format, offered.Size)
		return &image, nil
	}
	image := handover.Image{ID: device, Node: node, Path: path, Format: d.Format, Size: offered.Size}
	switch {
	case d.Format == "qcow2":
		return nil, fmt.Errorf("%s: cannot copy a disk to a device with format qcow2; use raw", path)
	case offered.Blank && !other:
		return nil, fmt.Errorf("the source's disk is blank, so %s may be the same disk: have the guest write "+
			"to it before it is moved", path)
	}
	return &image, image.CheckDevice()
}

// isShared returns an error if a disk is not the source's disk. QEMU locks the files that it writes to, so an
// unlocked file is a different disk. Block devices are not checked.
func isShared(d vmspec.Drive) error {
	if d.File == "" {
		return nil
	}
	locked, err := isLocked(d.File)
	if err == nil && !locked {
		err = fmt.Errorf("%s is not the disk of the arriving guest: no QEMU has it open", d.File)
	}
	return err
}
