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

// Drive is a wanted disk that QEMU attaches while the machine runs.
type Drive struct {
	// Index is the drive's index in vm.drives.
	Index int
	vmspec.Drive
	// Denied is why QEMU can't use the disk. If it is set, attaching is not tried.
	Denied string
}

// Path returns the drive's path in the configuration.
func (d Drive) Path() string { return fmt.Sprintf("vm.drives[%d]", d.Index) }

// identityMark returns a short hash of the properties that identify the disk.
func (d Drive) identityMark() string {
	sum := fnv.New32a()
	fmt.Fprintf(sum, "%q %q %q %t", d.File, d.Device, d.Format, d.ReadOnly)
	if n := d.NBD; n != nil {
		fmt.Fprintf(sum, " %q %d %q %q", n.Host, n.Port, n.Export, n.TLS)
	}
	return fmt.Sprintf("%07x", sum.Sum32()>>4)
}

// drives attaches disks, and detaches disks that are no longer wanted.
//
// QEMU receives a descriptor of each file, and connects to NBD servers itself. The name of the block node is also
// the device's ID. It contains everything that another runner must know: the place, the disk's mark, and its
// serial number. A node without a device is left over from an attachment or a detachment. It is removed, and the
// wanted disk is then attached again.
//
// CD drives are attached in the same way, to SCSI or USB. A drive with another medium is a different drive.
//
// See docs/decisions/0107-attached-disks.md, and docs/decisions/0143-attached-cds.md.
type drives struct {
	dialogue
	pace
	rule   plan.Disks
	opener *opener
	cards  *cards // which share the ports; nil if none can be plugged in

	want     []Drive
	revision int64 // the revision that have was last compared with
	known    bool
	asked    bool // something has happened since the last query
	opening  bool
	have     []plugged
	jobs     map[string]*driveJob // by serial number
	shown    map[string]bool      // CD drives that the guest has been shown, by name
	fault    string               // why have is unknown
}

// plugged is an attached disk or CD drive.
type plugged struct {
	name, mark, serial string
	cd                 bool
	place              int // index in the rule's buses
	present            bool
	size               int64
	server             *vmspec.NBD // without the certificates; nil: the disk is on this host
}

// driveJob is the work on a disk, and its result.
type driveJob struct {
	pace
	attempts int
	failed   bool      // the last attempt failed, or the guest refused
	asking   bool      // its server is being queried; other work does not wait for it
	answered time.Time // when its server last answered
	away     bool      // its server has not answered, which blocks the detachment
	missed   time.Time // when its server first did not answer, which blocks the attachment
	message  string
}

// isDue reports whether work on the disk may continue.
func (j *driveJob) isDue(now time.Time) bool { return !j.asking && j.isReady(now) }

func newDrives(r plan.Disks, o *opener, start Start) *drives {
	return &drives{
		rule: r, opener: o, known: !start.Running && !start.Arriving, jobs: map[string]*driveJob{},
		shown: map[string]bool{},
	}
}

func (d *drives) nextStep(want *Desired, now time.Time) {
	if want.Drives == nil && len(d.rule.Buses) == 0 { // no drives are wanted or possible
		d.revision = want.DrivesRevision
	}
	if want.Drives == nil || d.isBusy() || d.opening {
		return
	}
	if !reflect.DeepEqual(want.Drives, d.want) {
		d.want, d.pace = slices.Clone(want.Drives), pace{}
		maps.DeleteFunc(d.jobs, func(_ string, j *driveJob) bool { return !j.asking })
	}
	if !d.known {
		if d.isReady(now) {
			d.queryDisks()
		}
		return
	}
	d.revision = want.DrivesRevision
	for _, p := range d.have {
		if j := d.jobOf(p.serial); !p.present && j.isDue(now) && d.canReachServer(p, j, now) {
			d.removeNode(p, j)
		}
		if d.isBusy() {
			return
		}
	}
	for _, p := range d.have {
		if j := d.jobOf(p.serial); p.present && !d.isStaying(p) && j.isDue(now) && d.canReachServer(p, j, now) {
			d.releaseDrive(p, j)
		}
		if d.isBusy() {
			return
		}
	}
	for _, p := range d.have {
		if j := d.jobOf(p.serial); d.isHidden(p) && p.present && j.isDue(now) {
			d.showDrive(p, j)
			return
		}
	}
	for _, w := range d.want {
		if j := d.jobOf(w.Serial); d.findPlugged(w.Serial) == nil && j.isDue(now) {
			d.openFile(w, j, now)
		}
		if d.isBusy() || d.opening {
			return
		}
	}
	for _, w := range d.want {
		if p := d.findPlugged(w.Serial); p != nil && p.isTooSmall(w) && d.jobOf(w.Serial).isDue(now) {
			d.growDrive(*p, w, d.jobOf(w.Serial))
			return
		}
	}
}

// isDrive reports whether the disk is the wanted disk.
func (p plugged) isDrive(w Drive) bool { return p.mark == w.identityMark() && p.cd == w.isCD() }

// isTooSmall reports whether a disk must grow. QEMU grows the image while it uses it. Other disks than writable files
// are grown by their owner.
func (p plugged) isTooSmall(w Drive) bool {
	return p.present && p.size > 0 && p.size < int64(w.Size) && p.isDrive(w) && w.File != "" && !w.ReadOnly
}

// growDrive grows a disk and its image. block_resize could also shrink the disk, so QEMU's size is queried just
// before.
func (d *drives) growDrive(p plugged, w Drive, j *driveJob) {
	d.sendBatch(func(answers []answer, now time.Time) {
		d.known = false
		var devices []block
		if err := answers[0].decodeInto(&devices); err != nil {
			j.noteFailure(fmt.Sprintf("ask for the size of the disk: %v", err), now)
			return
		}
		if !p.withBlock(devices).isTooSmall(w) {
			return
		}
		d.sendBatch(func(answers []answer, now time.Time) {
			d.known = false
			if err := firstError(answers); err != nil {
				j.noteFailure(fmt.Sprintf("make the disk larger: %v", err), now)
				return
			}
			*j = driveJob{}
		}, commandOf("block_resize", map[string]any{"node-name": p.name, "size": int64(w.Size)}))
	}, commandOf("query-block", nil))
}

func (d *drives) jobOf(serial string) *driveJob {
	if d.jobs[serial] == nil {
		d.jobs[serial] = &driveJob{}
	}
	return d.jobs[serial]
}

func (d *drives) wantedDrive(serial string) *Drive {
	i := slices.IndexFunc(d.want, func(w Drive) bool { return w.Serial == serial })
	if i < 0 {
		return nil
	}
	return &d.want[i]
}

func (d *drives) findPlugged(serial string) *plugged {
	i := slices.IndexFunc(d.have, func(p plugged) bool { return p.serial == serial })
	if i < 0 {
		return nil
	}
	return &d.have[i]
}

// queryDisks asks for the attached disks.
func (d *drives) queryDisks() {
	d.asked = false
	d.sendBatch(func(answers []answer, now time.Time) {
		var devices []block
		var nodes []struct {
			Name   string `json:"node-name"`
			Driver string `json:"drv"`
			File   string
		}
		err := answers[0].decodeInto(&devices)
		if err == nil {
			err = answers[1].decodeInto(&nodes)
		}
		if err != nil {
			d.fault = fmt.Sprintf("query the attached disks: %v", err)
			d.delayNext(now)
			return
		}
		d.fault, d.known, d.have = "", !d.asked, nil
		d.forgetFailures()
		d.lookAt(now.Add(leastPause), now) // the guest may reset itself as often as it likes
		for _, n := range nodes {
			if p, is := parsePlugged(n.Name); is {
				p.server = serverOf(n.Driver, n.File)
				d.have = append(d.have, p.withBlock(devices))
			}
		}
		slices.SortFunc(d.have, func(a, b plugged) int { return cmp.Compare(a.place, b.place) })
	}, commandOf("query-block", nil), commandOf("query-named-block-nodes", map[string]any{"flat": true}))
}

const (
	markLength = 7 // length of a mark, in hexadecimal digits
	placeBase  = plan.MaxPluggedDisks
)

func (p plugged) withName() plugged {
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

// SerialOf returns the serial number of a disk attached while the machine runs, by the name of its block node or
// the ID of its device. attached is false for other disks.
func SerialOf(name string) (serial string, attached bool) {
	p, attached := parsePlugged(name)
	return p.serial, attached
}

// withBlock returns the disk with its state in QEMU's list of block devices.
func (p plugged) withBlock(devices []block) plugged {
	for _, b := range devices {
		if p.present = b.belongsTo(p.deviceID()); p.present {
			if b.Inserted != nil {
				p.size = b.Inserted.Image.Size
			}
			break
		}
	}
	return p
}

// openFile opens the file of a disk, and then attaches the disk.
func (d *drives) openFile(w Drive, j *driveJob, now time.Time) {
	var free []int
	for place, bus := range d.rule.Buses {
		onBus := func(p plugged) bool { return !p.cd && p.place == place }
		if !d.cards.usesBus(bus) && !slices.ContainsFunc(d.have, onBus) {
			free = append(free, place)
		}
	}
	switch {
	case w.Denied != "":
		j.noteFailure(w.Denied, now)
		return
	case w.isCD() && d.rule.CDDriver == "":
		j.noteFailure("the machine takes no CD drives while the guest runs; that is up to its VM type", now)
		return
	case w.isCD():
		free = []int{0} // QEMU chooses the address
	case len(d.rule.Buses) == 0:
		j.noteFailure("the machine has no places for disks attached while the guest runs; that is up to its VM type", now)
		return
	case len(free) == 0:
		j.noteFailure(fmt.Sprintf("all %d places for disks attached while the guest runs are taken; the disk is available after "+
			"a restart of the VM", len(d.rule.Buses)), now)
		return
	}
	place := free[j.attempts%len(free)] // a user may have plugged something in
	if w.NBD != nil {
		if d.hasServerAnswered(w, j, now) {
			d.attachDrive(w, place, j, nil)
		}
		return
	}
	d.opening = true
	d.opener.queryFile(w, func(file *os.File, err error, now time.Time) bool {
		d.opening = false
		if err != nil {
			j.noteFailure("attach the disk: "+err.Error(), now)
			return false
		}
		d.attachDrive(w, place, j, file)
		return true
	})
}

// attachDrive adds a block node and its device.
func (d *drives) attachDrive(w Drive, place int, j *driveJob, file *os.File) {
	a := AttachmentOf(d.rule, w, Slot{Place: place}, file)
	j.attempts++
	d.sendBatch(func(answers []answer, now time.Time) {
		d.known, d.pace = false, pace{} // the guest has not caused it
		if err := firstError(answers[len(a.Clear) : len(answers)-len(a.After)]); err != nil {
			j.noteFailure(fmt.Sprintf("attach the disk: %v", err), now)
			return
		}
		*j = driveJob{}
	}, slices.Concat(a.Clear, a.Do, a.After)...)
}

// detachDrive asks the guest to release a disk. A CD drive disappears immediately. The request is repeated, because a
// guest that is still starting does not notice it.
func (d *drives) detachDrive(p plugged, j *driveJob) {
	d.sendBatch(func(answers []answer, now time.Time) {
		d.known = false
		if err := answers[0].err; err != nil && !strings.Contains(err.Error(), "already in the process of unplug") {
			j.noteFailure(fmt.Sprintf("detach the %s: %v", p.nounForPeople(), err), now)
			return
		}
		if !j.failed {
			j.message = "waiting for the guest to release the " + p.nounForPeople()
		}
		j.pause = min(max(2*j.pause, firstUnplug), lastUnplug)
		j.lookAt(now.Add(j.pause), now)
	}, unplugCommand(d.rule, p))
}

// removeNode closes the file of a disk that the guest does not use.
func (d *drives) removeNode(p plugged, j *driveJob) {
	var commands []qmp.Command
	if p.cd { // left over from an attachment
		commands = append(commands, unplugCommand(d.rule, p))
	}
	at := len(commands)
	commands = append(commands, commandOf("blockdev-del", map[string]any{"node-name": p.name}))
	if p.server != nil {
		commands = append(commands, removeCredentials(p.serial))
	}
	d.sendBatch(func(answers []answer, now time.Time) {
		d.known = false
		if err := answers[at].err; err != nil { // QEMU has not finished with the device
			const text = "close the disk's file: "
			if !strings.HasPrefix(j.message, text) {
				j.pause = 0 // the pauses for the guest were longer
			}
			j.noteFailure(text+err.Error(), now)
			return
		}
		delete(d.jobs, p.serial)
		delete(d.shown, p.name)
	}, commands...)
}

func (j *driveJob) noteFailure(message string, now time.Time) {
	j.message, j.failed = message, true
	j.pace.delayNext(now)
}

func (d *drives) observeEvent(e event, now time.Time) {
	p, is := parsePlugged(cmp.Or(e.data.Device, e.data.ID))
	switch {
	case e.name == "DEVICE_TRAY_MOVED" && is && e.data.TrayOpen:
		d.jobOf(p.serial).hurryUp()
	case e.name == "RESET": // QEMU completes pending removals
	case e.name == "DEVICE_DELETED" && is:
	case e.name == "DEVICE_UNPLUG_GUEST_ERROR" && is:
		j := d.jobOf(p.serial)
		j.message, j.failed = "the guest refuses to release the disk, which stays attached; it is asked again", true
		j.pause = max(j.pause, firstUnplug)
		j.lookAt(now.Add(j.pause), now)
	default:
		return
	}
	d.doubtState()
}

// doubtState schedules a new query, even if a query is in progress.
func (d *drives) doubtState() { d.known, d.asked = false, true }

func (d *drives) wakeTime() time.Time {
	if !d.known {
		return d.at
	}
	var first time.Time
	for serial, j := range d.jobs {
		p, w := d.findPlugged(serial), d.wantedDrive(serial)
		settled := p != nil && p.present && d.isStaying(*p) && !p.isTooSmall(*w)
		if !settled && !j.asking && !j.at.IsZero() && (first.IsZero() || j.at.Before(first)) {
			first = j.at
		}
	}
	return first
}

func (d *drives) reportFacts(f *Facts) {
	f.addProblem("vm.drives", d.fault)
	f.DrivesRevision = status.DrivesRevision(d.revision)
	for _, w := range d.want {
		f.Drives = append(f.Drives, d.factOf(w, f))
	}
	for _, p := range d.have {
		if d.wantedDrive(p.serial) != nil {
			continue
		}
		state, j := status.DriveDetaching, d.jobOf(p.serial)
		if j.failed {
			state = status.DriveFailed
			f.addProblem("vm.drives", fmt.Sprintf("disk %s: %s", p.serial, j.message))
		}
		f.Drives = append(f.Drives, status.Drive{Name: p.serial, State: state, Message: j.message, Capacity: p.size})
	}
}

// factOf returns the state of a wanted disk.
func (d *drives) factOf(w Drive, f *Facts) status.Drive {
	j, p := d.jobOf(w.Serial), d.findPlugged(w.Serial)
	fact := status.Drive{Name: w.Serial, State: status.DriveAttaching, Message: j.message}
	switch {
	case p != nil && p.cd && !j.failed && (!d.isStaying(*p) || d.isHidden(*p)): // until it returns with another medium
		fact.Capacity = p.size
		f.addProblem(w.Path(), j.message)
	case p != nil && p.present:
		fact.State, fact.Capacity, fact.Message = status.DriveAttached, p.size, ""
		if !p.isDrive(w) {
			fact.Message = "it is attached with another file, format or readOnly; this is changed by a restart of the VM, or by " +
				"removing the disk from vm.drives and adding it again when it is detached"
			f.addProblem(w.Path(), fact.Message)
		} else if p.isTooSmall(w) && j.failed {
			fact.Message = j.message
			f.addProblem(w.Path(), fact.Message)
		}
	case j.failed:
		fact.State = status.DriveFailed
		f.addProblem(w.Path(), j.message)
	}
	return fact
}
