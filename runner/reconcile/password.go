package reconcile

import (
	"fmt"
	"time"

	"vmop/qmp"
	"vmop/vmtypes/plan"
)

// passwords sets the password of all displays, and when it expires. Whether
// there is a password at all is decided when the machine starts.
type passwords struct {
	dialogue
	pace
	displays []plan.Password

	want    *Password // that was tried last
	have    *Password // that was set last on all displays; nil: none, or not known
	sure    bool      // the displays still have it
	never   bool      // an expiry has been set before, maybe not on all displays
	serial  int
	problem string
}

// equal says that two passwords, or their absence, are the same.
func (p *Password) equal(other *Password) bool {
	if p == nil || other == nil {
		return p == other
	}
	return p.Text.Equal(other.Text) && p.Expiry == other.Expiry
}

func (p *passwords) next(want *Desired, now time.Time) {
	if p.busy() {
		return
	}
	if !want.Password.equal(p.want) {
		p.want, p.problem, p.pace = want.Password, "", pace{}
	}
	switch {
	case want.Password == nil:
		if p.have != nil {
			p.problem = "a display keeps its password until the next start: the old one stays in force"
		}
	case p.sure && want.Password.equal(p.have):
		p.problem = ""
	case p.ready(now):
		p.set(*want.Password)
	}
}

// set says to all displays what has changed. QEMU forgets nothing by itself: an
// expiry holds until another is set.
func (p *passwords) set(want Password) {
	changed := p.have == nil || !p.have.Text.Equal(want.Text)
	newText := changed || !p.sure
	expiry := want.Expiry
	if expiry == "" && (p.never || p.have != nil && p.have.Expiry != "") {
		expiry = "never"
	}
	p.never = p.never || want.Expiry != ""
	var commands []qmp.Command
	for _, d := range p.displays {
		if newText {
			commands = append(commands, command("set_password", d, "password", want.Text.Reveal()))
		}
		if expiry != "" {
			commands = append(commands, command("expire_password", d, "time", expiry))
		}
	}
	p.sure = false
	p.send(func(answers []answer, now time.Time) {
		if err := fault(answers); err != nil {
			p.problem = fmt.Sprintf("set the display's password: %v", err)
			p.failed(now)
			return
		}
		p.have, p.sure, p.problem = &want, true, ""
		p.succeeded()
		if changed {
			p.serial++
		}
	}, commands...)
}

func command(name string, d plan.Password, key, value string) qmp.Command {
	args := map[string]any{"protocol": d.Protocol, key: value}
	if d.Display != "" {
		args["display"] = d.Display
	}
	return qmp.Command{Execute: name, Arguments: args}
}

func (p *passwords) observe(event, time.Time) {}
func (p *passwords) doubt()                   {}

func (p *passwords) report(f *Facts) {
	f.PasswordSerial = p.serial
	f.add("display-password", p.problem)
}
