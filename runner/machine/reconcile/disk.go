package reconcile

import (
	"fmt"
	"time"

	"vmop/qmp"
	"vmop/vmtypes/plan"
)

// disk informs QEMU, and so the guest, that a disk has become larger.
//
// block_resize could also shrink a disk and truncate its file. Therefore QEMU's size is queried before each call.
type disk struct {
	dialogue
	pace
	rule   plan.Disk
	state  *runState
	blocks *blockDevices

	want    int64
	size    int64 // size in QEMU; 0: unknown
	file    string
	node    string
	asking  bool
	problem string
}

func newDiskRule(r plan.Disk, state *runState, blocks *blockDevices) *disk {
	return &disk{rule: r, state: state, blocks: blocks}
}

func (d *disk) nextStep(want *Desired, now time.Time) {
	size := want.Sizes[d.rule.Drive]
	if size <= 0 || d.isBusy() || d.asking {
		return
	}
	if size != d.want {
		d.want, d.problem, d.pace = size, "", pace{}
		switch {
		case d.size == 0 && !d.state.ran:
			d.size = size // QEMU has just opened it
		case d.lacksSpace():
			d.size = 0 // QEMU itself may have shrunk it
		}
	}
	if d.size >= d.want {
		d.problem, d.node = d.lackMessage(), ""
		return
	}
	if !d.isReady(now) {
		return
	}
	if d.node == "" {
		d.queryNode()
		return
	}
	d.growDisk()
}

// queryNode asks for the disk's current node and size.
func (d *disk) queryNode() {
	d.asking = true
	d.blocks.queryDevice(d.rule.Device, func(b block, err error, now time.Time) {
		d.asking = false
		switch {
		case err != nil:
			d.noteFailure(err, now)
		case b.Inserted == nil || b.Inserted.Node == "":
			d.noteFailure(fmt.Errorf("the machine's device %s has no disk", d.rule.Device), now)
		default:
			d.file, d.node, d.size = b.fileName(), b.Inserted.Node, b.Inserted.Image.Size
		}
	})
}

// sector is QEMU's unit of disk sizes, in bytes.
const sector = 512

// lacksSpace reports whether the disk is smaller on the host than the guest believes.
func (d *disk) lacksSpace() bool { return d.size >= d.want+sector }

func (d *disk) lackMessage() string {
	if !d.lacksSpace() {
		return ""
	}
	return fmt.Sprintf("%s has only %d bytes on the host, but the guest's disk has %d: the guest has lost what was beyond; restore its size, and check the guest's file systems", d.file, d.want, d.size)
}

func (d *disk) growDisk() {
	node, size := d.node, d.want
	d.node = "" // query it again each time
	d.sendBatch(func(answers []answer, now time.Time) {
		if err := firstError(answers); err != nil {
			d.noteFailure(fmt.Errorf("make the disk larger: %w", err), now)
			return
		}
		d.size, d.problem = size, ""
		d.forgetFailures()
	}, qmp.Command{Execute: "block_resize", Arguments: map[string]any{"node-name": node, "size": size}})
}

func (d *disk) noteFailure(err error, now time.Time) {
	d.problem, d.node = err.Error(), ""
	d.delayNext(now)
}

func (d *disk) observeEvent(event, time.Time) {}
func (d *disk) doubtState()                   {}

func (d *disk) reportFacts(f *Facts) {
	f.addProblem(fmt.Sprintf("vm.drives[%d]", d.rule.Drive), d.problem)
}
