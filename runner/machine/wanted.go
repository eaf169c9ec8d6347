package machine

import (
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/runner/machine/reconcile"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// A Wish is what a configuration requests for a running VM.
type Wish struct {
	// Desired is for the rules of the plan. Its Sizes and NoReset are ignored.
	Desired reconcile.Desired
	// Powerdown is the guest's time for shutting down.
	Powerdown time.Duration
	// User is the user who should be logged in; "" means no user.
	User string
	// Cards are the machine's network cards, with the ports that lead to the guest.
	Cards status.Cards
}

// A Reading is the result of reading a configuration.
type Reading struct {
	// Err is why the configuration can't be used, or "". If it is set, the previous configuration stays active,
	// and Wish has no meaning.
	Err  string
	Wish Wish
	// Generation is the configuration's own; 0 if it has no generation.
	Generation int64
	// Resource is the UID of the configuration's custom resource, or "".
	Resource string
}

// wanted keeps the machine close to the active configuration. Package reconcile decides which commands are
// needed.
type wanted struct {
	*line
	keep    *keeper
	helpers *helpers
	stop    *stop
	run     *runState

	plan  plan.Rules
	rules *reconcile.Machine
	// connection counts the times that rules was created.
	connection int
	wish       Wish
	sizes      map[int]int64 // of disks on the host
	// differences describe how these disks differ from the configuration.
	differences []vmspec.Fault
	serialBase  int // passwords that were set before rules was created
	protected   bool
	cpus        int   // of a machine without a rule for them
	ram         int64 // of a machine without a rule for it, in bytes
	misplaced   []string

	// The last published and logged values, to avoid repetitions.
	facts             []status.Update
	problems, pending string
	typeFault         string // why it is unknown what a restart would change
}

// knownAgain forgets the machine's known state. After a lost connection it must be queried again.
func (w *wanted) knownAgain() {
	if w.rules != nil {
		w.serialBase += w.rules.Facts().PasswordSerial
	}
	start := reconcile.Start{Running: true, ResetCounter: w.keep.progress.ResetCounter}
	w.rules = reconcile.New(w.plan, start)
	w.connection++
	w.rules.Doubt()
}

// nextStep sends the commands that bring the machine closer to the wish. It leaves a machine alone that is being
// stopped.
func (w *wanted) nextStep(now time.Time) (wake time.Time) {
	if w.stop.began || !w.connected || w.run.held != "" {
		return time.Time{}
	}
	want := w.wish.Desired
	want.Sizes, want.NoReset = w.sizes, w.helpers.tpm.noReset()
	step := w.rules.Next(want, now)
	for _, address := range step.Servers {
		w.addAction(TryServer{address})
	}
	for _, d := range step.Opens {
		w.addAction(OpenDisk{d})
	}
	w.keepCards(step)
	w.placeThreads(step)
	w.saveFacts() // first: an action that can't be recorded could be repeated
	rules := w.rules
	for _, r := range step.Requests {
		w.sendCommand(r.Command, now, func(a answer, now time.Time) {
			if r.Command.File != nil {
				w.addAction(Close{r.Command.File})
			}
			rules.Answer(r, a.reply, a.err, now)
		})
	}
	w.publishFacts()
	w.logProblems()
	return step.Wake
}

// keepCards requests the opening and closing of taps.
func (w *wanted) keepCards(step reconcile.Step) {
	for _, macs := range step.Kept {
		w.addAction(KeepCards{macs})
	}
	for _, mac := range step.Released {
		w.addAction(ReleaseCard{mac})
	}
	for _, c := range step.Cards {
		w.addAction(OpenCard{c, w.connection})
	}
}

// placeThreads requests the placement of threads.
func (w *wanted) placeThreads(step reconcile.Step) {
	for _, p := range step.Placements {
		w.addAction(Place{p})
	}
}

// saveFacts saves the facts that another runner must know.
func (w *wanted) saveFacts() {
	facts := w.rules.Facts()
	have := &w.keep.progress
	counter, serial := facts.ResetCounter, w.serialBase+facts.PasswordSerial
	same := serial == have.PasswordSerial && (counter == nil) == (have.ResetCounter == nil)
	if same && (counter == nil || *counter == *have.ResetCounter) {
		return
	}
	have.ResetCounter, have.PasswordSerial = counter, serial
	w.keep.saveProgress()
}

// publishFacts publishes the known state in the status.
func (w *wanted) publishFacts() {
	facts := w.rules.Facts()
	cpus, ram := facts.CPUs, facts.RAM // 0: unknown
	if !w.plan.Has("cpus") {           // unchanged since the start
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
	serial := -1 // no password
	if w.protected {
		serial = w.serialBase + facts.PasswordSerial
	}
	updates := []status.Update{
		status.CPUs(cpus), status.RAM(ram), facts.Drives, facts.DrivesRevision, facts.NICs, problems,
		status.PasswordSerial(serial),
	}
	if !reflect.DeepEqual(updates, w.facts) {
		w.facts = updates
		w.publishUpdates(updates...)
	}
}

// logProblems logs the wishes that are not fulfilled, when they change.
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
		w.addLog(slog.LevelInfo, "the VM is as configured again")
		return
	}
	w.addLog(slog.LevelWarn, "the VM is not as configured", "err", text)
}

// takeReading processes a configuration. If it can be used, it becomes the active configuration.
func (w *wanted) takeReading(r Reading) {
	if r.Err != "" {
		w.publishUpdates(status.Read{Generation: w.nextGeneration(r.Generation), Error: r.Err})
		w.addLog(slog.LevelError, "the configuration cannot be used; the previous configuration stays active", "err", r.Err)
		return
	}
	generation := w.nextGeneration(r.Generation)
	w.publishUpdates(status.Read{Generation: generation, Resource: r.Resource}, status.Applied(generation))
	w.addLog(slog.LevelInfo, "configuration read")
	w.setWish(r.Wish)
}

// setWish activates a wish.
func (w *wanted) setWish(wish Wish) {
	w.wish, w.stop.timeout = wish, wish.Powerdown
	w.publishUpdates(status.WantedUser(wish.User), wish.Cards)
	w.addAction(LogIn{wish.User})
}

// nextGeneration returns the generation of a configuration that was read: its own, or the next number if it has
// no generation.
func (w *wanted) nextGeneration(own int64) int64 {
	if w.keep.progress.Generation++; own > 0 {
		w.keep.progress.Generation = own
	}
	w.keep.saveProgress()
	return w.keep.progress.Generation
}

// awaitRestart records the changes that need a restart of the VM, or why they are unknown.
func (w *wanted) awaitRestart(list status.Pending, err error) {
	if err != nil {
		w.addLog(slog.LevelWarn, "the changes that need a restart are not known", "err", err)
		w.typeFault = err.Error()
		return
	}
	w.typeFault = ""
	w.publishUpdates(list)
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
		w.addLog(slog.LevelInfo, "no change needs a restart")
		return
	}
	w.addLog(slog.LevelInfo, "changes need a restart of the VM", "paths", paths)
}

func (w *wanted) observeEvent(e qmp.Event, now time.Time) { w.rules.Observe(e, now) }
