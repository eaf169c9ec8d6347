package reconcile

import (
	"fmt"
	"time"

	"vmop/vmtypes/plan"
)

// link connects a network card that the machine was started with to its network, or disconnects it. QEMU doesn't
// report the state of a link, so it is set again after an interrupted connection.
type link struct {
	dialogue
	pace
	rule    plan.Link
	known   bool
	up      bool
	problem string
}

func newLink(r plan.Link, start Start) *link {
	return &link{rule: r, known: !start.Running && !start.Arriving, up: true}
}

func (l *link) nextStep(want *Desired, now time.Time) {
	up, given := want.Links[l.rule.Network]
	if !given || l.isBusy() || !l.isReady(now) {
		return
	}
	if l.known && l.up == up {
		l.problem = ""
		return
	}
	l.sendBatch(func(answers []answer, now time.Time) {
		if err := firstError(answers); err != nil {
			l.problem = fmt.Sprintf("set the link %s: %v", linkWord(up), err)
			l.delayNext(now)
			return
		}
		l.known, l.up, l.problem = true, up, ""
		l.forgetFailures()
	}, linkCommand(l.rule.Device, up))
}

// linkWord returns the word for a link state in the configuration.
func linkWord(up bool) string {
	if up {
		return "up"
	}
	return "down"
}

func (l *link) observeEvent(event, time.Time) {}
func (l *link) doubtState()                   {}

func (l *link) reportFacts(f *Facts) {
	f.addProblem(fmt.Sprintf("vm.network[%d].link", l.rule.Network), l.problem)
}
