package machine

import (
	"encoding/json"
	"log/slog"
	"os"
	"time"

	"vmop/process"
	"vmop/qmp"
	"vmop/runner/ratelimit"
	"vmop/runner/reconcile"
	"vmop/runner/status"
	"vmop/runner/viewers"
	"vmop/vmspec"
	"vmop/vmstatus"
	"vmop/vmtypes/plan"
)

// A Config is what a State is made from. It does not change.
type Config struct {
	// Plan is the one that the machine was started by.
	Plan *plan.Plan
	// Start is what is known of a machine that was started a moment ago; nil means
	// that it was found running, and that everything has to be asked for.
	Start *reconcile.Start
	// Wish is the one in force, which a machine that was started is made by.
	Wish Wish
	// Progress is how far an earlier runner has come, or where the first begins.
	Progress Progress
	// PID is QEMU's process number.
	PID int
	// Running are the names of the helpers that run.
	Running []string
	// GuestAgent is the role, among Agents, of the agent that is asked to shut the
	// guest down.
	GuestAgent string
	Agents     []string
	// Viewer returns a viewer's name for people; nil leaves it as it is.
	Viewer func(name string) string
	// Known reports whether a viewer, by the name that QEMU reports, is in the status already;
	// nil means none.
	Known func(name string) bool
	// CPUs and RAM (bytes) are what the guest has where no rule is about them.
	CPUs int
	RAM  int64
	// Misplaced says of processes why they don't run on the CPUs that the plan has for them.
	Misplaced []string
	// Protected says that the displays have a password.
	Protected bool
	// Held says why the machine is held from the beginning, as by Hold; "" if it isn't.
	Held string
	// Grace is how long after a stop request the runner is killed; 0 means never.
	Grace time.Duration
}

// Booting is what is published when the guest runs.
type Booting struct {
	// Began is when the guest began to run.
	Began time.Time
	// Reason of the state; "" is the usual one.
	Reason vmstatus.Reason
	// Resource that the configuration was made of; "" if it was not.
	Resource string
	// Paused says that a user has paused the guest, which comes from another runner.
	Paused bool
}

// A State is a VM that runs, and all that is decided about it. One goroutine
// calls its methods.
type State struct {
	line       *line
	keep       *keeper
	connection *connection
	start      *start
	run        *runState
	disks      *disks
	faults     *faults
	helpers    *helpers
	ports      *ports
	screens    *screens
	wanted     *wanted
	freeze     *freeze
	stop       *stop
	ending     *ending

	asked map[Request]*exchange // of Run
}

// New returns the State of a machine whose QEMU was started, or was found.
func New(cfg Config) *State {
	l := &line{open: map[uint64]*exchange{}}
	keep := &keeper{line: l, progress: cfg.Progress}
	s := &State{line: l, keep: keep, asked: map[Request]*exchange{}}
	s.connection = &connection{line: l}
	s.helpers = newHelpers(l, keep, cfg.Plan, cfg.Running)
	s.ports = newPorts(l, cfg.Plan, cfg.Agents)
	s.screens = &screens{
		line: l, display: cfg.Viewer, known: cfg.Known, pause: shortestDoubt,
		limit: ratelimit.Limit{Burst: 20, Every: 10 * time.Second},
		lists: map[string]*viewers.List{status.SPICE: {}, status.VNC: {}},
	}
	s.freeze = &freeze{line: l, keep: keep, ports: s.ports, role: cfg.GuestAgent}
	s.stop = &stop{
		line: l, keep: keep, ports: s.ports, freeze: s.freeze, agentRole: cfg.GuestAgent, grace: cfg.Grace,
		timeout: cfg.Wish.Powerdown,
	}
	s.ending = &ending{line: l, keep: s.keep, helpers: s.helpers, stop: s.stop}
	s.disks = &disks{line: l, keep: keep, plan: cfg.Plan, causes: map[string]string{}}
	s.faults = &faults{line: l, disks: s.disks, limit: ratelimit.Limit{Burst: 20, Every: 10 * time.Second}}
	s.run = &runState{line: l, keep: keep, disks: s.disks, faults: s.faults, helpers: s.helpers, pid: cfg.PID}
	s.disks.run, s.disks.faults, s.faults.run = s.run, s.faults, s.run
	s.freeze.run = s.run
	s.wanted = &wanted{
		line: l, keep: keep, helpers: s.helpers, stop: s.stop, plan: cfg.Plan.Rules, wish: cfg.Wish,
		serialBase: cfg.Progress.PasswordSerial, protected: cfg.Protected, cpus: cfg.CPUs, ram: cfg.RAM,
		misplaced: cfg.Misplaced,
	}
	s.wanted.run, s.run.held = s.run, Refusal(cfg.Held)
	s.start = &start{line: l, wanted: s.wanted}
	if cfg.Start != nil {
		s.wanted.rules = reconcile.New(cfg.Plan.Rules, *cfg.Start)
	} else {
		s.start.done, s.run.prelaunch = true, true
		s.wanted.knownAgain()
	}
	return s
}

// Next returns what is to be done at the time now.
func (s *State) Next(now time.Time) Step {
	wake := s.ending.next(now)
	switch {
	case s.ending.exited:
	case !s.run.on:
		if s.line.connected {
			s.start.next(now)
		}
	default:
		for _, part := range []func(time.Time) time.Time{
			s.connection.next, s.helpers.next, s.disks.next, s.faults.next, s.run.next, s.wanted.next, s.screens.next,
			s.freeze.next, s.stop.next,
		} {
			wake = soonest(wake, part(now))
		}
	}
	step := Step{Actions: s.line.actions, Wake: wake}
	s.line.actions = nil
	return step
}

// Progress returns how far the runner has come.
func (s *State) Progress() Progress { return s.keep.progress }

// Settled reports whether the paused machine is as wanted, and the guest may be
// let run.
func (s *State) Settled() bool { return s.start.done }

// Runs reports whether the guest was let run: from then on QEMU's events are
// given to Observe.
func (s *State) Runs() bool { return s.run.on }

// Release lets the guest run for the first time, unless a user has paused the VM
// meanwhile. It answers to when that is so.
func (s *State) Release(to Request, b Booting, now time.Time) {
	begin := func(a answer, now time.Time) {
		if a.err == nil {
			s.start.began(now)
			s.begin(b, now)
			s.line.publish(status.Pending{}) // it was just started by that configuration
		}
		s.line.do(Answer{To: to, Err: a.err})
	}
	switch {
	case s.stop.requested:
		begin(answer{err: Refusal("the VM is being stopped")}, now)
	case s.keep.progress.Paused || b.Paused:
		s.keep.setPaused(true)
		s.begin(b, now)
		s.line.publish(status.Pending{})
		s.line.do(Answer{To: to})
	default:
		s.run.cont(now, begin)
	}
}

// Adopt begins with a machine that an earlier runner has left running.
func (s *State) Adopt(b Booting, now time.Time) {
	s.connection.found(now)
	s.begin(b, now)
}

// begin begins to look after a guest that runs.
func (s *State) begin(b Booting, now time.Time) {
	s.run.on = true
	generation := s.keep.progress.Generation
	s.line.publish(
		status.Began(b.Began), status.Entered{State: vmstatus.StateBooting, Reason: b.Reason},
		status.Process{PID: s.run.pid, Version: s.run.version},
		status.Read{Generation: generation, Resource: b.Resource}, status.Applied(generation),
	)
	s.wanted.want(s.wanted.wish)
	s.helpers.begin()
	s.freeze.begin(now)
	s.ending.begin(now)
	if s.line.connected {
		s.attach(now)
	}
	if s.stop.requested {
		s.stop.start(s.keep.progress.Stop.Cause, now)
	}
}

// attach asks what events would have told that were not seen.
func (s *State) attach(now time.Time) {
	s.run.soon(now)
	s.ports.query(now)
	s.screens.doubt()
}

// Connected begins a connection with QEMU: commands can be said.
func (s *State) Connected(now time.Time) {
	again := s.run.on
	s.connection.made()
	s.line.connect(now)
	if again {
		s.wanted.knownAgain()
		s.attach(now)
	}
}

// Greeted takes in that QEMU has accepted the connection, and its version.
func (s *State) Greeted(version string) {
	s.run.version, s.start.greeted = version, true
}

// DialFailed takes in that Dial did not succeed.
func (s *State) DialFailed(err error, now time.Time) { s.connection.dialFailed(err, now) }

// Disconnected takes in the end of the connection, and why.
func (s *State) Disconnected(err error, now time.Time) {
	if !s.line.connected {
		return
	}
	s.line.disconnect(err, now)
	if !s.run.on { // it is only being started, and cannot do without
		s.line.end(err, now)
		s.start.settled(err)
		return
	}
	s.connection.broke(now)
}

// Reply takes in what became of a command: what QEMU returned, or an error.
func (s *State) Reply(id uint64, reply json.RawMessage, err error, now time.Time) {
	s.line.answered(id, answer{reply, err}, now)
}

// Unsent takes in that a command could not be sent, because the connection has
// ended. It waits for the next one.
func (s *State) Unsent(id uint64, now time.Time) { s.line.unsaid(id, now) }

// Observe takes in an event of QEMU.
func (s *State) Observe(e qmp.Event, now time.Time) {
	attrs := []any{"event", e.Name}
	if len(e.Data) > 0 {
		attrs = append(attrs, "data", string(e.Data))
	}
	if e.Name == "RESUME" {
		s.line.publish(status.RunState("running"))
	}
	s.line.log(eventLevel(e), "QMP event", attrs...)
	s.ending.observe(e, now)
	s.ports.observe(e)
	if e.Name == "RESET" {
		s.line.publish(status.WasReset{})
		s.freeze.wasReset()
	}
	s.screens.observe(e, now)
	s.faults.observe(e, now)
	s.wanted.observe(e, now)
}

// eventLevel shows what a person wants to know, and hides what happens often.
func eventLevel(e qmp.Event) slog.Level {
	switch e.Name {
	case "SHUTDOWN", "RESET", "POWERDOWN", "STOP", "RESUME":
		return slog.LevelInfo
	case "BLOCK_JOB_ERROR", "NETDEV_STREAM_DISCONNECTED", "QUORUM_FAILURE", "QUORUM_REPORT_BAD":
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// EventsLost takes in that events were lost: what they would have told is asked
// for.
func (s *State) EventsLost() {
	s.wanted.rules.Doubt()
	s.screens.doubt()
}

// HelperExited takes in the end of a helper process.
func (s *State) HelperExited(name, exit string, now time.Time) { s.helpers.exited(name, exit, now) }

// HelperStarted takes in a connection with the process that StartHelper has started,
// or why there is none.
func (s *State) HelperStarted(name string, conn *os.File, err error, now time.Time) {
	if name != s.helpers.tpm.name {
		s.helpers.restarted(name, err, now)
		return
	}
	s.helpers.tpm.replaced(conn, err, now)
}

// QEMUExited takes in the end of QEMU. Events that it has left may follow, until
// Disconnected or End.
func (s *State) QEMUExited(exit process.Exit, now time.Time) {
	s.ending.qemuExited(exit, now)
	s.line.end(ErrExited, now)
}

// ErrExited is the answer to requests when QEMU has ended.
const ErrExited = Refusal("QEMU has ended")

// Stop begins to end the VM; with atOnce without asking the guest. sinceBoot is
// the time since the host's start.
func (s *State) Stop(cause string, atOnce bool, sinceBoot time.Duration, now time.Time) {
	s.stop.request(cause, atOnce, sinceBoot, now)
	if s.run.on && !s.stop.began && !s.ending.exited {
		s.stop.start(cause, now)
	}
}

// AgentFound takes in whether FindAgent has found an agent that answers.
func (s *State) AgentFound(found bool, err error, now time.Time) { s.stop.agentFound(found, err, now) }

// AgentAnswered takes in the answer to ShutDownGuest.
func (s *State) AgentAnswered(err error) { s.stop.agentAnswered(err) }

// Measured takes in the answer to Measure.
func (s *State) Measured(spaces map[string]Space, now time.Time) { s.disks.measured(spaces, now) }

// ServerTried takes in the answer to TryServer: an error says that there was none in
// time.
func (s *State) ServerTried(address string, err error, now time.Time) {
	s.wanted.rules.Answers(address, err, now)
}

// DiskOpened takes in the answer to OpenDisk, a file that is the State's now, or why it
// can't be opened.
func (s *State) DiskOpened(d reconcile.Drive, file *os.File, err error, now time.Time) {
	if !s.wanted.rules.Opened(d, file, err, now) && file != nil {
		s.line.do(Close{file})
	}
}

// Placed takes in the answer to Place.
func (s *State) Placed(p reconcile.Placement, err error, now time.Time) {
	if s.wanted.rules != nil {
		s.wanted.rules.Placed(p, err, now)
	}
}

// Sized takes in the sizes that disks have on the host, in bytes, by their index
// in vm.drives.
func (s *State) Sized(sizes map[int]int64) { s.wanted.sizes = sizes }

// DisksDiffer takes in what of the disks on the host isn't as configured.
func (s *State) DisksDiffer(list []vmspec.Fault) { s.wanted.differences = list }

// Configured takes in a configuration that was read.
func (s *State) Configured(r Reading) { s.wanted.read(r) }

// AwaitRestart takes in which changes await a restart of the VM, or why that is
// not known.
func (s *State) AwaitRestart(list status.Pending, err error) { s.wanted.awaitRestart(list, err) }

// Run says a command for a user, or for another part of the runner.
func (s *State) Run(to Request, c qmp.Command, now time.Time) {
	answered := false
	x := s.line.send(c, now, func(a answer, now time.Time) {
		answered = true
		delete(s.asked, to)
		s.line.answerTo(to)(a, now)
	})
	x.raw = true
	if !answered {
		s.asked[to] = x
	}
}

// Cancel forgets a request whose answer is not awaited any more. A command of Run is not
// said if it was not yet; a freeze that is not answered yet is thawed.
func (s *State) Cancel(to Request, now time.Time) {
	if x := s.asked[to]; x != nil {
		delete(s.asked, to)
		s.line.giveUp(x)
	}
	s.freeze.cancel(to, now)
}

// Pause stops the guest for a user.
func (s *State) Pause(to Request, now time.Time) { s.run.pause(to, now) }

// Resume lets the guest run again for a user, whatever it has waited for.
func (s *State) Resume(to Request, now time.Time) { s.run.resume(to, now) }

// Reset presses the reset button for a user. The answer may be a Refusal.
func (s *State) Reset(to Request, now time.Time) { s.run.reset(to, now) }

// Freeze has the guest agent freeze the guest's file systems, and thaw them when the limit is
// over, if not before. The answer is a status.FreezeAnswer.
func (s *State) Freeze(to Request, limit time.Duration, now time.Time) {
	switch {
	case s.stop.requested:
		s.line.do(Answer{To: to, Err: Refusal("the VM is being stopped")})
	case s.run.held != "":
		s.line.do(Answer{To: to, Err: s.run.held})
	case !s.run.on:
		s.line.do(Answer{To: to, Err: Refusal("the guest does not run yet")})
	default:
		s.freeze.begins(to, limit, now)
	}
}

// Thaw has them thawed now. The answer is a status.FreezeAnswer.
func (s *State) Thaw(to Request, now time.Time) { s.freeze.thawFor(to, now) }

// GuestFrozen takes in the answer to FreezeGuest: how many file systems are frozen. sent is
// false if the agent does not know of it.
func (s *State) GuestFrozen(count int, sent bool, err error, now time.Time) {
	s.freeze.frozen(count, sent, err, now)
}

// GuestThawed takes in the answer to ThawGuest.
func (s *State) GuestThawed(count int, err error, now time.Time) { s.freeze.thawed(count, err, now) }
