package reconcile

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/runner/usernet"
	"vmop/vmtypes/plan"
)

// ports forwards the wanted ports of the host by a user network, and no others but the
// temporary ones (runner/control). Those that a killed runner has left are closed.
type ports struct {
	dialogue
	pace
	rule plan.Ports

	want    []usernet.Forward // that was tried last
	have    []usernet.Forward
	known   bool // have is true
	found   bool // an earlier runner may have left temporary ports
	problem string
}

func newPorts(r plan.Ports, start Start) *ports {
	have, given := start.Ports[r.Network]
	return &ports{rule: r, have: have, known: given && !start.Running, found: start.Running}
}

func (p *ports) next(want *Desired, now time.Time) {
	forwards, given := want.Ports[p.rule.Network]
	if !given || p.busy() {
		return
	}
	if !slices.Equal(forwards, p.want) {
		p.want, p.problem, p.pace = forwards, "", pace{}
	}
	if !p.ready(now) {
		return
	}
	if !p.known {
		p.query()
		return
	}
	surplus, missing := without(p.have, p.want), without(p.want, p.have)
	if len(surplus) == 0 && len(missing) == 0 {
		p.problem = ""
		p.succeeded()
		return
	}
	p.change(surplus, missing)
}

// without returns those of a list that aren't in another.
func without(list, other []usernet.Forward) []usernet.Forward {
	return slices.DeleteFunc(slices.Clone(list), func(f usernet.Forward) bool { return slices.Contains(other, f) })
}

// query asks which ports there are.
func (p *ports) query() {
	p.send(func(answers []answer, now time.Time) {
		said, err := answers[0].said()
		forwards, is := usernet.Parse(said)[p.rule.Netdev]
		if err == nil && !is {
			err = fmt.Errorf("QEMU has no user network %s", p.rule.Netdev)
		}
		if err != nil {
			p.fail(err, now)
			return
		}
		p.have = slices.DeleteFunc(forwards, func(f usernet.Forward) bool {
			return !p.found && f.Address == usernet.Temporary
		})
		p.known, p.found = true, false
	}, usernet.List())
}

// change closes ports first: another guest's port may be behind the same port of the host.
func (p *ports) change(surplus, missing []usernet.Forward) {
	var commands []qmp.Command
	for _, f := range surplus {
		commands = append(commands, usernet.Remove(p.rule.Netdev, f))
	}
	for _, f := range missing {
		commands = append(commands, usernet.Add(p.rule.Netdev, f))
	}
	p.send(func(answers []answer, now time.Time) {
		var errs []error
		for i, a := range answers {
			said, err := a.said()
			switch {
			case err == nil && i < len(surplus) && !usernet.Removed(said),
				err == nil && i >= len(surplus) && said != "":
				err = errors.New(said)
			case err == nil && i < len(surplus):
				p.have = without(p.have, surplus[i:i+1])
			case err == nil:
				p.have = append(p.have, missing[i-len(surplus)])
			}
			if err != nil {
				errs = append(errs, err)
			}
		}
		if len(errs) > 0 {
			p.known = false // what QEMU has not answered it may have done
			p.fail(errors.Join(errs...), now)
		}
	}, commands...)
}

// fail notes why the ports aren't as they are wanted.
func (p *ports) fail(err error, now time.Time) {
	reason := strings.ReplaceAll(err.Error(), "\n", "; ")
	p.problem = "change the ports: " + reason
	if strings.Contains(reason, "Could not set up") {
		p.problem += "; another program uses the port, or QEMU may not listen on it before the next start of the VM"
	}
	p.failed(now)
}

// said returns what the monitor for people has answered.
func (a answer) said() (string, error) {
	if a.err != nil {
		return "", a.err
	}
	return usernet.Said(a.reply)
}

func (p *ports) observe(event, time.Time) {}
func (p *ports) doubt()                   {}

func (p *ports) report(f *Facts) {
	f.add(fmt.Sprintf("vm.network[%d].ports", p.rule.Network), p.problem)
}
