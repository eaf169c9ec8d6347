package drive

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"vmop/internal/childprocess"
	"vmop/internal/outbound"
	"vmop/qmp"
	"vmop/runner/machine"
	"vmop/runner/machine/reconcile"
	"vmop/runner/status"
)

// Config configures a Driver.
type Config struct {
	// Machine is the configuration of the State.
	Machine machine.Config
	// Monitor is the path of the socket of QEMU's monitor. Session is the first connection to it; nil if QEMU is
	// not connected yet. The Driver closes it.
	Monitor string
	Session *qmp.Session
	// QEMU and Helpers are the processes.
	QEMU    Process
	Helpers []Process
	// StartHelper restarts a helper of the plan, and connects to its socket, if any.
	StartHelper func(ctx context.Context, name, socket string) (Process, *os.File, error)
	// Agents communicates with the agents in the guest. The Driver closes it.
	Agents Agents
	// Cards keeps the taps of network cards that are plugged in while the machine runs.
	Cards Cards
	// Tracker contains the status.
	Tracker *status.Tracker
	Log     *slog.Logger
	// Save saves the progress where the next runner finds it.
	Save func(machine.Progress) error
	// SinceBoot returns the time since the host's start.
	SinceBoot func() time.Duration
	// Reach returns the rule for the addresses that a medium's web server may have.
	Reach func(address string) outbound.Rule
	// Alive is received from whenever the Driver waits. May be nil.
	Alive <-chan struct{}
}

// A Process is a process of the machine. *childprocess.Process implements it.
type Process interface {
	Name() string
	Done() <-chan struct{}
	Exit() childprocess.Exit
	Signal(syscall.Signal) error
}

// Agents communicates with the agents in the guest. *agents.Agents implements it and documents the methods. They
// are called on the Driver's goroutine.
type Agents interface {
	SetPort(role string, open, greeted bool)
	LogIn(user string)
	Leave()
	Find(limit time.Duration, then func(found bool, err error))
	ShutDown(limit time.Duration, then func(error))
	Freeze(limit time.Duration, then func(count int, sent bool, err error))
	EndFreeze()
	Thaw(limit time.Duration, then func(count int, err error))
	Close()
}

// Cards keeps the taps and ports of plugged network cards, as decided by the State. Its methods may be called from
// any goroutine.
type Cards interface {
	// Open opens the tap of a card, if it has one, and records the card's port. It returns own descriptors.
	Open(ctx context.Context, c reconcile.Card, place int) (reconcile.OpenCard, error)
	// Release closes the tap of a card, and forgets its port.
	Release(mac string)
	// KeepOnly releases all cards except some.
	KeepOnly(macs []string)
}

// A Driver controls one VM. Its methods may be called from any goroutine except the Driver's own.
type Driver struct {
	cfg      Config
	replies  chan reply
	requests chan request
	done     chan struct{} // closed when Run has returned
	happened chan struct{} // receives a value when a migration may have made progress
	close    context.CancelFunc
	closed   context.Context

	// The remaining fields belong to the goroutine of Run.
	state   *machine.State
	session *qmp.Session
	lasting context.Context // as long as the session
	lost    context.CancelFunc
	pending map[uint64]*qmp.Pending
	helpers []Process // running, as far as the State knows
	started []Process // restarted by StartHelper
	greeted bool
	exited  bool // QEMU has ended
	// cardsDone is closed when the last action of keepCards is done; nil before the first.
	cardsDone <-chan struct{}
	stopping  bool // the end of Run's context was noticed
	again     bool // something happened while actions were carried out
	dropped   uint64
	before    uint64 // events dropped by earlier sessions
	onEvent   func(qmp.Event)
	asking    map[machine.Request]chan<- machine.Answer
	last      machine.Request
	settled   chan error
	called    []chan<- struct{} // of requests with pending actions
	outcome   *machine.Outcome
}

// request is a function for the Driver to call. called is closed when the resulting actions have been carried
// out, which includes recording and publishing.
type request struct {
	call   func(now time.Time)
	called chan<- struct{}
}

// reply is the result of a command.
type reply struct {
	id    uint64
	reply json.RawMessage
	err   error
}

// New returns the Driver of a VM; call Run to start it. Without a session the VM was found running, and the first
// call must be Adopt. Otherwise the first calls must be Settle and Release. The Driver does not stop when ctx is
// done.
func New(ctx context.Context, cfg Config) *Driver {
	d := &Driver{
		cfg: cfg, replies: make(chan reply), requests: make(chan request), done: make(chan struct{}),
		state: machine.New(cfg.Machine), asking: map[machine.Request]chan<- machine.Answer{},
		settled: make(chan error, 1), happened: make(chan struct{}, 1),
		onEvent: func(qmp.Event) {},
	}
	d.closed, d.close = context.WithCancel(context.WithoutCancel(ctx))
	return d
}

// Run controls the VM until it has ended, and returns the outcome. When ctx is done, it stops a VM with a running
// guest. After Close it returns immediately, with a meaningless outcome.
func (d *Driver) Run(ctx context.Context) machine.Outcome {
	defer close(d.done)
	defer d.releaseDone()
	defer d.cfg.Agents.Close()
	defer d.endSession()
	if d.cfg.Session != nil {
		d.connectSession(d.cfg.Session)
	}
	for _, h := range d.cfg.Helpers {
		d.followHelper(h)
	}
	wake := time.NewTimer(0)
	defer wake.Stop()
	for {
		step := d.state.Next(time.Now())
		d.again = false
		for _, a := range step.Actions {
			d.carryOut(ctx, a)
		}
		if d.outcome != nil {
			d.releaseDone()
			d.endStarted()
			return *d.outcome
		}
		if d.again {
			continue
		}
		d.releaseDone()
		if !step.Wake.IsZero() {
			wake.Reset(time.Until(step.Wake))
		}
		if !d.waitForNext(ctx, wake.C) {
			return machine.Outcome{}
		}
	}
}

// releaseDone unblocks the callers of completed requests.
func (d *Driver) releaseDone() {
	for _, called := range d.called {
		close(called)
	}
	d.called = nil
}

// waitForNext processes the next input, and returns false after Close.
func (d *Driver) waitForNext(ctx context.Context, wake <-chan time.Time) bool {
	var events <-chan qmp.Event
	var greeted, lost, exited, stop <-chan struct{}
	running := d.state.Runs()
	switch {
	case d.session == nil:
	case running:
		events = d.session.Events()
	default:
		lost = d.session.Done() // events wait until the guest runs
	}
	if d.session != nil && !d.greeted {
		greeted = d.session.Greeted()
	}
	if !d.exited {
		exited = d.cfg.QEMU.Done()
	}
	if running && !d.stopping {
		stop = ctx.Done()
	}
	select {
	case e, ok := <-events:
		if ok {
			d.observeEvent(e)
		} else {
			d.endSession()
		}
	case <-lost:
		d.endSession()
	case <-greeted:
		d.greeted = true
		if d.session.Err() == nil {
			d.state.Greeted(versionText(d.session.Version()))
		}
	case r := <-d.replies:
		delete(d.pending, r.id)
		d.state.Reply(r.id, r.reply, r.err, time.Now())
	case r := <-d.requests:
		d.seeHelpers() // a reset must not come before the end of the TPM
		r.call(time.Now())
		d.called = append(d.called, r.called)
	case <-exited:
		d.exited = true
		d.noteStop(ctx)
		d.state.QEMUExited(d.cfg.QEMU.Exit(), time.Now())
	case <-stop:
		d.noteStop(ctx)
	case <-d.cfg.Alive:
	case <-wake:
	case <-d.closed.Done():
		return false
	}
	return true
}

// noteStop checks whether the VM should be stopped.
func (d *Driver) noteStop(ctx context.Context) {
	if ctx.Err() != nil && !d.stopping && d.state.Runs() {
		d.stopping = true
		d.state.Stop(context.Cause(ctx).Error(), false, d.cfg.SinceBoot(), time.Now())
	}
}

// versionText formats a version, such as 7.2.22.
func versionText(v qmp.Version) string {
	return fmt.Sprintf("%d.%d.%d", v.QEMU.Major, v.QEMU.Minor, v.QEMU.Micro)
}

// connectSession starts a session.
func (d *Driver) connectSession(session *qmp.Session) {
	d.session, d.greeted, d.dropped, d.pending = session, false, 0, map[uint64]*qmp.Pending{}
	d.lasting, d.lost = context.WithCancel(d.closed)
	d.state.Connected(time.Now())
}

// dialAgain reconnects. A unix socket answers immediately, or never.
func (d *Driver) dialAgain(ctx context.Context) {
	d.again = true
	var dialer net.Dialer
	conn, err := dialer.DialContext(context.WithoutCancel(ctx), "unix", d.cfg.Monitor)
	if err != nil {
		d.state.DialFailed(fmt.Errorf("connect to QEMU's monitor: %w", err), time.Now())
		return
	}
	d.connectSession(qmp.New(conn, qmp.WithTrace(d.cfg.Log)))
}

// endSession ends the session, if any.
func (d *Driver) endSession() {
	if d.session == nil {
		return
	}
	session := d.session
	d.session = nil
	d.lost() // replies are no longer needed
	err := session.Err()
	if err == nil {
		err = qmp.ErrClosed
	}
	_ = session.Close()
	d.before += session.Dropped()
	d.state.Disconnected(err, time.Now())
}

func (d *Driver) observeEvent(e qmp.Event) {
	d.onEvent(e)
	if strings.HasPrefix(e.Name, "MIGRATION") {
		select {
		case d.happened <- struct{}{}:
		default:
		}
	}
	if dropped := d.session.Dropped(); dropped != d.dropped {
		d.dropped = dropped
		d.state.EventsLost()
	}
	d.state.Observe(e, time.Now())
}
