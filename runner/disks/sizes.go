package disks

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"syscall"
	"time"

	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// Intervals of measuring the disks of a running machine.
const (
	lookTime = time.Minute
	// settleTime is how long a size must stay the same before it counts.
	settleTime = 10 * time.Second
)

// Sizes tracks the sizes of a running machine's disks on the host. They grow there, by truncate, lvextend or a
// larger Kubernetes volume, and QEMU doesn't notice it. Sizes waits until a size is stable, because QEMU would
// cut off later growth (see reconcile.Desired.Sizes).
type Sizes struct {
	log     *slog.Logger
	disks   map[int]*hostDisk // by index in vm.drives
	settled map[int]int64
	wanted  []vmspec.Drive // from the active configuration
	looks   chan []vmspec.Drive
	fixed   []vmspec.Fault // independent of sizes
}

// hostDisk is the observed state of a disk.
type hostDisk struct {
	path     string
	opened   os.FileInfo // the file that QEMU has open; nil: not seen yet
	replaced bool
	size     int64
	since    time.Time // when this size was first seen
	made     int64     // the size that this program gave it, which needs no time to settle
	fault    string    // why it can't grow, to log it only once
}

// New returns the disks that can grow from outside, for a VM with these rules in its plan. It omits qcow2 disks:
// their size is in the image, which only QEMU may change.
func New(drives []vmspec.Drive, rules plan.Rules, log *slog.Logger) *Sizes {
	d := &Sizes{
		log: log, disks: map[int]*hostDisk{}, settled: map[int]int64{}, wanted: drives,
		looks: make(chan []vmspec.Drive, 1),
	}
	for _, r := range rules {
		r, ok := r.(plan.Disk)
		if !ok || r.Drive < 0 || r.Drive >= len(drives) {
			continue
		}
		drive := drives[r.Drive]
		if drive.Type == vmspec.DriveRaw && drive.Format == "raw" {
			d.disks[r.Drive] = &hostDisk{path: cmp.Or(drive.File, drive.Device, drive.Resource)}
		}
	}
	return d
}

// Differ adds errors of disks that persist as long as the machine is running. Call it before Watch.
func (d *Sizes) Differ(faults []vmspec.Fault) { d.fixed = faults }

// Watch measures the disks immediately, when Measure is called, and periodically, because the file system of an
// image may grow later than the configured size. It passes the sizes of all disks to settled when a stable size
// has changed, and the differences from the configuration to differ when they have changed. A host that does not
// answer (NFS) blocks only this function.
func (d *Sizes) Watch(ctx context.Context, settled func(map[int]int64), differ func([]vmspec.Fault)) {
	if len(d.disks) == 0 {
		if d.fixed != nil {
			differ(d.fixed)
		}
		return
	}
	wake := time.NewTimer(0)
	defer wake.Stop()
	var before []vmspec.Fault
	for {
		select {
		case <-ctx.Done():
			return
		case d.wanted = <-d.looks:
		case <-wake.C:
		}
		changed, moving := d.recordSizes(d.measureDisks(), time.Now())
		if changed {
			settled(maps.Clone(d.settled))
		}
		if now := d.sizeFaults(); !reflect.DeepEqual(before, now) {
			before = now
			differ(now)
		}
		if moving {
			wake.Reset(settleTime)
		} else {
			wake.Reset(lookTime)
		}
	}
}

// Measure triggers a measurement with the disks of the current configuration, which replace the previous disks.
// It must be called by one goroutine only.
func (d *Sizes) Measure(wanted []vmspec.Drive) {
	select {
	case <-d.looks:
	default:
	}
	d.looks <- wanted
}

// recordSizes stores the measured sizes. It returns whether stable sizes have changed, and whether some sizes are not
// stable yet.
func (d *Sizes) recordSizes(seen map[int]int64, now time.Time) (changed, moving bool) {
	for i, size := range seen {
		disk := d.disks[i]
		if disk.size != size {
			disk.size, disk.since = size, now
		}
		switch {
		case d.settled[i] == size:
		case size != disk.made && now.Sub(disk.since) < settleTime:
			moving = true
		default:
			d.settled[i], changed = size, true
		}
	}
	return changed, moving
}

// measureDisks returns the sizes of the disks that QEMU has open. It omits unreachable disks: QEMU reports errors with
// them.
func (d *Sizes) measureDisks() map[int]int64 {
	sizes := map[int]int64{}
	for i, disk := range d.disks {
		info, err := os.Stat(disk.path)
		if err != nil {
			continue
		}
		disk.opened = cmp.Or(disk.opened, info)
		if replaced := info.Mode().IsRegular() && !os.SameFile(disk.opened, info); replaced != disk.replaced {
			disk.replaced = replaced
			if replaced {
				d.log.Warn("the file of a disk was replaced; the VM keeps the one it has open", "file", disk.path)
			}
		}
		if disk.replaced {
			continue
		}
		if size, err := hostSize(disk.path, info); err == nil {
			sizes[i] = max(size, d.growImage(i, disk, size))
		}
	}
	return sizes
}

// growImage enlarges an image with a configured size, and returns its current size; 0 if Sizes must not change it.
func (d *Sizes) growImage(i int, disk *hostDisk, have int64) int64 {
	if i >= len(d.wanted) || d.wanted[i].File != disk.path || int64(d.wanted[i].Size) <= have {
		return 0
	}
	size, err := fitImage(d.wanted[i], d.log)
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	if fault != disk.fault && fault != "" {
		d.log.Warn("an image cannot grow", "file", disk.path, "err", fault)
	}
	disk.fault = fault
	if size > have {
		disk.made = size
	}
	return size
}

// sizeFaults returns the differences between the disks and their configuration.
func (d *Sizes) sizeFaults() (list []vmspec.Fault) {
	list = append(list, d.fixed...)
	for _, i := range slices.Sorted(maps.Keys(d.disks)) {
		disk := d.disks[i]
		if i >= len(d.wanted) || d.wanted[i].File != disk.path || disk.replaced || disk.size == 0 {
			continue
		}
		text := disk.fault
		if text == "" {
			text = sizeDifference(d.wanted[i], disk.size)
		}
		if text != "" {
			list = append(list, vmspec.Fault{Path: fmt.Sprintf("vm.drives[%d].size", i), Message: text})
		}
	}
	return list
}

// hostSize returns the bytes of a file or of a block device.
func hostSize(path string, info os.FileInfo) (int64, error) {
	if info.Mode().IsRegular() {
		return info.Size(), nil
	}
	device, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	defer device.Close()
	return device.Seek(0, io.SeekEnd)
}
