package reconcile

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"vmop/qmp"
)

// peripheral is where QEMU keeps devices that have an id.
const peripheral = "/machine/peripheral/"

// block is a block device; see BlockInfo in QEMU's QMP reference. A drive that
// was given by -blockdev has no name of its own, so it is known by its device.
type block struct {
	QDev     string `json:"qdev"`
	Locked   bool   `json:"locked"`
	TrayOpen bool   `json:"tray_open"`
	Inserted *struct {
		File  string `json:"file"`
		Node  string `json:"node-name"`
		Image struct {
			Size int64 `json:"virtual-size"`
		} `json:"image"`
	} `json:"inserted"`
}

// belongs says that the block device is that of the device with the id: QEMU
// knows it by the id, or by the path of the device or of its backend.
func (b block) belongs(id string) bool {
	path := peripheral + id
	return b.QDev == id || b.QDev == path || strings.HasPrefix(b.QDev, path+"/")
}

// file returns the name of the medium's file; "" for none.
func (b block) file() string {
	if b.Inserted == nil {
		return ""
	}
	name, ok := strings.CutPrefix(b.Inserted.File, "json:")
	if !ok {
		return name
	}
	// What has options that no name can express has the options for a name.
	var node struct {
		File struct{ Filename, URL string }
	}
	if json.Unmarshal([]byte(name), &node) != nil || node.File.Filename+node.File.URL == "" {
		return b.Inserted.File
	}
	return node.File.Filename + node.File.URL
}

// blockDevices asks QEMU for its block devices when rules want to know
// something about theirs: one question for all.
type blockDevices struct {
	dialogue
	curious []curious
}

// curious is who wants to know of a device.
type curious struct {
	device string
	tell   func(b block, err error, now time.Time)
}

// query tells about the block device of a device as it is from now on.
func (b *blockDevices) query(device string, tell func(b block, err error, now time.Time)) {
	b.curious = append(b.curious, curious{device, tell})
}

func (b *blockDevices) next(_ *Desired, _ time.Time) {
	if b.busy() || len(b.curious) == 0 {
		return
	}
	asking := b.curious
	b.curious = nil
	b.send(func(answers []answer, now time.Time) {
		var devices []block
		err := answers[0].decode(&devices)
		for _, c := range asking {
			found, err := find(devices, c.device, err)
			c.tell(found, err, now)
		}
	}, qmp.Command{Execute: "query-block"})
}

func find(devices []block, id string, err error) (block, error) {
	if err != nil {
		return block{}, fmt.Errorf("ask for the block devices: %w", err)
	}
	for _, d := range devices {
		if d.belongs(id) {
			return d, nil
		}
	}
	return block{}, fmt.Errorf("the machine has no block device %s", id)
}

func (b *blockDevices) observe(event, time.Time) {}
func (b *blockDevices) wake() time.Time          { return time.Time{} }
func (b *blockDevices) doubt()                   {}
func (b *blockDevices) report(*Facts)            {}
