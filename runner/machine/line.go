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

// line is what the parts of a State share: the actions that are to be done, and
// the conversation with QEMU. Commands are said at once, or, while there is no
// connection, when there is one again. A command that was said is not repeated.
type line struct {
	actions   []Action
	connected bool
	over      error // why there will be no connection any more; nil: there may be
	last      uint64
	open      map[uint64]*exchange // said, without a reply
	held      []*exchange          // not said
}

// exchange is a command and what is done with its answer.
type exchange struct {
	id      uint64
	command qmp.Command
	said    time.Time
	raw     bool // a user's, which decides how long to wait
	then    func(a answer, now time.Time)
}

// answer is what became of a command: what QEMU returned, a *qmp.Error if it
// refused, or why there is no reply.
type answer struct {
	reply json.RawMessage
	err   error
}

// refused reports whether QEMU, or an agent, has answered that it will not do it.
func refused(err error) bool { return errors.As(err, new(*qmp.Error)) }

func (l *line) do(a Action) { l.actions = append(l.actions, a) }

func (l *line) publish(updates ...status.Update) { l.do(Publish{updates}) }

func (l *line) log(level slog.Level, message string, attrs ...any) { l.do(Log{level, message, attrs}) }

// send says a command; then gets the answer.
func (l *line) send(c qmp.Command, now time.Time, then func(a answer, now time.Time)) *exchange {
	l.last++
	x := &exchange{id: l.last, command: c, then: then}
	switch {
	case l.over != nil:
		then(answer{err: l.over}, now)
	case l.connected:
		l.transmit(x, now)
	default:
		l.held = append(l.held, x)
	}
	return x
}

func (l *line) transmit(x *exchange, now time.Time) {
	x.said = now
	l.open[x.id] = x
	l.do(Send{x.id, x.command})
}

// unsaid takes back that a command was said: it waits for the next connection.
func (l *line) unsaid(id uint64, now time.Time) {
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

// giveUp forgets a command whose answer is of no interest any more.
func (l *line) giveUp(x *exchange) {
	l.held = slices.DeleteFunc(l.held, func(o *exchange) bool { return o == x })
	if l.open[x.id] != nil {
		delete(l.open, x.id)
		l.do(Withdraw{x.id})
	}
}

// answered gives a reply to the part that has asked.
func (l *line) answered(id uint64, a answer, now time.Time) {
	if x := l.open[id]; x != nil {
		delete(l.open, id)
		x.then(a, now)
	}
}

// connect says what was held back.
func (l *line) connect(now time.Time) {
	l.connected = true
	held := l.held
	l.held = nil
	for _, x := range held {
		l.transmit(x, now)
	}
}

// disconnect ends the exchanges that are open: whether QEMU has carried the
// commands out is not known.
func (l *line) disconnect(err error, now time.Time) {
	l.connected = false
	for _, x := range l.sorted() {
		l.answered(x.id, answer{err: err}, now)
	}
}

// end says that there will be no connection any more.
func (l *line) end(err error, now time.Time) {
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

// sorted returns the open exchanges in the order in which they began.
func (l *line) sorted() []*exchange {
	list := make([]*exchange, 0, len(l.open))
	for _, x := range l.open {
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b *exchange) int { return cmp.Compare(a.id, b.id) })
	return list
}

// oldest returns when the oldest of the State's own commands was said that has no
// reply; zero if there is none.
func (l *line) oldest() (said time.Time) {
	for _, x := range l.open {
		if !x.raw {
			said = soonest(said, x.said)
		}
	}
	return said
}

// decode reads what a command returned.
func (a answer) decode(into any) error {
	if a.err != nil {
		return a.err
	}
	return json.Unmarshal(a.reply, into)
}

// soonest returns the earlier time; zero is none.
func soonest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
