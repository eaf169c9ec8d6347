package reconcile

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/vmspec"
)

// peripheral is where QEMU keeps devices that have an ID.
const peripheral = "/machine/peripheral/"

// block is a block device; see BlockInfo in QEMU's QMP reference. A drive created with -blockdev is nameless, so
// it is identified by its device.
type block struct {
	QDev     string    `json:"qdev"`
	Locked   bool      `json:"locked"`
	TrayOpen bool      `json:"tray_open"`
	Inserted *inserted `json:"inserted"`
}

// inserted is the medium of a block device, with its limits per second.
type inserted struct {
	File  string `json:"file"`
	Node  string `json:"node-name"`
	Image struct {
		Size int64 `json:"virtual-size"`
	} `json:"image"`
	IOPS       int          `json:"iops"`
	IOPSRead   int          `json:"iops_rd"`
	IOPSWrite  int          `json:"iops_wr"`
	Bytes      vmspec.Bytes `json:"bps"`
	BytesRead  vmspec.Bytes `json:"bps_rd"`
	BytesWrite vmspec.Bytes `json:"bps_wr"`
}

// diskLimits returns the limits of the device.
func (i *inserted) diskLimits() vmspec.DiskLimits {
	return vmspec.DiskLimits{
		IOPS: i.IOPS, IOPSRead: i.IOPSRead, IOPSWrite: i.IOPSWrite,
		Bytes: i.Bytes, BytesRead: i.BytesRead, BytesWrite: i.BytesWrite,
	}
}

// belongsTo reports whether the block device belongs to the device with the given ID. QEMU identifies it by the ID,
// or by the path of the device or of its backend.
func (b block) belongsTo(id string) bool {
	path := peripheral + id
	return b.QDev == id || b.QDev == path || strings.HasPrefix(b.QDev, path+"/")
}

// fileName returns the name of the medium's file, or "" if the drive is empty.
func (b block) fileName() string {
	if b.Inserted == nil {
		return ""
	}
	name, ok := strings.CutPrefix(b.Inserted.File, "json:")
	if !ok {
		return name
	}
	// The name of a file with options that a plain name can't express is JSON with these options.
	var node struct {
		File struct{ Filename, URL string }
	}
	if json.Unmarshal([]byte(name), &node) != nil || node.File.Filename+node.File.URL == "" {
		return b.Inserted.File
	}
	return node.File.Filename + node.File.URL
}

// BlockState is the state of a disk or CD drive in QEMU.
type BlockState struct {
	// File is the name of the medium's file or its web address; "" means that the drive is empty.
	File string
	// Size is the size that the guest sees, in bytes.
	Size int64
	// Locked reports whether the guest keeps the tray of a CD drive closed.
	Locked bool
}

// BlockOf returns the command that queries the state of a disk or CD drive by its device ID. read extracts the state
// from QEMU's answer.
func BlockOf(device string) (question qmp.Command, read func(answer json.RawMessage) (BlockState, error)) {
	return qmp.Command{Execute: "query-block"}, func(answer json.RawMessage) (s BlockState, err error) {
		var devices []block
		err = json.Unmarshal(answer, &devices)
		b, err := findBlock(devices, device, err)
		if err != nil {
			return s, err
		}
		s.File, s.Locked = b.fileName(), b.Locked && !b.TrayOpen
		if b.Inserted != nil {
			s.Size = b.Inserted.Image.Size
		}
		return s, nil
	}
}

// blockDevices queries QEMU's block devices for the rules that need them, with one query for all.
type blockDevices struct {
	dialogue
	curious []curious
}

// curious is a pending question about a device.
type curious struct {
	device string
	tell   func(b block, err error, now time.Time)
}

// queryDevice calls tell with the state of a device's block device. The state is queried after this call.
func (b *blockDevices) queryDevice(device string, tell func(b block, err error, now time.Time)) {
	b.curious = append(b.curious, curious{device, tell})
}

func (b *blockDevices) nextStep(_ *Desired, _ time.Time) {
	if b.isBusy() || len(b.curious) == 0 {
		return
	}
	asking := b.curious
	b.curious = nil
	b.sendBatch(func(answers []answer, now time.Time) {
		var devices []block
		err := answers[0].decodeInto(&devices)
		for _, c := range asking {
			found, err := findBlock(devices, c.device, err)
			c.tell(found, err, now)
		}
	}, qmp.Command{Execute: "query-block"})
}

func findBlock(devices []block, id string, err error) (block, error) {
	if err != nil {
		return block{}, fmt.Errorf("ask for the block devices: %w", err)
	}
	for _, d := range devices {
		if d.belongsTo(id) {
			return d, nil
		}
	}
	return block{}, fmt.Errorf("the machine has no block device %s", id)
}

func (b *blockDevices) observeEvent(event, time.Time) {}
func (b *blockDevices) wakeTime() time.Time           { return time.Time{} }
func (b *blockDevices) doubtState()                   {}
func (b *blockDevices) reportFacts(*Facts)            {}
