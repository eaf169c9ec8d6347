package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/vmtypes/plan"
)

// A Placement is the request to run a thread of QEMU only on some CPUs of the host.
type Placement struct {
	Thread int
	CPUs   []int
}

// affinity pins the guest's CPUs to the host CPUs that are meant for them. QEMU knows the thread of each CPU. A
// plugged CPU has a new thread, which starts with the affinity of another thread, so QEMU is queried again after
// each change. Threads keep their affinity even if the runner ends.
//
// See docs/decisions/0059-affinity.md.
type affinity struct {
	dialogue
	pace
	rule plan.Affinity
	cpus *cpus // nil if the guest's CPUs don't change

	known   bool
	seen    int         // cpus.changes at the last query
	placed  map[int]int // correctly placed threads, by index of the guest's CPU
	asked   []Placement // not in a Step yet
	waiting map[int]int // threads with a missing answer, by index of the guest's CPU
	faults  []string    // errors in the answers
	problem string
}

func newAffinity(r plan.Affinity) *affinity { return &affinity{rule: r, placed: map[int]int{}} }

func (a *affinity) nextStep(_ *Desired, now time.Time) {
	if a.cpus != nil {
		if a.cpus.isBusy() {
			return
		}
		if a.cpus.changes != a.seen {
			a.seen, a.known, a.pace = a.cpus.changes, false, pace{}
		}
	}
	if a.known || a.isBusy() || len(a.waiting) > 0 || !a.isReady(now) {
		return
	}
	a.known = true
	a.sendBatch(a.compareAffinity, qmp.Command{Execute: "query-cpus-fast"})
}

// compareAffinity requests placements for the threads that are not placed correctly.
func (a *affinity) compareAffinity(answers []answer, now time.Time) {
	var threads []struct {
		Index  int `json:"cpu-index"`
		Thread int `json:"thread-id"`
	}
	if err := answers[0].decodeInto(&threads); err != nil {
		a.failRound("ask for the threads of the guest's CPUs: "+err.Error(), now)
		return
	}
	there := map[int]int{}
	a.waiting, a.faults = map[int]int{}, nil
	for _, t := range threads {
		if t.Index < 0 || t.Index >= len(a.rule.CPUs) || len(a.rule.CPUs[t.Index]) == 0 {
			continue
		}
		there[t.Index] = t.Thread
		if a.placed[t.Index] != t.Thread {
			a.waiting[t.Index] = t.Thread
			a.asked = append(a.asked, Placement{t.Thread, a.rule.CPUs[t.Index]})
		}
	}
	for index, thread := range a.placed {
		if there[index] != thread {
			delete(a.placed, index)
		}
	}
	a.finishRound(now)
}

func (a *affinity) drainPlacements() []Placement {
	asked := a.asked
	a.asked = nil
	return asked
}

// placedThread processes the result of a Placement.
func (a *affinity) placedThread(p Placement, err error, now time.Time) {
	for index, thread := range a.waiting {
		if thread != p.Thread || !slices.Equal(a.rule.CPUs[index], p.CPUs) {
			continue
		}
		delete(a.waiting, index)
		if err == nil {
			a.placed[index] = thread
		} else {
			a.faults = append(a.faults, fmt.Sprintf("the guest's CPU %d does not run on %s of the host alone: %s", index,
				plan.CPUList(p.CPUs), err))
		}
		a.finishRound(now)
		return
	}
}

// finishRound records the result when all answers have arrived.
func (a *affinity) finishRound(now time.Time) {
	if len(a.waiting) > 0 {
		return
	}
	if len(a.faults) == 0 {
		a.problem = ""
		a.forgetFailures()
		return
	}
	slices.Sort(a.faults)
	a.failRound(strings.Join(a.faults, "; "), now)
}

func (a *affinity) failRound(problem string, now time.Time) {
	a.problem, a.known = problem, false
	a.delayNext(now)
}

func (a *affinity) observeEvent(event, time.Time) {}
func (a *affinity) doubtState()                   {}
func (a *affinity) reportFacts(f *Facts)          { f.addProblem("vmType", a.problem) }
