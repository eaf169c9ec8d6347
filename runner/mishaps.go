package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"vmop/qmp"
	"vmop/runner/status"
)

// mishaps looks after what goes wrong with a running machine: a guest that
// panics, disks that fail, a KVM that gives up. It tells the status, and lets a
// machine that QEMU has stopped because of a disk go on when that may succeed.
//
// Events only wake it up, and leave a note; one goroutine asks QEMU for the
// state, and acts. So a flood of events costs no more than a few.
type mishaps struct {
	m     *machine
	wake  chan struct{}
	begun bool

	mu     sync.Mutex
	ledger ledger
	causes map[string]string // of errors, by the node's name

	// What only the goroutine uses.
	state     string // QEMU's run state
	recovery  recovery
	lines     trickle
	forbidden bool // reboots are
}

func newMishaps(m *machine) *mishaps {
	return &mishaps{
		m: m, wake: make(chan struct{}, 1), causes: map[string]string{},
		lines: trickle{burst: 20, every: 10 * time.Second},
	}
}

// restTime is between two looks at the machine, when events don't stop.
const restTime = 200 * time.Millisecond

func (f *mishaps) wanted(context.Context, *VM) {}

func (f *mishaps) attached(ctx context.Context) {
	if !f.begun {
		f.begun = true
		f.watchHelpers(ctx)
		go f.keep(ctx)
	}
	f.look()
}

// look has the goroutine look at the machine.
func (f *mishaps) look() {
	select {
	case f.wake <- struct{}{}:
	default: // it will
	}
}

func (f *mishaps) observe(_ context.Context, e qmp.Event) {
	switch e.Name {
	case "STOP", "RESUME":
	case "RESET":
		f.mu.Lock()
		f.ledger.forget(status.GuestPanicked)
		f.mu.Unlock()
	default:
		n, ok := f.read(e)
		if !ok {
			return
		}
		f.mu.Lock()
		f.ledger.add(n, time.Now())
		f.mu.Unlock()
	}
	f.look()
}

// mishapEvent has what the events about mishaps say; see the QEMU QMP Reference
// Manual.
type mishapEvent struct {
	Action    string
	Device    string // of -drive, empty for others
	Path      string `json:"qom-path"` // of the device; newer versions have it
	Node      string `json:"node-name"`
	Operation string
	Full      bool `json:"nospace"`
	Reason    string
	Msg       string
	Fatal     bool
	Recipient string
}

// read turns an event into a note.
func (f *mishaps) read(e qmp.Event) (note, bool) {
	var d mishapEvent
	if len(e.Data) > 0 && json.Unmarshal(e.Data, &d) != nil {
		return note{}, false
	}
	switch e.Name {
	case "GUEST_PANICKED":
		return note{reason: status.GuestPanicked, text: "the guest has panicked" + consequence(d.Action), lasting: true}, true
	case "GUEST_CRASHLOADED":
		return note{reason: status.GuestPanicked, text: "the guest has panicked, and saves its memory for an inquiry", lasting: true}, true
	case "WATCHDOG":
		return note{reason: status.WatchdogExpired, text: "the guest has not served its watchdog" + consequence(d.Action)}, true
	case "MEMORY_FAILURE":
		return note{reason: status.MemoryFailure, subject: d.Recipient, text: "memory of the host is broken: " + d.Action, lasting: true}, true
	case "BLOCK_IMAGE_CORRUPTED":
		text := "the image is inconsistent: " + printable(d.Msg)
		if d.Fatal {
			text += "; QEMU doesn't use it any more"
		}
		return note{reason: status.ImageCorrupted, subject: driveOf(f.m.vm.Plan, cmp.Or(d.Path, d.Device), d.Node).String(), text: text, lasting: true}, true
	case "BLOCK_IO_ERROR":
		cause := d.Operation + " failed: " + printable(d.Reason)
		if d.Action == "stop" { // STOP follows, and the state tells
			f.remember(d.Node, cause)
			return note{}, false
		}
		return note{reason: status.IOError, subject: driveOf(f.m.vm.Plan, cmp.Or(d.Path, d.Device), d.Node).String(), text: cause + consequence(d.Action)}, true
	}
	return note{}, false
}

// consequence says what QEMU does about a mishap.
func consequence(action string) string {
	switch action {
	case "":
		return ""
	case "report":
		return ", as the guest was told"
	case "ignore", "none", "run":
		return "; it goes on"
	case "pause":
		return "; it stands still until it is resumed or reset"
	}
	return "; QEMU does: " + action
}

// maxCauses bounds the nodes whose errors are remembered.
const maxCauses = 64

func (f *mishaps) remember(node, cause string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.causes) < maxCauses || f.causes[node] != "" {
		f.causes[node] = cause
	}
}

// keep looks at the machine whenever there is a reason.
func (f *mishaps) keep(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-f.wake:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		timer.Stop()
		if wake := f.see(ctx); !wake.IsZero() {
			timer.Reset(time.Until(wake))
		}
		select {
		case <-time.After(restTime):
		case <-ctx.Done():
			return
		}
	}
}

// see asks for the machine's state and does what it calls for. It returns when
// to look again, if nothing happens; zero if only events matter.
func (f *mishaps) see(ctx context.Context) (wake time.Time) {
	ctx, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	var state struct{ Status string }
	err := f.m.hold.inOrder(func() error {
		err := f.m.query(ctx, "query-status", nil, &state)
		if err == nil && state.Status == "running" {
			f.m.notePause(false) // also if somebody resumed it by QMP
		}
		return err
	})
	if err != nil {
		if !errors.Is(err, qmp.ErrClosed) {
			wake = time.Now().Add(replyTime) // QEMU is busy
		}
		return wake
	}
	updates := []status.Update{status.RunState(state.Status), machineFault(state.Status)}
	before := f.state
	f.state = state.Status
	f.forbidReboots(ctx)
	switch {
	case state.Status == "io-error":
		return f.standStill(ctx, updates)
	case state.Status == "internal-error" && before != state.Status:
		defer f.m.log.Error(kvmGaveUp)
	}
	f.recovery.runs()
	return f.tell(updates, nil)
}

const kvmGaveUp = "QEMU's accelerator cannot go on with this guest (KVM internal error); a reset starts it anew, and accelerator: tcg runs what KVM cannot run here"

// machineFault tells of an accelerator that has given up.
func machineFault(state string) status.Faults {
	if state == "internal-error" {
		return status.Faults{Reason: status.MachineFailed, Messages: []string{kvmGaveUp}}
	}
	return status.Faults{Reason: status.MachineFailed}
}

// tell puts all that is known into the status, and what is new into the log.
func (f *mishaps) tell(updates []status.Update, waiting []string) (wake time.Time) {
	now := time.Now()
	f.mu.Lock()
	wake = f.ledger.expire(now)
	for _, reason := range [...]status.Reason{status.GuestPanicked, status.WatchdogExpired, status.MemoryFailure, status.ImageCorrupted} {
		updates = append(updates, status.Faults{Reason: reason, Messages: f.ledger.messages(reason)})
	}
	updates = append(updates, status.Faults{Reason: status.IOError, Messages: append(waiting, f.ledger.messages(status.IOError)...)})
	fresh := f.ledger.fresh()
	f.mu.Unlock()
	f.m.tell(updates...)
	for _, n := range fresh {
		if withheld, ok := f.lines.lets(now); ok {
			f.m.log.Warn(n.String(), "reason", string(n.reason), "withheld", withheld)
		}
	}
	return wake
}

// standStill tells what a machine waits for that QEMU has stopped because of a
// disk, and has it go on when it can.
func (f *mishaps) standStill(ctx context.Context, updates []status.Update) (wake time.Time) {
	began := !f.recovery.standing
	list, err := f.failed(ctx)
	if err != nil {
		f.m.log.Warn("the machine waits for a disk that is not known", "err", err)
	}
	now := time.Now()
	goOn, wake, why := f.recovery.next(list, now)
	text := strings.Join(why, "; ")
	if f.m.hold.isPaused() {
		goOn = false
		for i := range why {
			why[i] += ". It was paused, too: resume it"
		}
	}
	if goOn {
		wake = now.Add(spacePoll) // RESUME comes first
	}
	wake = soonest(wake, f.tell(updates, why))
	if began {
		f.m.log.Error("QEMU has stopped the machine because of a disk", "err", text)
	}
	if !goOn {
		return wake
	}
	err = f.m.hold.unlessPaused(func() error {
		f.recovery.tries(now)
		f.m.log.Info("the machine goes on after a failure of a disk", "attempt", f.recovery.attempts, "cause", text)
		return f.m.query(ctx, "cont", nil, nil)
	})
	if err != nil {
		f.m.log.Error("the machine doesn't go on", "err", err)
	}
	return wake
}

// failed asks for the disks that the machine waits for.
func (f *mishaps) failed(ctx context.Context) (list []standstill, err error) {
	var blocks []struct {
		Device   string
		Qdev     string
		IOStatus string `json:"io-status"`
		Inserted struct {
			Node string `json:"node-name"`
			File string
		}
	}
	if err := f.m.query(ctx, "query-block", nil, &blocks); err != nil {
		return nil, err
	}
	for _, b := range blocks {
		if b.IOStatus == "" || b.IOStatus == "ok" {
			continue
		}
		s := standstill{drive: driveOf(f.m.vm.Plan, b.Qdev, b.Inserted.Node), full: b.IOStatus == "nospace"}
		if s.drive.file == "" {
			s.drive.file = b.Inserted.File
		}
		s.space = spaceOf(s.drive.file)
		f.mu.Lock()
		s.cause = f.causes[b.Inserted.Node]
		f.mu.Unlock()
		if s.cause == "" {
			s.cause = "an error of the host (" + b.IOStatus + ")"
		}
		list = append(list, s)
	}
	return list, nil
}

// spaceOf returns the space of the file system that a disk lies on, if it is a
// file.
func spaceOf(file string) space {
	info, err := os.Stat(file)
	var s syscall.Statfs_t
	if err != nil || !info.Mode().IsRegular() || syscall.Statfs(file, &s) != nil {
		return space{}
	}
	return space{known: true, free: int64(s.Bavail) * s.Bsize, size: int64(s.Blocks) * s.Bsize}
}

// soonest returns the earlier time; zero is none.
func soonest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
