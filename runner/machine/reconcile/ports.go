package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/runner/machine/usernet"
	"vmop/vmtypes/plan"
)

// ports forwards exactly the wanted host ports of a user network, in addition to the temporary ports of
// runner/control. It closes ports that a killed runner has left.
type ports struct {
	dialogue
	pace
	rule plan.Ports

	want    []usernet.Forward // the last ports that were tried
	have    []usernet.Forward
	known   bool // have is up to date
	found   bool // an earlier runner may have left temporary ports
	problem string
}

func newPorts(r plan.Ports, start Start) *ports {
	have, given := start.Ports[r.Network]
	return &ports{rule: r, have: have, known: given && !start.Running, found: start.Running}
}

func (p *ports) nextStep(want *Desired, now time.Time) {
	forwards, given := want.Ports[p.rule.Network]
	if !given || p.isBusy() {
		return
	}
	if !slices.Equal(forwards, p.want) {
		p.want, p.problem, p.pace = forwards, "", pace{}
	}
	if !p.isReady(now) {
		return
	}
	if !p.known {
		p.queryPorts()
		return
	}
	surplus, missing := withoutForwards(p.have, p.want), withoutForwards(p.want, p.have)
	if len(surplus) == 0 && len(missing) == 0 {
		p.problem = ""
		p.forgetFailures()
		return
	}
	p.changePorts(surplus, missing)
}

// withoutForwards returns the elements of list that are not in other.
func withoutForwards(list, other []usernet.Forward) []usernet.Forward {
	return slices.DeleteFunc(slices.Clone(list), func(f usernet.Forward) bool { return slices.Contains(other, f) })
}

// queryPorts asks for the forwarded ports.
func (p *ports) queryPorts() {
	p.sendBatch(func(answers []answer, now time.Time) {
		said, err := answers[0].monitorOutput()
		forwards, is := usernet.Parse(said)[p.rule.Netdev]
		if err == nil && !is {
			err = fmt.Errorf("QEMU has no user network %s", p.rule.Netdev)
		}
		if err != nil {
			p.noteFailure(err, now)
			return
		}
		p.have = slices.DeleteFunc(forwards, func(f usernet.Forward) bool {
			return !p.found && f.Address == usernet.Temporary
		})
		p.known, p.found = true, false
	}, usernet.List())
}

// changePorts closes ports first, because the guest port behind a host port may have changed.
func (p *ports) changePorts(surplus, missing []usernet.Forward) {
	var commands []qmp.Command
	for _, f := range surplus {
		commands = append(commands, usernet.Remove(p.rule.Netdev, f))
	}
	for _, f := range missing {
		commands = append(commands, usernet.Add(p.rule.Netdev, f))
	}
	p.sendBatch(func(answers []answer, now time.Time) {
		var errs []error
		for i, a := range answers {
			said, err := a.monitorOutput()
			switch {
			case err == nil && i < len(surplus) && !usernet.Removed(said),
				err == nil && i >= len(surplus) && said != "":
				err = errors.New(said)
			case err == nil && i < len(surplus):
				p.have = withoutForwards(p.have, surplus[i:i+1])
			case err == nil:
				p.have = append(p.have, missing[i-len(surplus)])
			}
			if err != nil {
				errs = append(errs, err)
			}
		}
		if len(errs) > 0 {
			p.known = false // QEMU may have executed unanswered commands
			p.noteFailure(errors.Join(errs...), now)
		}
	}, commands...)
}

// noteFailure records why the ports are not as wanted.
func (p *ports) noteFailure(err error, now time.Time) {
	reason := strings.ReplaceAll(err.Error(), "\n", "; ")
	p.problem = "change the ports: " + reason
	if strings.Contains(reason, "Could not set up") {
		p.problem += "; another program uses the port, or QEMU may not listen on it before the next start of the VM"
	}
	p.delayNext(now)
}

// monitorOutput returns the text of the human monitor's answer.
func (a answer) monitorOutput() (string, error) {
	if a.err != nil {
		return "", a.err
	}
	return usernet.Said(a.reply)
}

func (p *ports) observeEvent(event, time.Time) {}
func (p *ports) doubtState()                   {}

func (p *ports) reportFacts(f *Facts) {
	f.addProblem(fmt.Sprintf("vm.network[%d].ports", p.rule.Network), p.problem)
}
