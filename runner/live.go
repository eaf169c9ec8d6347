package runner

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/runner/config"
	"vmop/runner/reconcile"
	"vmop/runner/status"
	"vmop/vmspec"
)

// live keeps a running machine near its configuration: it observes, asks
// package reconcile what to do, does it, and observes again. One goroutine runs
// it, from the guest's start to QEMU's end.
type live struct {
	m       *machine
	source  *config.Source
	wanted  *VM         // what the configuration says now
	heard   chan func() // what comes back from QEMU, for the loop to take in
	others  []follower
	types   *typeWatch
	sizes   map[int]int64       // of disks on the host; see diskSizes
	look    chan []vmspec.Drive // asks for them
	last    *shutdown           // QEMU's last word
	dropped uint64
	// unsure: the guest may never have been let run.
	unsure bool
	// overdue counts the answers that QEMU owes for too long.
	overdue int
	// serialBase counts the passwords that were set before m.live was made.
	serialBase int
	// What was told last, so that it is told once.
	fault, problems, pending string
	// typeFault is why nobody knows what a restart would change.
	typeFault string
}

func newLive(m *machine) *live {
	return &live{
		m: m, source: config.NewSource(m.file, m.vm.Config), wanted: m.vm, heard: make(chan func()), look: make(chan []vmspec.Drive, 1),
		others: followers(m), types: newTypeWatch(m.log), serialBase: m.progress.PasswordSerial,
	}
}

// run returns QEMU's last SHUTDOWN, when QEMU has ended.
func (l *live) run(ctx context.Context) *shutdown {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer l.m.monitor.leave()
	changed := config.Watch(ctx, l.m.log, l.m.file)
	sizes := newDiskSizes(l.m.vm, l.m.log).watch(ctx, l.look)
	session := l.m.monitor.current()
	if session == nil { // the machine is adopted
		l.resume(ctx)
	}
	for _, f := range l.others {
		f.wanted(ctx, l.wanted)
	}
	l.types.look(ctx, l.m.vmTypes, l.wanted.Config.VMType)
	for {
		if session == nil || session.Err() != nil {
			if session = l.reconnect(ctx); session == nil {
				return l.last
			}
		}
		l.follow(ctx, session, changed, sizes)
	}
}

// follow keeps the machine near its configuration as long as the session
// lasts.
func (l *live) follow(ctx context.Context, session *qmp.Session, changed <-chan struct{}, sizes <-chan map[int]int64) {
	lasting, cancel := context.WithCancel(ctx) // as long as the session
	defer cancel()
	defer func() { l.late(-l.overdue) }()
	wake := time.NewTimer(0)
	defer wake.Stop()
	beat := time.NewTicker(beatTime)
	defer beat.Stop()
	for _, f := range l.others {
		f.attached(ctx)
	}
	l.beat(lasting, session)
	for {
		l.act(lasting, session, wake)
		select {
		case e, ok := <-session.Events():
			if !ok {
				return
			}
			l.observe(ctx, session, e)
		case hear := <-l.heard:
			hear()
		case l.sizes = <-sizes:
		case _, ok := <-changed:
			if !ok {
				changed = nil
				continue
			}
			l.reload(ctx)
		case <-l.types.changed:
			l.typeChanged(ctx)
		case <-l.m.service.alive:
		case <-l.m.reread:
			l.m.log.Info("told to read the configuration again")
			l.m.service.reloading(func() { l.reload(ctx) })
		case <-beat.C:
			l.beat(lasting, session)
		case <-wake.C:
		case <-l.m.qemu.Done():
			// QEMU's end closes the monitor; a monitor that is kept open by
			// somebody else must not keep the runner.
			l.drain(ctx, session)
			return
		}
	}
}

// drain takes in the last events of a QEMU that has ended.
func (l *live) drain(ctx context.Context, session *qmp.Session) {
	late := time.After(endTime)
	for {
		select {
		case e, ok := <-session.Events():
			if !ok {
				return
			}
			l.observe(ctx, session, e)
		case <-late:
			_ = session.Close()
			return
		}
	}
}

// act sends what brings the machine nearer to what is wanted. A machine that
// is being stopped is left alone.
func (l *live) act(ctx context.Context, session *qmp.Session, wake *time.Timer) {
	if l.m.stopping.Load() {
		return
	}
	now := time.Now()
	want := l.wanted.desired(l.m.vm)
	want.Sizes = l.sizes
	want.NoReset = l.m.hold.noReset()
	step := l.m.live.Next(want, now)
	l.noteFacts() // before it is done: what can't be told to have been done must not be done twice
	for _, r := range step.Requests {
		l.ask(ctx, session, r.Command, func(reply json.RawMessage, err error) {
			l.m.live.Answer(r, reply, err, time.Now())
		})
	}
	if !step.Wake.IsZero() {
		wake.Reset(step.Wake.Sub(now))
	}
	l.tellFacts()
	l.logProblems()
}

// noteFacts keeps what another runner must know.
func (l *live) noteFacts() {
	facts := l.m.live.Facts()
	counter, serial := facts.ResetCounter, l.serialBase+facts.PasswordSerial
	have := &l.m.progress // only this goroutine changes these two
	same := serial == have.PasswordSerial && (counter == nil) == (have.ResetCounter == nil)
	if same && (counter == nil || *counter == *have.ResetCounter) {
		return
	}
	l.m.noteProgress(func(p *progress) { p.ResetCounter, p.PasswordSerial = counter, serial })
}

// tellFacts puts what is true into the status.
func (l *live) tellFacts() {
	facts := l.m.live.Facts()
	cpus, ram := facts.CPUs, facts.RAM // 0: not known yet
	rules := l.m.vm.Plan.Rules
	if !rules.Has("cpus") { // they are as they were
		cpus = l.m.vm.Spec.CurrentCPUs
	}
	if !rules.Has("balloon") && !rules.Has("memory") {
		ram = int64(l.m.vm.Spec.MaximumRAM)
	}
	problems := make(status.Problems, len(facts.Problems))
	for i, p := range facts.Problems {
		problems[i] = status.Problem{Path: p.Path, Message: p.Message}
	}
	if l.typeFault != "" {
		problems = append(problems, status.Problem{Path: "vmType", Message: "the VM could not be started again, and what a restart would change is not known: " + l.typeFault})
	}
	l.m.tell(status.CPUs(cpus), status.RAM(ram), problems, status.PasswordSerial(l.serial(facts)))
}

// serial counts the passwords that were set; -1 means that there is none.
func (l *live) serial(facts reconcile.Facts) int {
	if !l.m.vm.protected {
		return -1
	}
	return l.serialBase + facts.PasswordSerial
}

// observe takes note of an event, and tells people of those that matter.
func (l *live) observe(ctx context.Context, session *qmp.Session, e qmp.Event) {
	attrs := []any{"event", e.Name}
	if len(e.Data) > 0 {
		attrs = append(attrs, "data", string(e.Data))
	}
	l.m.server.Event(e)
	if e.Name == "RESUME" {
		l.m.tell(status.RunState("running"))
	}
	l.m.log.Log(ctx, eventLevel(e), "QMP event", attrs...)
	if e.Name == "SHUTDOWN" {
		var s shutdown
		if err := json.Unmarshal(e.Data, &s); err == nil {
			l.last = &s
		}
		go l.m.nudge(ctx)
	}
	for _, f := range l.others {
		f.observe(ctx, e)
	}
	if dropped := session.Dropped(); dropped != l.dropped {
		l.dropped = dropped
		l.m.live.Doubt()
	}
	l.m.live.Observe(e, time.Now())
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

// reload reads the configuration and what is beside it. What has faults changes
// nothing: the configuration before stays in force.
func (l *live) reload(ctx context.Context) {
	defer l.lookAtDisks()
	changed, err := l.source.Reload()
	var next *VM
	if err == nil {
		next, err = l.m.vm.renewed(l.source.Config())
	}
	if err == nil {
		err = l.m.checkWanted(ctx, next)
	}
	if err != nil {
		if text := err.Error(); text != l.fault {
			l.fault = text
			l.m.tell(status.Read{Generation: l.m.nextGeneration(l.source.Generation()), Error: text})
			l.m.log.Error("the configuration cannot be used; the one before stays in force", "err", text)
		}
		return
	}
	if !changed && l.fault == "" && samePassword(next.password, l.wanted.password) {
		return
	}
	l.fault = ""
	l.m.keepConfig(l.source.Config())
	generation := l.m.nextGeneration(l.source.Generation())
	l.m.tell(status.Read{Generation: generation, Resource: l.source.Config().Resource}, status.Applied(generation))
	l.m.log.Info("configuration read")
	l.want(ctx, next)
}

// lookAtDisks has the sizes of the disks looked at. What was wanted before is
// wanted no more.
func (l *live) lookAtDisks() {
	select {
	case <-l.look:
	default:
	}
	l.look <- l.wanted.Spec.Drives
}

// want makes a configuration the one in force.
func (l *live) want(ctx context.Context, next *VM) {
	l.wanted = next
	l.m.setPowerdownTimeout(next.powerdownTimeout())
	l.types.look(ctx, l.m.vmTypes, next.Config.VMType)
	for _, f := range l.others {
		f.wanted(ctx, next)
	}
	l.tellPending(ctx)
}

// resume goes on with the configuration that was in force when the earlier
// runner was killed, and then reads the file, which may be another now.
func (l *live) resume(ctx context.Context) {
	l.unsure = true
	last := l.m.keptConfig()
	next, err := l.m.vm.renewed(last)
	if err != nil {
		l.m.log.Warn("what the VM was to be when its runner was killed is not known", "err", err)
		next = l.wanted
	}
	l.source = config.NewSource(l.m.file, last)
	l.want(ctx, next)
	l.reload(ctx)
}

// logProblems logs what cannot be as it is wanted, when that changes.
func (l *live) logProblems() {
	var lines []string
	for _, p := range l.m.live.Facts().Problems {
		lines = append(lines, p.Path+": "+p.Message)
	}
	text := strings.Join(lines, "; ")
	if text == l.problems {
		return
	}
	l.problems = text
	if text == "" {
		l.m.log.Info("the machine is as wanted again")
		return
	}
	l.m.log.Warn("the machine is not as wanted", "err", text)
}

// tellPending tells which changes await a restart of the VM.
func (l *live) tellPending(ctx context.Context) {
	list, err := l.m.pendingChanges(ctx, l.wanted)
	if err != nil {
		l.m.log.Warn("changes that await a restart are not known", "err", err)
		l.typeFault = err.Error()
		l.tellFacts()
		return
	}
	if l.typeFault != "" {
		l.typeFault = ""
		l.tellFacts()
	}
	l.m.tell(status.Pending(list))
	var paths []string
	for _, c := range list {
		paths = append(paths, c.Path)
	}
	slices.Sort(paths)
	text := strings.Join(paths, ", ")
	if text == l.pending {
		return
	}
	l.pending = text
	if text == "" {
		l.m.log.Info("no change awaits a restart")
		return
	}
	l.m.log.Info("changes await a restart of the VM", "paths", paths)
}

// renewed returns the VM as another configuration wants it. The plan is not
// computed.
func (vm *VM) renewed(cfg *config.Config) (*VM, error) {
	next, err := newVM(cfg, vm.folder)
	if err != nil {
		return nil, err
	}
	if cfg.VM.Name != vm.Config.VM.Name {
		return nil, cfg.Locate([]vmspec.Fault{{Path: "vm.name", Message: "is the VM's identity: it cannot change while the VM runs; stop the VM first"}})
	}
	if err = next.resolve(vm.DataDir, false); err != nil {
		return nil, err
	}
	return next, next.readSecrets(vm.folder, "") // without one, the old one holds
}

func samePassword(a, b *reconcile.Password) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Text.Equal(b.Text) && a.Expiry == b.Expiry
}
