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

	"vmop/outbound"
	"vmop/process"
	"vmop/qmp"
	"vmop/runner/machine"
	"vmop/runner/status"
)

// Config is what a Driver needs.
type Config struct {
	// Machine is what the State is made from.
	Machine machine.Config
	// Monitor is the path of the socket of QEMU's monitor, and Session the first
	// connection; nil if there is none yet. The Driver closes it.
	Monitor string
	Session *qmp.Session
	// QEMU and Helpers are the processes.
	QEMU    Process
	Helpers []Process
	// StartHelper starts a helper of the plan again, and connects to its socket, if any.
	StartHelper func(ctx context.Context, name, socket string) (Process, *os.File, error)
	// Agents are those in the guest. The Driver closes them.
	Agents Agents
	// Tracker has the status.
	Tracker *status.Tracker
	Log     *slog.Logger
	// Save keeps the progress where the next runner finds it.
	Save func(machine.Progress) error
	// SinceBoot returns the time since the host's start.
	SinceBoot func() time.Duration
	// Reach returns which addresses the web server of a medium may have.
	Reach func(address string) outbound.Rule
	// Alive is received from whenever the Driver waits for something. It may be nil.
	Alive <-chan struct{}
}

// A Process is one of the machine's. *process.Process implements it.
type Process interface {
	Name() string
	Done() <-chan struct{}
	Exit() process.Exit
	Signal(syscall.Signal) error
}

// Agents speak with the agents in the guest. *agents.Agents implements it, and
// documents the methods; they are called on the Driver's goroutine.
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

// A Driver looks after one VM. Its methods may be called from any goroutine but
// its own.
type Driver struct {
	cfg      Config
	replies  chan reply
	requests chan request
	done     chan struct{} // closed when Run has returned
	happened chan struct{} // gets something when a migration may be further
	close    context.CancelFunc
	closed   context.Context

	// The rest belongs to the goroutine of Run.
	state    *machine.State
	session  *qmp.Session
	lasting  context.Context // as long as the session
	lost     context.CancelFunc
	pending  map[uint64]*qmp.Pending
	helpers  []Process // that run, as far as the State knows
	started  []Process // again, by StartHelper
	greeted  bool
	exited   bool // QEMU has ended
	stopping bool // the end of Run's context was seen
	again    bool // something has happened while actions were carried out
	dropped  uint64
	before   uint64 // events that earlier sessions have dropped
	onEvent  func(qmp.Event)
	asking   map[machine.Request]chan<- machine.Answer
	last     machine.Request
	settled  chan error
	called   []chan<- struct{} // of requests whose actions are not carried out yet
	outcome  *machine.Outcome
}

// request is a function that the Driver is to call. called is closed when the
// actions that follow from it have been carried out, too: what has to be recorded
// is, and what has to be published.
type request struct {
	call   func(now time.Time)
	called chan<- struct{}
}

// reply is what became of a command.
type reply struct {
	id    uint64
	reply json.RawMessage
	err   error
}

// New returns the Driver of a VM, for Run. Without a session the VM was found
// running: then Adopt begins, otherwise Settle and Release. The end of ctx is not
// that of the Driver.
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

// Run looks after the VM until it has ended, and returns how. The end of ctx is a
// request to stop a VM whose guest runs. After Close it returns at once, and the
// outcome means nothing.
func (d *Driver) Run(ctx context.Context) machine.Outcome {
	defer close(d.done)
	defer d.release()
	defer d.cfg.Agents.Close()
	defer d.disconnect()
	if d.cfg.Session != nil {
		d.connect(d.cfg.Session)
	}
	for _, h := range d.cfg.Helpers {
		d.follow(h)
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
			d.release()
			d.endStarted()
			return *d.outcome
		}
		if d.again {
			continue
		}
		d.release()
		if !step.Wake.IsZero() {
			wake.Reset(time.Until(step.Wake))
		}
		if !d.wait(ctx, wake.C) {
			return machine.Outcome{}
		}
	}
}

// release lets those go on whose requests are done.
func (d *Driver) release() {
	for _, called := range d.called {
		close(called)
	}
	d.called = nil
}

// wait takes in the next thing that happens, and returns false after Close.
func (d *Driver) wait(ctx context.Context, wake <-chan time.Time) bool {
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
			d.observe(e)
		} else {
			d.disconnect()
		}
	case <-lost:
		d.disconnect()
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
		d.see(ctx)
		d.state.QEMUExited(d.cfg.QEMU.Exit(), time.Now())
	case <-stop:
		d.see(ctx)
	case <-d.cfg.Alive:
	case <-wake:
	case <-d.closed.Done():
		return false
	}
	return true
}

// see takes in that the VM is to be stopped, if it is.
func (d *Driver) see(ctx context.Context) {
	if ctx.Err() != nil && !d.stopping && d.state.Runs() {
		d.stopping = true
		d.state.Stop(context.Cause(ctx).Error(), false, d.cfg.SinceBoot(), time.Now())
	}
}

// versionText spells a version as people do: 7.2.22.
func versionText(v qmp.Version) string {
	return fmt.Sprintf("%d.%d.%d", v.QEMU.Major, v.QEMU.Minor, v.QEMU.Micro)
}

// connect begins a session.
func (d *Driver) connect(session *qmp.Session) {
	d.session, d.greeted, d.dropped, d.pending = session, false, 0, map[uint64]*qmp.Pending{}
	d.lasting, d.lost = context.WithCancel(d.closed)
	d.state.Connected(time.Now())
}

// dial connects again. A unix socket answers at once, or not at all.
func (d *Driver) dial(ctx context.Context) {
	d.again = true
	var dialer net.Dialer
	conn, err := dialer.DialContext(context.WithoutCancel(ctx), "unix", d.cfg.Monitor)
	if err != nil {
		d.state.DialFailed(fmt.Errorf("connect to QEMU's monitor: %w", err), time.Now())
		return
	}
	d.connect(qmp.New(conn, qmp.WithTrace(d.cfg.Log)))
}

// disconnect ends the session, if there is one.
func (d *Driver) disconnect() {
	if d.session == nil {
		return
	}
	session := d.session
	d.session = nil
	d.lost() // replies are not awaited any more
	err := session.Err()
	if err == nil {
		err = qmp.ErrClosed
	}
	_ = session.Close()
	d.before += session.Dropped()
	d.state.Disconnected(err, time.Now())
}

func (d *Driver) observe(e qmp.Event) {
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
