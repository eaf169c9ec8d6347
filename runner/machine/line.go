package machine

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"time"

	"vmop/qmp"
	"vmop/runner/status"
)

// line is shared by the parts of a State. It contains the actions for the driver, and the conversation with QEMU.
// Commands are sent immediately or, without a connection, when QEMU is connected again. A command is never sent
// twice.
type line struct {
	actions   []Action
	connected bool
	over      error // why no connection will follow; nil: one may follow
	last      uint64
	open      map[uint64]*exchange // sent, without a reply
	held      []*exchange          // not sent yet
}

// exchange is a command and the function that processes its answer.
type exchange struct {
	id      uint64
	command qmp.Command
	said    time.Time
	raw     bool // a user's command; the user decides how long to wait
	then    func(a answer, now time.Time)
}

// answer is the result of a command: QEMU's return value, a *qmp.Error if QEMU refused, or why there is no reply.
type answer struct {
	reply json.RawMessage
	err   error
}

// isRefusal reports whether err is an error reply of QEMU or an agent.
func isRefusal(err error) bool { return errors.As(err, new(*qmp.Error)) }

func (l *line) addAction(a Action) { l.actions = append(l.actions, a) }

func (l *line) publishUpdates(updates ...status.Update) { l.addAction(Publish{updates}) }

func (l *line) addLog(level slog.Level, message string, attrs ...any) {
	l.addAction(Log{level, message, attrs})
}

// sendCommand sends a command; then receives the answer.
func (l *line) sendCommand(c qmp.Command, now time.Time, then func(a answer, now time.Time)) *exchange {
	l.last++
	x := &exchange{id: l.last, command: c, then: then}
	switch {
	case l.over != nil:
		then(answer{err: l.over}, now)
	case l.connected:
		l.transmitCommand(x, now)
	default:
		l.held = append(l.held, x)
	}
	return x
}

func (l *line) transmitCommand(x *exchange, now time.Time) {
	x.said = now
	l.open[x.id] = x
	l.addAction(Send{x.id, x.command})
}

// takeBack records that a command was not sent after all. It waits for the next connection.
func (l *line) takeBack(id uint64, now time.Time) {
	x := l.open[id]
	if x == nil {
		return
	}
	delete(l.open, id)
	if l.over != nil {
		x.then(answer{err: l.over}, now)
		return
	}
	l.held = append(l.held, x)
}

// giveUp forgets a command. Its answer is no longer needed.
func (l *line) giveUp(x *exchange) {
	l.held = slices.DeleteFunc(l.held, func(o *exchange) bool { return o == x })
	if l.open[x.id] != nil {
		delete(l.open, x.id)
		l.addAction(Withdraw{x.id})
	}
}

// handleAnswer passes a reply to the part that sent the command.
func (l *line) handleAnswer(id uint64, a answer, now time.Time) {
	if x := l.open[id]; x != nil {
		delete(l.open, id)
		x.then(a, now)
	}
}

// sayHeldBack sends the commands that were held back.
func (l *line) sayHeldBack(now time.Time) {
	l.connected = true
	held := l.held
	l.held = nil
	for _, x := range held {
		l.transmitCommand(x, now)
	}
}

// endExchanges ends the open exchanges. It is unknown whether QEMU has executed their commands.
func (l *line) endExchanges(err error, now time.Time) {
	l.connected = false
	for _, x := range l.openInOrder() {
		l.handleAnswer(x.id, answer{err: err}, now)
	}
}

// endLine records that no connection will follow.
func (l *line) endLine(err error, now time.Time) {
	if l.over != nil {
		return
	}
	l.over = err
	held := l.held
	l.held = nil
	for _, x := range held {
		x.then(answer{err: err}, now)
	}
}

// openInOrder returns the open exchanges, oldest first.
func (l *line) openInOrder() []*exchange {
	list := make([]*exchange, 0, len(l.open))
	for _, x := range l.open {
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b *exchange) int { return cmp.Compare(a.id, b.id) })
	return list
}

// oldestSaid returns when the State's oldest command without a reply was sent, or zero. It ignores users' commands.
func (l *line) oldestSaid() (said time.Time) {
	for _, x := range l.open {
		if !x.raw {
			said = soonestOf(said, x.said)
		}
	}
	return said
}

// decodeInto decodes the return value of a command.
func (a answer) decodeInto(into any) error {
	if a.err != nil {
		return a.err
	}
	return json.Unmarshal(a.reply, into)
}

// soonestOf returns the earlier time; zero means no time.
func soonestOf(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
