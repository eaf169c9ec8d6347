package snapshot

import (
	"fmt"
	"strings"

	"vmop/internal/printable"
	"vmop/qmp"
	"vmop/runner/machine/reconcile"
	"vmop/vmtypes/plan"
)

// own is the prefix of this package's names in QEMU: of jobs, block nodes and descriptor sets.
const own = "vmop-snapshot-"

func jobName(i int) string  { return fmt.Sprintf("%sjob%d", own, i) }
func nodeName(i int) string { return fmt.Sprintf("%simage%d", own, i) }

type members = map[string]any

// addTarget creates a node for a qcow2 image in a file that QEMU has a descriptor of. Zeros occupy no space.
func addTarget(i int, set int64) qmp.Command {
	return qmp.Command{Execute: "blockdev-add", Arguments: members{
		"driver": "qcow2", "node-name": nodeName(i), "detect-zeroes": "on", "discard": "unmap",
		"file": members{"driver": "file", "filename": fmt.Sprintf("/dev/fdset/%d", set), "discard": "unmap"},
	}}
}

// backupCommand begins to copy the images, all at one moment. From then on, a write of the guest waits until the data
// that it overwrites is copied. If one copy fails, all end.
func backupCommand(images []Part) qmp.Command {
	var actions []any
	for i, p := range images {
		actions = append(actions, members{"type": "blockdev-backup", "data": members{
			"job-id": jobName(i), "device": p.node, "target": nodeName(i), "sync": "full",
			"on-source-error": "report", "on-target-error": "report", "auto-dismiss": false,
		}})
	}
	return qmp.Command{Execute: "transaction", Arguments: members{
		"actions": actions, "properties": members{"completion-mode": "grouped"},
	}}
}

// job is a job of QEMU; see JobInfo in its QMP reference.
type job struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	Current int64  `json:"current-progress"`
	Total   int64  `json:"total-progress"`
	Error   string `json:"error"`
}

func (j job) isOwn() bool { return strings.HasPrefix(j.ID, own) }

// isConcluded reports whether the job waits to be dismissed.
func (j job) isConcluded() bool { return j.Status == "concluded" }

// judgeJobs returns the progress of the copies. over is true when all have ended.
func judgeJobs(jobs []job, count int) (p Progress, over bool, err error) {
	over = true
	found := 0
	for _, j := range jobs {
		if !j.isOwn() {
			continue
		}
		found++
		p.Done += j.Current
		p.Total += j.Total
		over = over && j.isConcluded()
		// The other jobs of the group are canceled, and only report that.
		if j.Error != "" && (err == nil || !strings.Contains(j.Error, "cancel")) {
			err = fmt.Errorf("QEMU cannot copy the disks: %s", j.Error)
		}
	}
	if over && err == nil && found < count {
		err = fmt.Errorf("QEMU has ended %d of %d copies without a result", count-found, count)
	}
	return p, over, err
}

// node is a block node; see BlockDeviceInfo.
type node struct {
	Name     string `json:"node-name"`
	ReadOnly bool   `json:"ro"`
	Image    struct {
		Size int64 `json:"virtual-size"`
	} `json:"image"`
}

// device is a block device; see BlockInfo.
type device struct {
	Name     string `json:"device"`
	QDev     string `json:"qdev"`
	Inserted *struct {
		Node     string `json:"node-name"`
		Driver   string `json:"drv"`
		ReadOnly bool   `json:"ro"`
		File     string `json:"file"`
	} `json:"inserted"`
}

// onServer reports whether it is a disk of an NBD server.
func (d device) onServer() bool { return d.Inserted.Driver == "nbd" }

// checkComplete returns an error that wraps ErrAttached if the guest can write to a disk that the plan doesn't
// contain: the disk would be missing in the snapshot. omitted lists the disks of NBD servers, which store their
// data elsewhere, by their serial numbers or otherwise their ids.
func checkComplete(devices []device, p *plan.Plan) (omitted []string, err error) {
	for _, d := range devices {
		if d.Inserted == nil || d.Inserted.ReadOnly || d.QDev == "" {
			continue
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(d.QDev, "/machine/peripheral/"), "/")
		if _, known := p.Drive(d.Name, d.QDev, id, d.Inserted.Node); known {
			continue
		}
		if serial, is := reconcile.SerialOf(id); is {
			id = serial
		}
		if d.onServer() {
			omitted = append(omitted, id)
			continue
		}
		return nil, fmt.Errorf("the disk %s (%s) %w", id, printable.Line(d.Inserted.File), ErrAttached)
	}
	return omitted, nil
}

// sizesOf returns the images with their sizes, except those that QEMU can't write to.
func sizesOf(nodes []node, images []Part) (list []Part, err error) {
	known := map[string]node{}
	for _, n := range nodes {
		known[n.Name] = n
	}
	for _, p := range images {
		n, ok := known[p.node]
		if !ok {
			return nil, fmt.Errorf("%s: QEMU has no block node %s, which the plan has for it", p.Name, p.node)
		}
		if n.ReadOnly {
			continue
		}
		p.Size = n.Image.Size
		list = append(list, p)
	}
	return list, nil
}
