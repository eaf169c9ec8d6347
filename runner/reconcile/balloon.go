package reconcile

import (
	"fmt"
	"time"

	"vmop/runner/qmp"
	"vmop/vmtypes/plan"
)

// looks is how often QEMU is asked how far the guest has come, each time after
// a longer pause: for a minute. After that only events matter.
const looks = 7

// balloon sets what the guest may keep. QEMU answers at once; the guest follows
// in its own time, as far as it can, and if it has the driver. QEMU refuses 0
// and silently clamps what is above the machine's memory, so the rule's maximum
// is the bound here.
type balloon struct {
	dialogue
	pace
	rule  plan.Balloon
	state *runState

	goal   int64
	told   int64 // what QEMU was told; 0: not known
	actual int64 // what the guest has; 0: not known
	unsure bool  // whether it has that
	looked int   // how often, since the guest came nearer
	best   int64 // the smallest distance from the goal so far
	fault  string
}

func newBalloon(r plan.Balloon, state *runState, start Start) *balloon {
	b := &balloon{rule: r, state: state, unsure: start.Running}
	if !start.Running {
		b.told, b.actual = r.Maximum, r.Maximum
	}
	return b
}

func (b *balloon) next(want *Desired, now time.Time) {
	goal := min(want.RAM, b.rule.Maximum)
	if goal <= 0 || b.busy() {
		return
	}
	if goal != b.goal {
		b.goal, b.fault, b.pace = goal, "", pace{}
		b.restart()
	}
	switch {
	case !b.ready(now):
	case b.told != b.goal:
		b.inflate()
	case b.curious():
		b.look()
	}
}

// curious says that it is worth asking how far the guest has come.
func (b *balloon) curious() bool {
	return b.looked < looks && (b.unsure || b.actual != b.goal && b.state.running)
}

func (b *balloon) inflate() {
	goal := b.goal
	b.told = 0 // until there is an answer
	b.say(func(answers []answer, now time.Time) {
		if err := fault(answers); err != nil {
			b.fault = fmt.Sprintf("set the balloon: %v", err)
			b.failed(now)
			return
		}
		b.told, b.fault = goal, ""
		b.succeeded()
		b.pauseToLook(now)
	}, qmp.Command{Execute: "balloon", Arguments: map[string]any{"value": goal}})
}

// look asks how far the guest has come: an event may have been lost, and there
// is none from a guest without a driver.
func (b *balloon) look() {
	b.say(func(answers []answer, now time.Time) {
		var info struct{ Actual int64 }
		if err := answers[0].decode(&info); err != nil {
			b.fault = fmt.Sprintf("ask the balloon: %v", err)
			b.failed(now)
			return
		}
		b.fault, b.unsure = "", false
		b.looked++
		b.set(info.Actual)
		b.pauseToLook(now)
	}, qmp.Command{Execute: "query-balloon"})
}

// pauseToLook puts the next look off, longer each time.
func (b *balloon) pauseToLook(now time.Time) {
	b.until(now.Add(time.Second<<min(b.looked, looks-2)), now)
}

// set takes what the guest has.
func (b *balloon) set(actual int64) {
	b.actual = actual
	if far := b.distance(); far < b.best {
		b.best, b.looked = far, 0
	}
}

// restart begins a new observation of how the guest approaches the goal.
func (b *balloon) restart() { b.looked, b.best = 0, b.distance() }

func (b *balloon) distance() int64 { return max(b.actual-b.goal, b.goal-b.actual) }

func (b *balloon) observe(e event, _ time.Time) {
	switch e.name {
	case "BALLOON_CHANGE":
		if e.data.Actual > 0 {
			b.set(e.data.Actual)
		}
	case "RESUME", "RESET": // the guest had no time before, or begins anew
		b.restart()
		b.hurry()
	}
}

func (b *balloon) wake() time.Time {
	if b.told != b.goal || b.curious() {
		return b.pace.wake()
	}
	return time.Time{}
}

func (b *balloon) doubt() {
	b.unsure = true
	b.restart()
	b.hurry()
}

func (b *balloon) tell(f *Facts) {
	f.RAM = b.actual
	f.add("vm.currentRam", b.problem())
}

func (b *balloon) problem() string {
	switch {
	case b.fault != "":
		return b.fault
	case b.looked < looks || b.told != b.goal || b.actual == b.goal:
		return ""
	}
	return fmt.Sprintf("the guest has %s, %s are wanted; it has not come nearer for a minute (is its balloon driver loaded, and can it do with that?)",
		mebibytes(b.actual), mebibytes(b.goal))
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
