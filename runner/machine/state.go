package machine

import (
	"encoding/json"
	"log/slog"
	"os"
	"time"

	"vmop/internal/childprocess"
	"vmop/internal/ratelimit"
	"vmop/qmp"
	"vmop/runner/machine/reconcile"
	"vmop/runner/machine/viewers"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmstatus"
	"vmop/vmtypes/plan"
)

// A Config configures a State. It does not change.
type Config struct {
	// Plan is the plan of the running machine.
	Plan *plan.Plan
	// Start is the known state of a machine that was just started. nil means that the machine was found running
	// and must be queried for everything.
	Start *reconcile.Start
	// Wish is the active wish. A machine that was started is created with it.
	Wish Wish
	// Progress is an earlier runner's progress, or the initial progress.
	Progress Progress
	// PID is QEMU's process ID.
	PID int
	// Running are the names of the running helpers.
	Running []string
	// GuestAgent is the role, among Agents, of the agent that is asked to shut the guest down.
	GuestAgent string
	Agents     []string
	// Viewer returns a viewer's name for users; nil leaves names unchanged.
	Viewer func(name string) string
	// Known reports whether the status already contains a viewer, by the name that QEMU reports; nil means no
	// viewer.
	Known func(name string) bool
	// CPUs and RAM (bytes) are the guest's resources that no rule concerns.
	CPUs int
	RAM  int64
	// Misplaced explains which processes don't run on their planned CPUs.
	Misplaced []string
	// Protected reports whether the displays have a password.
	Protected bool
	// Held is why the machine is held from the beginning, as by Hold; "" if it is not held.
	Held string
	// Grace is the time from a stop request until the runner is killed; 0 means unlimited.
	Grace time.Duration
}

// Booting is the data that is published when the guest runs.
type Booting struct {
	// Began is when the guest started to run.
	Began time.Time
	// Reason of the state; "" is the usual reason.
	Reason vmstatus.Reason
	// Resource is the UID of the configuration's custom resource, or "".
	Resource string
	// Paused reports that a user has paused the guest, which comes from another runner.
	Paused bool
}

// A State is a running VM with all decisions about it. Its methods must be called by one goroutine only.
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

	asked map[Request]*exchange // commands of Run without an answer
}

// New returns the State of a machine with a QEMU that was started or found running.
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

// Next returns what must be done at the time now.
func (s *State) Next(now time.Time) Step {
	wake := s.ending.nextStep(now)
	switch {
	case s.ending.exited:
	case !s.run.on:
		if s.line.connected {
			s.start.nextStep(now)
		}
	default:
		for _, part := range []func(time.Time) time.Time{
			s.connection.nextStep, s.helpers.nextStep, s.disks.nextStep, s.faults.nextStep, s.run.nextStep,
			s.wanted.nextStep, s.screens.nextStep,
			s.freeze.nextStep, s.stop.nextStep,
		} {
			wake = soonestOf(wake, part(now))
		}
	}
	step := Step{Actions: s.line.actions, Wake: wake}
	s.line.actions = nil
	return step
}

// Progress returns the runner's progress.
func (s *State) Progress() Progress { return s.keep.progress }

// Settled reports whether the start of the paused machine has ended, so that the guest may run.
func (s *State) Settled() bool { return s.start.done }

// Runs reports whether the guest was started. From then on Observe must receive QEMU's events.
func (s *State) Runs() bool { return s.run.on }

// Release lets the guest run for the first time, unless a user has paused the VM in the meantime. It answers when
// the guest runs.
func (s *State) Release(to Request, b Booting, now time.Time) {
	begin := func(a answer, now time.Time) {
		if a.err == nil {
			s.start.noteBegan(now)
			s.beginWith(b, now)
			s.line.publishUpdates(status.Pending{}) // it was just started with that configuration
		}
		s.line.addAction(Answer{To: to, Err: a.err})
	}
	switch {
	case s.stop.requested:
		begin(answer{err: Refusal("the VM is being stopped")}, now)
	case s.keep.progress.Paused || b.Paused:
		s.keep.setPaused(true)
		s.beginWith(b, now)
		s.line.publishUpdates(status.Pending{})
		s.line.addAction(Answer{To: to})
	default:
		s.run.continueGuest(now, begin)
	}
}

// Adopt starts with a machine that an earlier runner has left running.
func (s *State) Adopt(b Booting, now time.Time) {
	s.connection.foundRunning(now)
	s.beginWith(b, now)
}

// beginWith starts to monitor a guest that runs.
func (s *State) beginWith(b Booting, now time.Time) {
	s.run.on = true
	generation := s.keep.progress.Generation
	s.line.publishUpdates(
		status.Began(b.Began), status.Entered{State: vmstatus.StateBooting, Reason: b.Reason},
		status.Process{PID: s.run.pid, Version: s.run.version},
		status.Read{Generation: generation, Resource: b.Resource}, status.Applied(generation),
	)
	s.wanted.setWish(s.wanted.wish)
	s.helpers.reportMissing()
	s.freeze.beginFrom(now)
	s.ending.beginFrom(now)
	if s.line.connected {
		s.catchUp(now)
	}
	if s.stop.requested {
		s.stop.beginStop(s.keep.progress.Stop.Cause, now)
	}
}

// catchUp queries the state that missed events would have reported.
func (s *State) catchUp(now time.Time) {
	s.run.lookSoon(now)
	s.ports.queryPorts(now)
	s.screens.queryAgain()
}

// Connected starts a connection to QEMU. From now on commands can be sent.
func (s *State) Connected(now time.Time) {
	again := s.run.on
	s.connection.noteConnected()
	s.line.sayHeldBack(now)
	if again {
		s.wanted.knownAgain()
		s.catchUp(now)
	}
}

// Greeted reports that QEMU has accepted the connection, and its version.
func (s *State) Greeted(version string) {
	s.run.version, s.start.greeted = version, true
}

// DialFailed reports that Dial has failed.
func (s *State) DialFailed(err error, now time.Time) { s.connection.dialFailed(err, now) }

// Disconnected reports the end of the connection, and why.
func (s *State) Disconnected(err error, now time.Time) {
	if !s.line.connected {
		return
	}
	s.line.endExchanges(err, now)
	if !s.run.on { // a start can't continue without its connection
		s.line.endLine(err, now)
		s.start.endStart(err)
		return
	}
	s.connection.planReconnect(now)
}

// Reply processes the result of a command: QEMU's return value, or an error.
func (s *State) Reply(id uint64, reply json.RawMessage, err error, now time.Time) {
	s.line.handleAnswer(id, answer{reply, err}, now)
}

// Unsent reports that a command could not be sent because the connection has ended. It waits for the next
// connection.
func (s *State) Unsent(id uint64, now time.Time) { s.line.takeBack(id, now) }

// Observe processes an event of QEMU.
func (s *State) Observe(e qmp.Event, now time.Time) {
	attrs := []any{"event", e.Name}
	if len(e.Data) > 0 {
		attrs = append(attrs, "data", string(e.Data))
	}
	if e.Name == "RESUME" {
		s.line.publishUpdates(status.RunState("running"))
	}
	s.line.addLog(eventLevel(e), "QMP event", attrs...)
	s.ending.observeEvent(e, now)
	s.ports.observeEvent(e)
	if e.Name == "RESET" {
		s.line.publishUpdates(status.WasReset{})
		s.freeze.wasReset()
	}
	s.screens.observeEvent(e, now)
	s.faults.observeEvent(e, now)
	s.wanted.observeEvent(e, now)
}

// eventLevel returns the log level of an event. Events that users care about are visible, and frequent events are
// hidden.
func eventLevel(e qmp.Event) slog.Level {
	switch e.Name {
	case "SHUTDOWN", "RESET", "POWERDOWN", "STOP", "RESUME":
		return slog.LevelInfo
	case "BLOCK_JOB_ERROR", "NETDEV_STREAM_DISCONNECTED", "QUORUM_FAILURE", "QUORUM_REPORT_BAD":
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// EventsLost reports that events were lost. The missed state is queried.
func (s *State) EventsLost() {
	s.wanted.rules.Doubt()
	s.screens.queryAgain()
}

// HelperExited reports the end of a helper process.
func (s *State) HelperExited(name, exit string, now time.Time) { s.helpers.noteExit(name, exit, now) }

// HelperStarted reports the connection to the process that StartHelper has started, or why it failed.
func (s *State) HelperStarted(name string, conn *os.File, err error, now time.Time) {
	if name != s.helpers.tpm.name {
		s.helpers.noteRestart(name, err, now)
		return
	}
	s.helpers.tpm.noteReplaced(conn, err, now)
}

// QEMUExited reports the end of QEMU. Its remaining events may follow, until Disconnected or End.
func (s *State) QEMUExited(exit childprocess.Exit, now time.Time) {
	s.ending.qemuExited(exit, now)
	s.line.endLine(ErrExited, now)
}

// ErrExited is the answer to requests when QEMU has ended.
const ErrExited = Refusal("QEMU has ended")

// Stop starts to end the VM; with atOnce, without asking the guest. sinceBoot is the time since the host's start.
func (s *State) Stop(cause string, atOnce bool, sinceBoot time.Duration, now time.Time) {
	s.stop.requestStop(cause, atOnce, sinceBoot, now)
	if s.run.on && !s.stop.began && !s.ending.exited {
		s.stop.beginStop(cause, now)
	}
}

// AgentFound reports whether FindAgent has found an agent that answers.
func (s *State) AgentFound(found bool, err error, now time.Time) { s.stop.agentFound(found, err, now) }

// AgentAnswered processes the answer to ShutDownGuest.
func (s *State) AgentAnswered(err error) { s.stop.agentAnswered(err) }

// Measured processes the answer to Measure.
func (s *State) Measured(spaces map[string]Space, now time.Time) { s.disks.resumeOrWait(spaces, now) }

// ServerTried processes the answer to TryServer. An error means that the server did not answer in time.
func (s *State) ServerTried(address string, err error, now time.Time) {
	s.wanted.rules.Answers(address, err, now)
}

// DiskOpened processes the answer to OpenDisk: a file, which the State now owns, or why it can't be opened.
func (s *State) DiskOpened(d reconcile.Drive, file *os.File, err error, now time.Time) {
	if !s.wanted.rules.Opened(d, file, err, now) && file != nil {
		s.line.addAction(Close{file})
	}
}

// CardOpened processes the answer to OpenCard: descriptors, which the State now owns, or why they can't be opened.
func (s *State) CardOpened(a OpenCard, open reconcile.OpenCard, err error, now time.Time) {
	if a.Connection == s.wanted.connection && s.wanted.rules.CardOpened(a.CardWish, open, err, now) {
		return
	}
	for _, f := range open.Files() {
		s.line.addAction(Close{f})
	}
}

// Placed processes the answer to Place.
func (s *State) Placed(p reconcile.Placement, err error, now time.Time) {
	if s.wanted.rules != nil {
		s.wanted.rules.Placed(p, err, now)
	}
}

// Sized sets the sizes of disks on the host, in bytes, by their index in vm.drives.
func (s *State) Sized(sizes map[int]int64) { s.wanted.sizes = sizes }

// DisksDiffer sets how disks on the host differ from the configuration.
func (s *State) DisksDiffer(list []vmspec.Fault) { s.wanted.differences = list }

// Configured processes a configuration that was read.
func (s *State) Configured(r Reading) { s.wanted.takeReading(r) }

// AwaitRestart sets the changes that need a restart of the VM, or why they are unknown.
func (s *State) AwaitRestart(list status.Pending, err error) { s.wanted.awaitRestart(list, err) }

// Run sends a command for a user, or for another part of the runner.
func (s *State) Run(to Request, c qmp.Command, now time.Time) {
	answered := false
	x := s.line.sendCommand(c, now, func(a answer, now time.Time) {
		answered = true
		delete(s.asked, to)
		s.line.answerTo(to)(a, now)
	})
	x.raw = true
	if !answered {
		s.asked[to] = x
	}
}

// Cancel forgets a request because its answer is no longer needed. A command of Run that was not sent yet is not
// sent. A freeze that was not answered yet is thawed.
func (s *State) Cancel(to Request, now time.Time) {
	if x := s.asked[to]; x != nil {
		delete(s.asked, to)
		s.line.giveUp(x)
	}
	s.freeze.cancelFor(to, now)
}

// Pause pauses the guest for a user.
func (s *State) Pause(to Request, now time.Time) { s.run.pauseFor(to, now) }

// Resume resumes the guest for a user, regardless of what it was waiting for.
func (s *State) Resume(to Request, now time.Time) { s.run.resumeFor(to, now) }

// Reset presses the reset button for a user. The answer may be a Refusal.
func (s *State) Reset(to Request, now time.Time) { s.run.resetFor(to, now) }

// Freeze makes the guest agent freeze the guest's file systems, and thaw them after the limit or earlier. The
// answer is a status.FreezeAnswer.
func (s *State) Freeze(to Request, limit time.Duration, now time.Time) {
	switch {
	case s.stop.requested:
		s.line.addAction(Answer{To: to, Err: Refusal("the VM is being stopped")})
	case s.run.held != "":
		s.line.addAction(Answer{To: to, Err: s.run.held})
	case !s.run.on:
		s.line.addAction(Answer{To: to, Err: Refusal("the guest does not run yet")})
	default:
		s.freeze.beginFor(to, limit, now)
	}
}

// Thaw thaws the file systems now. The answer is a status.FreezeAnswer.
func (s *State) Thaw(to Request, now time.Time) { s.freeze.thawFor(to, now) }

// GuestFrozen processes the answer to FreezeGuest: the number of frozen file systems. sent is false if the agent
// did not receive the request.
func (s *State) GuestFrozen(count int, sent bool, err error, now time.Time) {
	s.freeze.noteFrozen(count, sent, err, now)
}

// GuestThawed processes the answer to ThawGuest.
func (s *State) GuestThawed(count int, err error, now time.Time) {
	s.freeze.noteThawed(count, err, now)
}
