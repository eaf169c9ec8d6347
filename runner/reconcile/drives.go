package reconcile

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// Drive is a disk that is attached while the machine runs.
type Drive struct {
	// Index is its place in vm.drives.
	Index int
	vmspec.Drive
	// Denied says why QEMU can't have the disk; then it isn't tried.
	Denied string
}

// Path is the drive's in the configuration.
func (d Drive) Path() string { return fmt.Sprintf("vm.drives[%d]", d.Index) }

// mark is short for all that makes it the disk it is.
func (d Drive) mark() string {
	sum := fnv.New32a()
	fmt.Fprintf(sum, "%q %q %q %t", d.File, d.Device, d.Format, d.ReadOnly)
	if n := d.NBD; n != nil {
		fmt.Fprintf(sum, " %q %d %q %q", n.Host, n.Port, n.Export, n.TLS)
	}
	return fmt.Sprintf("%07x", sum.Sum32()>>4)
}

// drives attaches disks, and detaches those that are not wanted any more.
//
// QEMU gets a descriptor of each, and connects to NBD servers itself. The name of its block node, which
// is the id of its device, too, says all that another runner must know: the place, what the disk
// is, and its serial number. A node without a device is what was left of an attachment, or of a detachment: it
// is removed, and what is wanted then begins anew.
//
// CD drives are attached so, too, to SCSI or USB. One with another medium is another one.
//
// See docs/decisions/0107-attached-disks.md, and docs/decisions/0143-attached-cds.md.
type drives struct {
	dialogue
	pace
	rule   plan.Disks
	opener *opener

	want     []Drive
	revision int64 // by which have was compared last
	known    bool
	asked    bool // something has happened since QEMU was asked
	opening  bool
	have     []plugged
	jobs     map[string]*driveJob // by serial number
	shown    map[string]bool      // CD drives that the guest has been shown, by their names
	fault    string               // why have is not known
}

// plugged is a disk, or a CD drive, that was attached.
type plugged struct {
	name, mark, serial string
	cd                 bool
	place              int // of the rule's buses
	present            bool
	size               int64
	server             *vmspec.NBD // without the certificates; nil: it is on this host
}

// driveJob is what is being done with a disk, and what became of it.
type driveJob struct {
	pace
	attempts int
	failed   bool      // the last attempt, or the guest has refused
	asking   bool      // its server, for which nothing else waits
	answered time.Time // by its server
	away     bool      // its server has not answered, which is to release the disk
	missed   time.Time // when its server was first found not to answer, which is to attach it
	message  string
}

// due reports whether something may be done with the disk.
func (j *driveJob) due(now time.Time) bool { return !j.asking && j.ready(now) }

func newDrives(r plan.Disks, o *opener, start Start) *drives {
	return &drives{
		rule: r, opener: o, known: !start.Running && !start.Arriving, jobs: map[string]*driveJob{},
		shown: map[string]bool{},
	}
}

func (d *drives) next(want *Desired, now time.Time) {
	if want.Drives == nil && len(d.rule.Buses) == 0 { // there are none, and can't be
		d.revision = want.DrivesRevision
	}
	if want.Drives == nil || d.busy() || d.opening {
		return
	}
	if !reflect.DeepEqual(want.Drives, d.want) {
		d.want, d.pace = slices.Clone(want.Drives), pace{}
		maps.DeleteFunc(d.jobs, func(_ string, j *driveJob) bool { return !j.asking })
	}
	if !d.known {
		if d.ready(now) {
			d.query()
		}
		return
	}
	d.revision = want.DrivesRevision
	for _, p := range d.have {
		if j := d.job(p.serial); !p.present && j.due(now) && d.served(p, j, now) {
			d.removeNode(p, j)
		}
		if d.busy() {
			return
		}
	}
	for _, p := range d.have {
		if j := d.job(p.serial); p.present && !d.stays(p) && j.due(now) && d.served(p, j, now) {
			d.release(p, j)
		}
		if d.busy() {
			return
		}
	}
	for _, p := range d.have {
		if j := d.job(p.serial); d.hidden(p) && p.present && j.due(now) {
			d.show(p, j)
			return
		}
	}
	for _, w := range d.want {
		if j := d.job(w.Serial); d.find(w.Serial) == nil && j.due(now) {
			d.open(w, j, now)
		}
		if d.busy() || d.opening {
			return
		}
	}
	for _, w := range d.want {
		if p := d.find(w.Serial); p != nil && p.lacks(w) && d.job(w.Serial).due(now) {
			d.grow(*p, w, d.job(w.Serial))
			return
		}
	}
}

// is reports whether it is what is wanted.
func (p plugged) is(w Drive) bool { return p.mark == w.mark() && p.cd == w.isCD() }

// lacks reports whether a disk is to be larger than it is. A raw image grows in QEMU's hands; the size of
// others is up to who has made them.
func (p plugged) lacks(w Drive) bool {
	return p.present && p.size > 0 && p.size < int64(w.Size) && p.is(w) && w.File != "" && !w.ReadOnly
}

// grow makes a disk larger, and its image with it. block_resize would as readily make it smaller, so QEMU is asked
// for the size just before.
func (d *drives) grow(p plugged, w Drive, j *driveJob) {
	d.send(func(answers []answer, now time.Time) {
		d.known = false
		var devices []block
		if err := answers[0].decode(&devices); err != nil {
			j.fail(fmt.Sprintf("ask for the size of the disk: %v", err), now)
			return
		}
		if !p.in(devices).lacks(w) {
			return
		}
		d.send(func(answers []answer, now time.Time) {
			d.known = false
			if err := fault(answers); err != nil {
				j.fail(fmt.Sprintf("make the disk larger: %v", err), now)
				return
			}
			*j = driveJob{}
		}, commandOf("block_resize", map[string]any{"node-name": p.name, "size": int64(w.Size)}))
	}, commandOf("query-block", nil))
}

func (d *drives) job(serial string) *driveJob {
	if d.jobs[serial] == nil {
		d.jobs[serial] = &driveJob{}
	}
	return d.jobs[serial]
}

func (d *drives) wanted(serial string) *Drive {
	i := slices.IndexFunc(d.want, func(w Drive) bool { return w.Serial == serial })
	if i < 0 {
		return nil
	}
	return &d.want[i]
}

func (d *drives) find(serial string) *plugged {
	i := slices.IndexFunc(d.have, func(p plugged) bool { return p.serial == serial })
	if i < 0 {
		return nil
	}
	return &d.have[i]
}

// query asks which disks there are.
func (d *drives) query() {
	d.asked = false
	d.send(func(answers []answer, now time.Time) {
		var devices []block
		var nodes []struct {
			Name   string `json:"node-name"`
			Driver string `json:"drv"`
			File   string
		}
		err := answers[0].decode(&devices)
		if err == nil {
			err = answers[1].decode(&nodes)
		}
		if err != nil {
			d.fault = fmt.Sprintf("ask for the disks that are attached: %v", err)
			d.failed(now)
			return
		}
		d.fault, d.known, d.have = "", !d.asked, nil
		d.succeeded()
		d.until(now.Add(leastPause), now) // resets are the guest's affair
		for _, n := range nodes {
			if p, is := parsePlugged(n.Name); is {
				p.server = serverOf(n.Driver, n.File)
				d.have = append(d.have, p.in(devices))
			}
		}
		slices.SortFunc(d.have, func(a, b plugged) int { return cmp.Compare(a.place, b.place) })
	}, commandOf("query-block", nil), commandOf("query-named-block-nodes", map[string]any{"flat": true}))
}

const (
	markLength = 7 // of a disk's mark, in hexadecimal digits
	placeBase  = plan.MaxPluggedDisks
)

func (p plugged) named() plugged {
	kind := "h"
	if p.cd {
		kind = "c"
	}
	p.name = fmt.Sprintf("%s%s-%s-%s", kind, strconv.FormatInt(int64(p.place), placeBase), p.mark, p.serial)
	return p
}

func parsePlugged(name string) (plugged, bool) {
	name = strings.TrimPrefix(name, cdPrefix)
	head, rest, _ := strings.Cut(name, "-")
	mark, serial, _ := strings.Cut(rest, "-")
	digit, isCD := strings.CutPrefix(head, "c")
	digit, isDisk := strings.CutPrefix(digit, "h")
	place, err := strconv.ParseUint(digit, placeBase, 8)
	if isCD == isDisk || err != nil || len(digit) != 1 || len(mark) != markLength || serial == "" {
		return plugged{}, false
	}
	return plugged{name: name, place: int(place), mark: mark, serial: serial, cd: isCD}, true
}

// SerialOf returns the serial number of a disk that was attached while the machine runs, by the name of its block
// node or the id of its device; false of others.
func SerialOf(name string) (serial string, attached bool) {
	p, attached := parsePlugged(name)
	return p.serial, attached
}

// in returns the disk with what QEMU's block devices say of it.
func (p plugged) in(devices []block) plugged {
	for _, b := range devices {
		if p.present = b.belongs(p.device()); p.present {
			if b.Inserted != nil {
				p.size = b.Inserted.Image.Size
			}
			break
		}
	}
	return p
}

// open has the file opened of a disk, and then attaches it.
func (d *drives) open(w Drive, j *driveJob, now time.Time) {
	var free []int
	for place := range d.rule.Buses {
		if !slices.ContainsFunc(d.have, func(p plugged) bool { return !p.cd && p.place == place }) {
			free = append(free, place)
		}
	}
	switch {
	case w.Denied != "":
		j.fail(w.Denied, now)
		return
	case w.isCD() && d.rule.CDDriver == "":
		j.fail("the machine takes no CD drives while the guest runs; that is up to its VM type", now)
		return
	case w.isCD():
		free = []int{0} // QEMU finds one
	case len(d.rule.Buses) == 0:
		j.fail("the machine has no places for disks that are attached while the guest runs; that is up to its VM type", now)
		return
	case len(free) == 0:
		j.fail(fmt.Sprintf("all %d places for disks that are attached while the guest runs are taken; the disk is there after "+
			"a restart of the VM", len(d.rule.Buses)), now)
		return
	}
	place := free[j.attempts%len(free)] // a user may have plugged something in
	if w.NBD != nil {
		if d.answers(w, j, now) {
			d.attach(w, place, j, nil)
		}
		return
	}
	d.opening = true
	d.opener.query(w, func(file *os.File, err error, now time.Time) bool {
		d.opening = false
		if err != nil {
			j.fail("attach the disk: "+err.Error(), now)
			return false
		}
		d.attach(w, place, j, file)
		return true
	})
}

// attach adds a block node and its device.
func (d *drives) attach(w Drive, place int, j *driveJob, file *os.File) {
	a := AttachmentOf(d.rule, w, Slot{Place: place}, file)
	j.attempts++
	d.send(func(answers []answer, now time.Time) {
		d.known, d.pace = false, pace{} // no guest has caused it
		if err := fault(answers[len(a.Clear) : len(answers)-len(a.After)]); err != nil {
			j.fail(fmt.Sprintf("attach the disk: %v", err), now)
			return
		}
		*j = driveJob{}
	}, slices.Concat(a.Clear, a.Do, a.After)...)
}

// detach asks the guest to release a disk; a CD drive is gone at once. The request is repeated: a guest that is
// only starting doesn't see it.
func (d *drives) detach(p plugged, j *driveJob) {
	d.send(func(answers []answer, now time.Time) {
		d.known = false
		if err := answers[0].err; err != nil && !strings.Contains(err.Error(), "already in the process of unplug") {
			j.fail(fmt.Sprintf("detach the %s: %v", p.noun(), err), now)
			return
		}
		if !j.failed {
			j.message = "waiting for the guest to release the " + p.noun()
		}
		j.pause = min(max(2*j.pause, firstUnplug), lastUnplug)
		j.until(now.Add(j.pause), now)
	}, unplug(d.rule, p))
}

// removeNode closes the file of a disk that the guest doesn't have.
func (d *drives) removeNode(p plugged, j *driveJob) {
	var commands []qmp.Command
	if p.cd { // what was left of an attachment
		commands = append(commands, unplug(d.rule, p))
	}
	at := len(commands)
	commands = append(commands, commandOf("blockdev-del", map[string]any{"node-name": p.name}))
	if p.server != nil {
		commands = append(commands, removeCredentials(p.serial))
	}
	d.send(func(answers []answer, now time.Time) {
		d.known = false
		if err := answers[at].err; err != nil { // QEMU has not finished with the device
			const text = "close the disk's file: "
			if !strings.HasPrefix(j.message, text) {
				j.pause = 0 // the guest's were longer
			}
			j.fail(text+err.Error(), now)
			return
		}
		delete(d.jobs, p.serial)
		delete(d.shown, p.name)
	}, commands...)
}

func (j *driveJob) fail(message string, now time.Time) {
	j.message, j.failed = message, true
	j.pace.failed(now)
}

func (d *drives) observe(e event, now time.Time) {
	p, is := parsePlugged(cmp.Or(e.data.Device, e.data.ID))
	switch {
	case e.name == "DEVICE_TRAY_MOVED" && is && e.data.TrayOpen:
		d.job(p.serial).hurry()
	case e.name == "RESET": // QEMU takes what it was asked to take
	case e.name == "DEVICE_DELETED" && is:
	case e.name == "DEVICE_UNPLUG_GUEST_ERROR" && is:
		j := d.job(p.serial)
		j.message, j.failed = "the guest refuses to release the disk, which stays attached; it is asked again", true
		j.pause = max(j.pause, firstUnplug)
		j.until(now.Add(j.pause), now)
	default:
		return
	}
	d.doubt()
}

// doubt has QEMU asked, again if it is just being asked.
func (d *drives) doubt() { d.known, d.asked = false, true }

func (d *drives) wake() time.Time {
	if !d.known {
		return d.at
	}
	var first time.Time
	for serial, j := range d.jobs {
		p, w := d.find(serial), d.wanted(serial)
		settled := p != nil && p.present && d.stays(*p) && !p.lacks(*w)
		if !settled && !j.asking && !j.at.IsZero() && (first.IsZero() || j.at.Before(first)) {
			first = j.at
		}
	}
	return first
}

func (d *drives) report(f *Facts) {
	f.add("vm.drives", d.fault)
	f.DrivesRevision = status.DrivesRevision(d.revision)
	for _, w := range d.want {
		f.Drives = append(f.Drives, d.factOf(w, f))
	}
	for _, p := range d.have {
		if d.wanted(p.serial) != nil {
			continue
		}
		state, j := status.DriveDetaching, d.job(p.serial)
		if j.failed {
			state = status.DriveFailed
			f.add("vm.drives", fmt.Sprintf("disk %s: %s", p.serial, j.message))
		}
		f.Drives = append(f.Drives, status.Drive{Name: p.serial, State: state, Message: j.message, Capacity: p.size})
	}
}

// factOf returns what is true of a disk that is wanted.
func (d *drives) factOf(w Drive, f *Facts) status.Drive {
	j, p := d.job(w.Serial), d.find(w.Serial)
	fact := status.Drive{Name: w.Serial, State: status.DriveAttaching, Message: j.message}
	switch {
	case p != nil && p.cd && !j.failed && (!d.stays(*p) || d.hidden(*p)): // before it comes with another medium
		fact.Capacity = p.size
		f.add(w.Path(), j.message)
	case p != nil && p.present:
		fact.State, fact.Capacity, fact.Message = status.DriveAttached, p.size, ""
		if !p.is(w) {
			fact.Message = "it is attached with another file, format or readOnly; this is changed by a restart of the VM, or by " +
				"removing the disk from vm.drives and adding it again when it is detached"
			f.add(w.Path(), fact.Message)
		} else if p.lacks(w) && j.failed {
			fact.Message = j.message
			f.add(w.Path(), fact.Message)
		}
	case j.failed:
		fact.State = status.DriveFailed
		f.add(w.Path(), j.message)
	}
	return fact
}
