package reconcile

import (
	"fmt"
	"time"

	"vmop/qmp"
)

// looks is the number of queries about the guest's progress, with growing pauses, within a minute. After that
// only events matter.
const looks = 7

// memoryDevice gives the guest memory and takes it back: balloon.go, virtiomem.go. All sizes are the guest's
// whole memory, in bytes.
type memoryDevice interface {
	// startValues returns the size that a just started machine gives to the guest (0: unknown), and the size that the
	// guest has.
	startValues() (told, actual int64)
	// reachableSize returns the possible size that is closest to a wish.
	reachableSize(ram int64) int64
	// setCommand returns the command that sets the size.
	setCommand(ram int64) qmp.Command
	// getCommand returns the command that queries the guest's size. readSize decodes its answer.
	getCommand() qmp.Command
	readSize(a answer) (int64, error)
	// changedSize returns the size in an event.
	changedSize(e event) (int64, bool)
	// deviceName returns the device's name for messages.
	deviceName() string
}

// ram gives the guest the wanted memory. QEMU answers immediately. The guest follows in its own time, as far as
// it can, and only with the driver. A command is effective until the next command, so it is sent once.
type ram struct {
	dialogue
	pace
	device memoryDevice
	state  *runState

	wish   int64
	goal   int64 // the possible size closest to wish
	told   int64 // the last size sent to QEMU; 0: unknown
	actual int64 // the guest's size; 0: unknown
	unsure bool  // actual may be outdated
	looked int   // queries since the guest last made progress
	best   int64 // the smallest distance from the goal so far
	fault  string
}

func newRAM(device memoryDevice, state *runState, start Start) *ram {
	r := &ram{device: device, state: state, unsure: start.Running || start.Arriving}
	if !r.unsure {
		r.told, r.actual = device.startValues()
	}
	return r
}

func (r *ram) nextStep(want *Desired, now time.Time) {
	if want.RAM <= 0 || r.isBusy() {
		return
	}
	r.wish = want.RAM
	if goal := r.device.reachableSize(r.wish); goal != r.goal {
		r.goal, r.fault, r.pace = goal, "", pace{}
		r.restartWatch()
	}
	switch {
	case !r.isReady(now):
	case r.told != r.goal:
		r.setGoal()
	case r.isWorthAsking():
		r.queryProgress()
	}
}

// isWorthAsking reports whether a query about the guest's progress is worthwhile.
func (r *ram) isWorthAsking() bool {
	return r.looked < looks && (r.unsure || r.actual != r.goal && r.state.running)
}

func (r *ram) setGoal() {
	goal := r.goal
	r.told = 0 // until there is an answer
	r.sendBatch(func(answers []answer, now time.Time) {
		if err := firstError(answers); err != nil {
			r.fault = fmt.Sprintf("set the %s: %v", r.device.deviceName(), err)
			r.delayNext(now)
			return
		}
		r.told, r.fault = goal, ""
		r.forgetFailures()
		r.pauseToLook(now)
	}, r.device.setCommand(goal))
}

// queryProgress asks for the guest's size. An event may have been lost, and a guest without a driver causes no events.
func (r *ram) queryProgress() {
	r.sendBatch(func(answers []answer, now time.Time) {
		actual, err := r.device.readSize(answers[0])
		if err != nil {
			r.fault = fmt.Sprintf("ask the %s: %v", r.device.deviceName(), err)
			r.delayNext(now)
			return
		}
		r.fault, r.unsure = "", false
		r.looked++
		r.takeActual(actual)
		r.pauseToLook(now)
	}, r.device.getCommand())
}

// pauseToLook schedules the next query, with a longer pause each time.
func (r *ram) pauseToLook(now time.Time) {
	r.lookAt(now.Add(time.Second<<min(r.looked, looks-2)), now)
}

// takeActual records the guest's size.
func (r *ram) takeActual(actual int64) {
	r.actual = actual
	if far := r.distanceToGoal(); far < r.best {
		r.best, r.looked = far, 0
	}
}

// restartWatch starts a new observation of the guest's progress.
func (r *ram) restartWatch() { r.looked, r.best = 0, r.distanceToGoal() }

func (r *ram) distanceToGoal() int64 { return max(r.actual-r.goal, r.goal-r.actual) }

func (r *ram) observeEvent(e event, _ time.Time) {
	if actual, ok := r.device.changedSize(e); ok {
		r.takeActual(actual)
		r.unsure = false
		if r.told == r.goal { // no question is open
			r.fault = ""
		}
		return
	}
	switch e.name {
	case "RESUME", "RESET": // the guest could not react before, or restarts
		r.restartWatch()
		r.hurryUp()
	}
}

func (r *ram) wakeTime() time.Time {
	if r.told != r.goal || r.isWorthAsking() {
		return r.pace.wakeTime()
	}
	return time.Time{}
}

func (r *ram) doubtState() {
	r.unsure = true
	r.restartWatch()
	r.hurryUp()
}

func (r *ram) reportFacts(f *Facts) {
	f.RAM = r.actual
	f.addProblem("vm.currentRam", r.problemText())
}

func (r *ram) problemText() string {
	switch {
	case r.fault != "":
		return r.fault
	case r.goal > r.wish:
		return fmt.Sprintf("%s are requested, but the guest always has %s", formatMiB(r.wish), formatMiB(r.goal))
	case r.looked < looks || r.told != r.goal || r.actual == r.goal:
		return ""
	}
	return fmt.Sprintf("the guest has %s instead of the %s requested, and has come no closer for a minute; "+
		"check that it loads the driver of the %s",
		formatMiB(r.actual), formatMiB(r.goal), r.device.deviceName())
}

func formatMiB(n int64) string { return fmt.Sprintf("%d MiB", n>>20) }
