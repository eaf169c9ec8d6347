package reconcile

import (
	"encoding/json"
	"fmt"
	"time"

	"vmop/qmp"
)

// dialogue is how a rule speaks with QEMU: it says a batch of commands, and
// hears of the answers when all are there. It is embedded in the rules.
type dialogue struct {
	outbox  []qmp.Command // said, not yet taken
	answers []answer
	missing int // answers
	then    func([]answer, time.Time)
}

// answer is what became of a command.
type answer struct {
	command qmp.Command
	reply   json.RawMessage
	err     error
}

// send queues commands; then gets the answers in the same order.
func (d *dialogue) send(then func(answers []answer, now time.Time), commands ...qmp.Command) {
	d.outbox, d.then, d.missing = commands, then, len(commands)
	d.answers = make([]answer, len(commands))
}

// busy says that answers are missing; nothing may be said then.
func (d *dialogue) busy() bool { return d.missing > 0 }

// drain returns what is to be sent, once.
func (d *dialogue) drain() []qmp.Command {
	commands := d.outbox
	d.outbox = nil
	for i, c := range commands {
		d.answers[i].command = c
	}
	return commands
}

// accept takes the answer to a command of the batch.
func (d *dialogue) accept(index int, reply json.RawMessage, err error, now time.Time) {
	d.answers[index].reply, d.answers[index].err = reply, err
	if d.missing--; d.missing == 0 {
		answers := d.answers
		d.answers = nil
		d.then(answers, now)
	}
}

func (d *dialogue) line() *dialogue { return d }

// fault returns the first error of a batch.
func fault(answers []answer) error {
	for _, a := range answers {
		if a.err != nil {
			return a.err
		}
	}
	return nil
}

// decode reads what a command returned.
func (a answer) decode(into any) error {
	if a.err != nil {
		return a.err
	}
	if len(a.reply) == 0 || string(a.reply) == "null" {
		return fmt.Errorf("%s: an empty answer", a.command.Execute)
	}
	return json.Unmarshal(a.reply, into)
}

// The pauses between attempts.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = time.Minute
	// leastPause is between attempts when something has happened meanwhile: no
	// guest makes the runner haste by what it does.
	leastPause = 250 * time.Millisecond
)

// pace spaces the attempts at what did not succeed. Its zero value is ready.
// It is embedded in the rules.
type pace struct {
	pause time.Duration
	tried time.Time // the last attempt
	at    time.Time // of the next attempt; zero: any time
}

// ready says that an attempt may be made.
func (p *pace) ready(now time.Time) bool { return !now.Before(p.at) }

// failed notes an attempt that did not succeed; the next one is later than the
// one before.
func (p *pace) failed(now time.Time) {
	p.pause = min(max(2*p.pause, firstPause), lastPause)
	p.tried, p.at = now, now.Add(p.pause)
}

// until notes an attempt whose result will be looked at then.
func (p *pace) until(at, now time.Time) { p.tried, p.at = now, at }

// hurry brings the next attempt forward, because something has happened.
func (p *pace) hurry() {
	if soon := p.tried.Add(leastPause); soon.Before(p.at) {
		p.at = soon
	}
}

// rested reports whether the last attempt is long enough ago for one that only the
// guest has a reason for; if not, there is a wake for it.
func (p *pace) rested(now time.Time) bool {
	if soon := p.tried.Add(leastPause); now.Before(soon) {
		p.at = soon
		return false
	}
	return true
}

// succeeded forgets the failures.
func (p *pace) succeeded() { *p = pace{tried: p.tried} }

func (p *pace) wake() time.Time { return p.at }
