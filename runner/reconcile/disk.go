package reconcile

import (
	"fmt"
	"time"

	"vmop/qmp"
	"vmop/vmtypes/plan"
)

// disk tells QEMU, and so the guest, that a disk has become larger.
//
// block_resize would as readily make a disk smaller and cut the file off, so
// QEMU is asked for the size it knows before each.
type disk struct {
	dialogue
	pace
	rule   plan.Disk
	state  *runState
	blocks *blockDevices

	want    int64
	size    int64 // that QEMU knows; 0: not known
	file    string
	node    string
	asking  bool
	problem string
}

func newDisk(r plan.Disk, state *runState, blocks *blockDevices) *disk {
	return &disk{rule: r, state: state, blocks: blocks}
}

func (d *disk) next(want *Desired, now time.Time) {
	size := want.Sizes[d.rule.Drive]
	if size <= 0 || d.busy() || d.asking {
		return
	}
	if size != d.want {
		d.want, d.problem, d.pace = size, "", pace{}
		switch {
		case d.size == 0 && !d.state.ran:
			d.size = size // QEMU has opened it only now
		case d.lacks():
			d.size = 0 // QEMU itself may have made it smaller
		}
	}
	if d.size >= d.want {
		d.problem, d.node = d.lack(), ""
		return
	}
	if !d.ready(now) {
		return
	}
	if d.node == "" {
		d.query()
		return
	}
	d.grow()
}

// query asks which node the disk is now, and how large.
func (d *disk) query() {
	d.asking = true
	d.blocks.query(d.rule.Device, func(b block, err error, now time.Time) {
		d.asking = false
		switch {
		case err != nil:
			d.fail(err, now)
		case b.Inserted == nil || b.Inserted.Node == "":
			d.fail(fmt.Errorf("the machine's device %s has no disk", d.rule.Device), now)
		default:
			d.file, d.node, d.size = b.file(), b.Inserted.Node, b.Inserted.Image.Size
		}
	})
}

// sector is what QEMU counts the bytes of a disk in.
const sector = 512

// lacks says that the host has less than the guest believes.
func (d *disk) lacks() bool { return d.size >= d.want+sector }

func (d *disk) lack() string {
	if !d.lacks() {
		return ""
	}
	return fmt.Sprintf("%s has only %d bytes on the host, but the guest's disk has %d: the guest has lost what was beyond; restore its size, and check the guest's file systems", d.file, d.want, d.size)
}

func (d *disk) grow() {
	node, size := d.node, d.want
	d.node = "" // it is asked for each time
	d.send(func(answers []answer, now time.Time) {
		if err := fault(answers); err != nil {
			d.fail(fmt.Errorf("make the disk larger: %w", err), now)
			return
		}
		d.size, d.problem = size, ""
		d.succeeded()
	}, qmp.Command{Execute: "block_resize", Arguments: map[string]any{"node-name": node, "size": size}})
}

func (d *disk) fail(err error, now time.Time) {
	d.problem, d.node = err.Error(), ""
	d.failed(now)
}

func (d *disk) observe(event, time.Time) {}
func (d *disk) doubt()                   {}

func (d *disk) report(f *Facts) { f.add(fmt.Sprintf("vm.drives[%d]", d.rule.Drive), d.problem) }
