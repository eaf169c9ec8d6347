package reconcile

import (
	"encoding/json"
	"fmt"
	"time"

	"vmop/qmp"
)

// dialogue is a rule's conversation with QEMU. A rule sends a batch of commands, and receives the answers when
// all have arrived. It is embedded in the rules.
type dialogue struct {
	outbox  []qmp.Command // queued, not drained yet
	answers []answer
	missing int // number of missing answers
	then    func([]answer, time.Time)
}

// answer is the result of a command.
type answer struct {
	command qmp.Command
	reply   json.RawMessage
	err     error
}

// sendBatch queues commands; then receives the answers in the same order.
func (d *dialogue) sendBatch(then func(answers []answer, now time.Time), commands ...qmp.Command) {
	d.outbox, d.then, d.missing = commands, then, len(commands)
	d.answers = make([]answer, len(commands))
}

// isBusy reports whether answers are missing. In that case sendBatch must not be called.
func (d *dialogue) isBusy() bool { return d.missing > 0 }

// drainCommands returns the queued commands, once.
func (d *dialogue) drainCommands() []qmp.Command {
	commands := d.outbox
	d.outbox = nil
	for i, c := range commands {
		d.answers[i].command = c
	}
	return commands
}

// acceptAnswer records the answer to a command of the batch.
func (d *dialogue) acceptAnswer(index int, reply json.RawMessage, err error, now time.Time) {
	d.answers[index].reply, d.answers[index].err = reply, err
	if d.missing--; d.missing == 0 {
		answers := d.answers
		d.answers = nil
		d.then(answers, now)
	}
}

func (d *dialogue) ownDialogue() *dialogue { return d }

// firstError returns the first error of a batch.
func firstError(answers []answer) error {
	for _, a := range answers {
		if a.err != nil {
			return a.err
		}
	}
	return nil
}

// decodeInto decodes the return value of a command.
func (a answer) decodeInto(into any) error {
	if a.err != nil {
		return a.err
	}
	if len(a.reply) == 0 || string(a.reply) == "null" {
		return fmt.Errorf("%s: an empty answer", a.command.Execute)
	}
	return json.Unmarshal(a.reply, into)
}

// Pauses between attempts.
const (
	firstPause = 500 * time.Millisecond
	lastPause  = time.Minute
	// leastPause is the minimum pause after an event in the meantime, so that a guest's events can't make the
	// runner busy.
	leastPause = 250 * time.Millisecond
)

// pace spaces the attempts after failures. Its zero value is ready to use. It is embedded in the rules.
type pace struct {
	pause time.Duration
	tried time.Time // time of the last attempt
	at    time.Time // time of the next attempt; zero: any time
}

// isReady reports whether it is time for the next attempt.
func (p *pace) isReady(now time.Time) bool { return !now.Before(p.at) }

// delayNext records a failed attempt. Each failure doubles the pause, up to a limit.
func (p *pace) delayNext(now time.Time) {
	p.pause = min(max(2*p.pause, firstPause), lastPause)
	p.tried, p.at = now, now.Add(p.pause)
}

// lookAt records an attempt with a result that will be checked at the time at.
func (p *pace) lookAt(at, now time.Time) { p.tried, p.at = now, at }

// hurryUp moves the next attempt forward, because something has happened.
func (p *pace) hurryUp() {
	if soon := p.tried.Add(leastPause); soon.Before(p.at) {
		p.at = soon
	}
}

// hasRested reports whether the last attempt is long enough ago for an attempt that only the guest's events have
// caused. If not, it schedules the next attempt.
func (p *pace) hasRested(now time.Time) bool {
	if soon := p.tried.Add(leastPause); now.Before(soon) {
		p.at = soon
		return false
	}
	return true
}

// forgetFailures resets the pause after a success.
func (p *pace) forgetFailures() { *p = pace{tried: p.tried} }

func (p *pace) wakeTime() time.Time { return p.at }
