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

// Times of looking at the disks of a running machine.
const (
	lookTime = time.Minute
	// settleTime is how long a size has to stay for being one that counts.
	settleTime = 10 * time.Second
)

// Sizes knows how large the disks of a running machine are on the host:
// they grow there, by truncate, lvextend or a larger volume of Kubernetes, and
// QEMU doesn't see it. A size that still changes is waited for: QEMU would cut
// off what comes later (see reconcile.Desired.Sizes).
type Sizes struct {
	log     *slog.Logger
	disks   map[int]*hostDisk // by index in vm.drives
	settled map[int]int64
	wanted  []vmspec.Drive // by the configuration in force
	looks   chan []vmspec.Drive
	fixed   []vmspec.Fault // that sizes don't change
}

// hostDisk is what was seen of a disk.
type hostDisk struct {
	path     string
	opened   os.FileInfo // the file that QEMU has; nil: not seen yet
	replaced bool
	size     int64
	since    time.Time // when it was seen first with this size
	fault    string    // why it can't grow, so that it is logged once
}

// New returns the disks that can grow from outside, of a VM whose plan has these
// rules. The size of a qcow2 disk is in its image, which only QEMU may change.
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

// Differ adds faults of the disks that hold as long as the machine runs. It is called before Watch.
func (d *Sizes) Differ(faults []vmspec.Fault) { d.fixed = faults }

// Watch looks at the disks at once, when Measure is called, and from time to time: the
// file system of an image may grow later than the image is to. It hands over the
// sizes of all disks when those that count have changed, and what of the disks isn't as
// configured when that has. A host that does not answer (NFS) keeps nothing waiting but
// this.
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
		changed, moving := d.record(d.measure(), time.Now())
		if changed {
			settled(maps.Clone(d.settled))
		}
		if now := d.differences(); !reflect.DeepEqual(before, now) {
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

// Measure has the disks looked at, with what the configuration wants now; what was
// wanted before counts no more. One goroutine calls it.
func (d *Sizes) Measure(wanted []vmspec.Drive) {
	select {
	case <-d.looks:
	default:
	}
	d.looks <- wanted
}

// record notes the sizes that were seen. It returns whether those that count have
// changed, and whether there are some that do not count yet.
func (d *Sizes) record(seen map[int]int64, now time.Time) (changed, moving bool) {
	for i, size := range seen {
		disk := d.disks[i]
		if disk.size != size {
			disk.size, disk.since = size, now
		}
		switch {
		case d.settled[i] == size:
		case now.Sub(disk.since) < settleTime:
			moving = true
		default:
			d.settled[i], changed = size, true
		}
	}
	return changed, moving
}

// measure returns the sizes of the disks that QEMU has open. One that is out of
// reach has none: that is a matter of QEMU, which works with it.
func (d *Sizes) measure() map[int]int64 {
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
			sizes[i] = max(size, d.grown(i, disk, size))
		}
	}
	return sizes
}

// grown lets an image grow that has a size, and returns the one it has now; 0 if it
// is another's matter.
func (d *Sizes) grown(i int, disk *hostDisk, have int64) int64 {
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
	return size
}

// differences returns what of the disks isn't as configured.
func (d *Sizes) differences() (list []vmspec.Fault) {
	list = append(list, d.fixed...)
	for _, i := range slices.Sorted(maps.Keys(d.disks)) {
		disk := d.disks[i]
		if i >= len(d.wanted) || d.wanted[i].File != disk.path || disk.replaced || disk.size == 0 {
			continue
		}
		text := disk.fault
		if text == "" {
			text = difference(d.wanted[i], disk.size)
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
