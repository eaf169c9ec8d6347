package machine

import (
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/runner/reconcile"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// A Wish is what a configuration wants of a running VM.
type Wish struct {
	// Desired is for the rules of the plan. Sizes and NoReset are not taken from
	// it.
	Desired reconcile.Desired
	// Powerdown is what the guest has for shutting down.
	Powerdown time.Duration
	// User is to be logged in; "" is none.
	User string
	// Cards are those of the machine, with the ports that lead to the guest.
	Cards status.Cards
}

// A Reading is what became of reading a configuration.
type Reading struct {
	// Err says why it cannot be used; empty if it can. Then the one before stays in
	// force, and Wish means nothing.
	Err  string
	Wish Wish
	// Generation is the configuration's own; 0 if it has none.
	Generation int64
	// Resource that it was made of; "" if it was not.
	Resource string
}

// wanted keeps the machine near the configuration in force. Package reconcile
// decides which commands bring it nearer.
type wanted struct {
	*line
	keep    *keeper
	helpers *helpers
	stop    *stop
	run     *runState

	plan  plan.Rules
	rules *reconcile.Machine
	wish  Wish
	sizes map[int]int64 // of disks on the host
	// differences are what of these disks isn't as configured.
	differences []vmspec.Fault
	serialBase  int // passwords that were set before rules was made
	protected   bool
	cpus        int   // of a machine without a rule for them
	ram         int64 // likewise, in bytes
	misplaced   []string

	// What was published or logged last, so that it is not repeated.
	facts             []status.Update
	problems, pending string
	typeFault         string // why it is not known what a restart would change
}

// knownAgain forgets what is known of the machine: after a connection was lost it
// has to be asked for.
func (w *wanted) knownAgain() {
	if w.rules != nil {
		w.serialBase += w.rules.Facts().PasswordSerial
	}
	start := reconcile.Start{Running: true, ResetCounter: w.keep.progress.ResetCounter}
	w.rules = reconcile.New(w.plan, start)
	w.rules.Doubt()
}

// next says what brings the machine nearer to what is wanted. A machine that is
// being stopped is left alone.
func (w *wanted) next(now time.Time) (wake time.Time) {
	if w.stop.began || !w.connected || w.run.held != "" {
		return time.Time{}
	}
	want := w.wish.Desired
	want.Sizes, want.NoReset = w.sizes, w.helpers.tpm.noReset()
	step := w.rules.Next(want, now)
	for _, address := range step.Servers {
		w.do(TryServer{address})
	}
	for _, d := range step.Opens {
		w.do(OpenDisk{d})
	}
	w.place(step)
	w.saveFacts() // first: what cannot be recorded as done must not be done twice
	rules := w.rules
	for _, r := range step.Requests {
		w.send(r.Command, now, func(a answer, now time.Time) {
			if r.Command.File != nil {
				w.do(Close{r.Command.File})
			}
			rules.Answer(r, a.reply, a.err, now)
		})
	}
	w.publishFacts()
	w.logProblems()
	return step.Wake
}

// place has threads run where they are to.
func (w *wanted) place(step reconcile.Step) {
	for _, p := range step.Placements {
		w.do(Place{p})
	}
}

// saveFacts keeps what another runner must know.
func (w *wanted) saveFacts() {
	facts := w.rules.Facts()
	have := &w.keep.progress
	counter, serial := facts.ResetCounter, w.serialBase+facts.PasswordSerial
	same := serial == have.PasswordSerial && (counter == nil) == (have.ResetCounter == nil)
	if same && (counter == nil || *counter == *have.ResetCounter) {
		return
	}
	have.ResetCounter, have.PasswordSerial = counter, serial
	w.keep.save()
}

// publishFacts puts what is true into the status.
func (w *wanted) publishFacts() {
	facts := w.rules.Facts()
	cpus, ram := facts.CPUs, facts.RAM // 0: not known yet
	if !w.plan.Has("cpus") {           // they are as they were
		cpus = w.cpus
	}
	if !w.plan.Has("balloon") && !w.plan.Has("memory") {
		ram = w.ram
	}
	problems := make(status.Problems, len(facts.Problems))
	for i, p := range facts.Problems {
		problems[i] = status.Problem{Path: p.Path, Message: p.Message}
	}
	for _, text := range w.misplaced {
		problems = append(problems, status.Problem{Path: "vmType", Message: text})
	}
	for _, d := range w.differences {
		problems = append(problems, status.Problem{Path: d.Path, Message: d.Message})
	}
	if w.typeFault != "" {
		const text = "the VM could not be started again, and what a restart would change is not known: "
		problems = append(problems, status.Problem{Path: "vmType", Message: text + w.typeFault})
	}
	serial := -1 // there is no password
	if w.protected {
		serial = w.serialBase + facts.PasswordSerial
	}
	updates := []status.Update{
		status.CPUs(cpus), status.RAM(ram), facts.Drives, facts.DrivesRevision, problems, status.PasswordSerial(serial),
	}
	if !reflect.DeepEqual(updates, w.facts) {
		w.facts = updates
		w.publish(updates...)
	}
}

// logProblems logs what cannot be as it is wanted, when that changes.
func (w *wanted) logProblems() {
	var lines []string
	for _, p := range w.rules.Facts().Problems {
		lines = append(lines, p.Path+": "+p.Message)
	}
	for _, d := range w.differences {
		lines = append(lines, d.Path+": "+d.Message)
	}
	text := strings.Join(lines, "; ")
	if text == w.problems {
		return
	}
	w.problems = text
	if text == "" {
		w.log(slog.LevelInfo, "the VM is as configured again")
		return
	}
	w.log(slog.LevelWarn, "the VM is not as configured", "err", text)
}

// read takes in a configuration, which is in force from now on if it can be used.
func (w *wanted) read(r Reading) {
	if r.Err != "" {
		w.publish(status.Read{Generation: w.nextGeneration(r.Generation), Error: r.Err})
		w.log(slog.LevelError, "the configuration cannot be used; the one before stays in force", "err", r.Err)
		return
	}
	generation := w.nextGeneration(r.Generation)
	w.publish(status.Read{Generation: generation, Resource: r.Resource}, status.Applied(generation))
	w.log(slog.LevelInfo, "configuration read")
	w.want(r.Wish)
}

// want makes a wish the one in force.
func (w *wanted) want(wish Wish) {
	w.wish, w.stop.timeout = wish, wish.Powerdown
	w.publish(status.WantedUser(wish.User), wish.Cards)
	w.do(LogIn{wish.User})
}

// nextGeneration returns the generation of a configuration that was read: its
// own, or the next number if it has none.
func (w *wanted) nextGeneration(own int64) int64 {
	if w.keep.progress.Generation++; own > 0 {
		w.keep.progress.Generation = own
	}
	w.keep.save()
	return w.keep.progress.Generation
}

// awaitRestart takes in which changes await a restart of the VM, or why that is
// not known.
func (w *wanted) awaitRestart(list status.Pending, err error) {
	if err != nil {
		w.log(slog.LevelWarn, "the changes that await a restart are not known", "err", err)
		w.typeFault = err.Error()
		return
	}
	w.typeFault = ""
	w.publish(list)
	var paths []string
	for _, c := range list.Changes {
		paths = append(paths, c.Path)
	}
	slices.Sort(paths)
	text := strings.Join(paths, ", ")
	if text == w.pending {
		return
	}
	w.pending = text
	if text == "" {
		w.log(slog.LevelInfo, "no change awaits a restart")
		return
	}
	w.log(slog.LevelInfo, "changes await a restart of the VM", "paths", paths)
}

func (w *wanted) observe(e qmp.Event, now time.Time) { w.rules.Observe(e, now) }
