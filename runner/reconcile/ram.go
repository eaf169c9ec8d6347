package reconcile

import (
	"fmt"
	"time"

	"vmop/qmp"
)

// looks is how often QEMU is asked how far the guest has come, each time after
// a longer pause: for a minute. After that only events matter.
const looks = 7

// memoryDevice is what gives the guest memory and takes it back: balloon.go,
// virtiomem.go. Sizes are those of the guest's whole memory, in bytes.
type memoryDevice interface {
	// start returns what a machine that was started a moment ago is to
	// give the guest (0: not known), and what the guest has.
	start() (told, actual int64)
	// reach returns the size next to a wish that the device can make.
	reach(ram int64) int64
	// set returns the command that tells the size to give.
	set(ram int64) qmp.Command
	// get returns the command that asks for the size the guest has; read reads
	// its answer.
	get() qmp.Command
	read(a answer) (int64, error)
	// changed returns the size that an event tells.
	changed(e event) (int64, bool)
	// name is for messages.
	name() string
}

// ram gives the guest as much memory as wanted. QEMU answers at once; the guest
// follows in its own time, as far as it can, and if it has the driver. A
// command holds until the next one, so it is sent once.
type ram struct {
	dialogue
	pace
	device memoryDevice
	state  *runState

	wish   int64
	goal   int64 // next to it
	told   int64 // what QEMU was last asked for; 0: not known
	actual int64 // what the guest has; 0: not known
	unsure bool  // whether it has that
	looked int   // how often, since the guest came nearer
	best   int64 // the smallest distance from the goal so far
	fault  string
}

func newRAM(device memoryDevice, state *runState, start Start) *ram {
	r := &ram{device: device, state: state, unsure: start.Running || start.Arriving}
	if !r.unsure {
		r.told, r.actual = device.start()
	}
	return r
}

func (r *ram) next(want *Desired, now time.Time) {
	if want.RAM <= 0 || r.busy() {
		return
	}
	r.wish = want.RAM
	if goal := r.device.reach(r.wish); goal != r.goal {
		r.goal, r.fault, r.pace = goal, "", pace{}
		r.restart()
	}
	switch {
	case !r.ready(now):
	case r.told != r.goal:
		r.set()
	case r.curious():
		r.query()
	}
}

// curious reports whether it is worth asking how far the guest has come.
func (r *ram) curious() bool {
	return r.looked < looks && (r.unsure || r.actual != r.goal && r.state.running)
}

func (r *ram) set() {
	goal := r.goal
	r.told = 0 // until there is an answer
	r.send(func(answers []answer, now time.Time) {
		if err := fault(answers); err != nil {
			r.fault = fmt.Sprintf("set the %s: %v", r.device.name(), err)
			r.failed(now)
			return
		}
		r.told, r.fault = goal, ""
		r.succeeded()
		r.pauseToLook(now)
	}, r.device.set(goal))
}

// query asks how far the guest has come: an event may have been lost, and there
// is none from a guest without a driver.
func (r *ram) query() {
	r.send(func(answers []answer, now time.Time) {
		actual, err := r.device.read(answers[0])
		if err != nil {
			r.fault = fmt.Sprintf("ask the %s: %v", r.device.name(), err)
			r.failed(now)
			return
		}
		r.fault, r.unsure = "", false
		r.looked++
		r.got(actual)
		r.pauseToLook(now)
	}, r.device.get())
}

// pauseToLook puts the next look off, longer each time.
func (r *ram) pauseToLook(now time.Time) {
	r.until(now.Add(time.Second<<min(r.looked, looks-2)), now)
}

// got takes what the guest has.
func (r *ram) got(actual int64) {
	r.actual = actual
	if far := r.distance(); far < r.best {
		r.best, r.looked = far, 0
	}
}

// restart begins a new observation of how the guest approaches the goal.
func (r *ram) restart() { r.looked, r.best = 0, r.distance() }

func (r *ram) distance() int64 { return max(r.actual-r.goal, r.goal-r.actual) }

func (r *ram) observe(e event, _ time.Time) {
	if actual, ok := r.device.changed(e); ok {
		r.got(actual)
		r.unsure = false
		if r.told == r.goal { // there is nothing left to ask
			r.fault = ""
		}
		return
	}
	switch e.name {
	case "RESUME", "RESET": // the guest had no time before, or begins anew
		r.restart()
		r.hurry()
	}
}

func (r *ram) wake() time.Time {
	if r.told != r.goal || r.curious() {
		return r.pace.wake()
	}
	return time.Time{}
}

func (r *ram) doubt() {
	r.unsure = true
	r.restart()
	r.hurry()
}

func (r *ram) report(f *Facts) {
	f.RAM = r.actual
	f.add("vm.currentRam", r.problem())
}

func (r *ram) problem() string {
	switch {
	case r.fault != "":
		return r.fault
	case r.goal > r.wish:
		return fmt.Sprintf("%s are requested, but the guest always has %s", mebibytes(r.wish), mebibytes(r.goal))
	case r.looked < looks || r.told != r.goal || r.actual == r.goal:
		return ""
	}
	return fmt.Sprintf("the guest has %s instead of the %s requested, and has come no closer for a minute; "+
		"check that it loads the driver of the %s",
		mebibytes(r.actual), mebibytes(r.goal), r.device.name())
}

func mebibytes(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
