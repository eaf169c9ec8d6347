package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/vmtypes/plan"
)

// A Placement is the wish that a thread of QEMU runs on some CPUs of the host only.
type Placement struct {
	Thread int
	CPUs   []int
}

// affinity has the guest's CPUs run on those of the host that are meant for them. QEMU
// knows the thread of each. One that is plugged has a new thread, which begins with the
// affinity of another: so QEMU is asked again after each change. Threads keep what they
// were given, whatever becomes of the runner.
//
// See docs/decisions/0059-affinity.md.
type affinity struct {
	dialogue
	pace
	rule plan.Affinity
	cpus *cpus // nil if the guest's CPUs don't change

	known   bool
	seen    int         // of the changes of cpus
	placed  map[int]int // thread of each of the guest's CPUs that is where it is to be
	asked   []Placement // that were not asked for by a Step yet
	waiting map[int]int // thread of each of the guest's CPUs whose answer is missing
	faults  []string    // of answers
	problem string
}

func newAffinity(r plan.Affinity) *affinity { return &affinity{rule: r, placed: map[int]int{}} }

func (a *affinity) next(_ *Desired, now time.Time) {
	if a.cpus != nil {
		if a.cpus.busy() {
			return
		}
		if a.cpus.changes != a.seen {
			a.seen, a.known, a.pace = a.cpus.changes, false, pace{}
		}
	}
	if a.known || a.busy() || len(a.waiting) > 0 || !a.ready(now) {
		return
	}
	a.known = true
	a.send(a.compare, qmp.Command{Execute: "query-cpus-fast"})
}

// compare asks for what is not as it is to be.
func (a *affinity) compare(answers []answer, now time.Time) {
	var threads []struct {
		Index  int `json:"cpu-index"`
		Thread int `json:"thread-id"`
	}
	if err := answers[0].decode(&threads); err != nil {
		a.fail("ask for the threads of the guest's CPUs: "+err.Error(), now)
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
	a.finish(now)
}

func (a *affinity) drainPlacements() []Placement {
	asked := a.asked
	a.asked = nil
	return asked
}

// placedThread takes in what became of a Placement.
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
		a.finish(now)
		return
	}
}

// finish notes the result when all answers are there.
func (a *affinity) finish(now time.Time) {
	if len(a.waiting) > 0 {
		return
	}
	if len(a.faults) == 0 {
		a.problem = ""
		a.succeeded()
		return
	}
	slices.Sort(a.faults)
	a.fail(strings.Join(a.faults, "; "), now)
}

func (a *affinity) fail(problem string, now time.Time) {
	a.problem, a.known = problem, false
	a.failed(now)
}

func (a *affinity) observe(event, time.Time) {}
func (a *affinity) doubt()                   {}
func (a *affinity) report(f *Facts)          { f.add("vmType", a.problem) }
