package reconcile

import (
	"fmt"
	"time"

	"vmop/qmp"
	"vmop/vmtypes/plan"
)

// passwords sets the password of all displays, and its expiry. Whether displays have a password at all is decided
// when the machine starts.
type passwords struct {
	dialogue
	pace
	displays []plan.Password

	want    *Password // the last password that was tried
	have    *Password // the last password set on all displays; nil: none, or unknown
	sure    bool      // the displays still have it
	never   bool      // an expiry was set before, perhaps not on all displays
	serial  int
	problem string
}

// isEqual reports whether two passwords, or their absence, are the same.
func (p *Password) isEqual(other *Password) bool {
	if p == nil || other == nil {
		return p == other
	}
	return p.Text.Equal(other.Text) && p.Expiry == other.Expiry
}

func (p *passwords) nextStep(want *Desired, now time.Time) {
	if p.isBusy() {
		return
	}
	if !want.Password.isEqual(p.want) {
		p.want, p.problem, p.pace = want.Password, "", pace{}
	}
	switch {
	case want.Password == nil:
		if p.have != nil {
			p.problem = "a display keeps its password until the next start: the old password stays valid"
		}
	case p.sure && want.Password.isEqual(p.have):
		p.problem = ""
	case p.isReady(now):
		p.setPasswords(*want.Password)
	}
}

// setPasswords sends the changes to all displays. QEMU keeps an expiry until another is set.
func (p *passwords) setPasswords(want Password) {
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
			commands = append(commands, passwordCommand("set_password", d, "password", want.Text.Reveal()))
		}
		if expiry != "" {
			commands = append(commands, passwordCommand("expire_password", d, "time", expiry))
		}
	}
	p.sure = false
	p.sendBatch(func(answers []answer, now time.Time) {
		if err := firstError(answers); err != nil {
			p.problem = fmt.Sprintf("set the display's password: %v", err)
			p.delayNext(now)
			return
		}
		p.have, p.sure, p.problem = &want, true, ""
		p.forgetFailures()
		if changed {
			p.serial++
		}
	}, commands...)
}

func passwordCommand(name string, d plan.Password, key, value string) qmp.Command {
	args := map[string]any{"protocol": d.Protocol, key: value}
	if d.Display != "" {
		args["display"] = d.Display
	}
	return qmp.Command{Execute: name, Arguments: args}
}

func (p *passwords) observeEvent(event, time.Time) {}
func (p *passwords) doubtState()                   {}

func (p *passwords) reportFacts(f *Facts) {
	f.PasswordSerial = p.serial
	f.addProblem("display-password", p.problem)
}
