package migrate

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// machine is the state of a QEMU.
type machine string

const (
	none     machine = "none"
	runs     machine = "runs"
	paused   machine = "paused" // at the switch, or after everything was sent or received
	incoming machine = "incoming"
	dead     machine = "dead"
)

// copyOf is the state of QEMU's own migration.
type copyOf string

const (
	noCopy    copyOf = ""
	active    copyOf = "active"
	atSwitch  copyOf = "atSwitch"
	finishing copyOf = "finishing"
	complete  copyOf = "complete"
)

// side is the state common to both sides: whether the runner is up, its queued actions and events, its record, and its
// QEMU.
type side struct {
	up, lost bool // lost forever with its host
	record   Record
	todo     [6]Action
	events   [10]Event // not yet seen by the runner
	qemu     machine
}

func (s *side) happens(e Event) {
	if !s.up {
		return
	}
	for i := range s.events {
		if s.events[i] == e {
			return // it will learn of it anyway
		}
		if s.events[i] == "" {
			s.events[i] = e
			return
		}
	}
	panic("too many events")
}

// place is one state of the whole system.
type place struct {
	src     side
	source  Source
	tgt     side
	target  Target
	link    bool
	dialing bool
	toTgt   [4]Message
	toSrc   [4]Message
	copy    copyOf
	begun   bool // by the user
	killed  bool // the guest was killed with its QEMU by a fault
	unknown bool // the target's QEMU was killed around the time it resumed the guest
	taken   bool // the guest has been running at the target
	faults  int
}

func push(queue *[4]Message, m Message) {
	for i := range queue {
		if queue[i] == "" {
			queue[i] = m
			return
		}
	}
	panic("too many messages")
}

func shift[T comparable](queue []T) (first T) {
	first = queue[0]
	copy(queue, queue[1:])
	var zero T
	queue[len(queue)-1] = zero
	return first
}

// plan appends actions to a side's queue.
func (s *side) plan(actions []Action) {
	if len(actions) > len(s.todo) || s.todo[0] != (Action{}) {
		panic(fmt.Sprint("too many actions ", actions))
	}
	copy(s.todo[:], actions)
}

// cut breaks the connection.
func (p *place) cut() {
	if !p.link {
		return
	}
	p.link, p.toTgt, p.toSrc = false, [4]Message{}, [4]Message{}
	p.src.happens(Disconnected)
	p.tgt.happens(Disconnected)
}

// steps returns all possible next states without a fault.
func (p place) steps() (next []place) {
	next = append(p.sourceSteps(), p.targetSteps()...)
	next = append(next, p.copySteps()...)
	add := func(change func(*place)) {
		q := p
		change(&q)
		next = append(next, q)
	}
	if p.dialing && p.src.up && p.tgt.up {
		add(func(q *place) {
			q.dialing, q.link = false, true
			q.src.happens(Connected)
			q.tgt.happens(Connected)
		})
	}
	if !p.src.up && !p.src.lost {
		add(func(q *place) {
			q.src.up, q.source = true, SourceOf(q.src.record)
			q.src.happens(Restarted)
		})
	}
	if !p.tgt.up && !p.tgt.lost {
		add(func(q *place) {
			q.tgt.up, q.target = true, TargetOf(q.tgt.record)
			q.tgt.happens(Restarted)
		})
	}
	return next
}

func (p place) sourceSteps() (next []place) {
	if !p.src.up {
		return nil
	}
	q := p
	if q.src.todo[0] != (Action{}) {
		q.atSource(shift(q.src.todo[:]))
		return []place{q}
	}
	learn := func(q place, e Event) {
		var actions []Action
		q.source, actions = q.source.On(e)
		q.src.plan(actions)
		next = append(next, q)
	}
	if !p.begun {
		q.begun = true
		learn(q, Begin)
		return next
	}
	if q.src.events[0] != "" {
		e := shift(q.src.events[:])
		learn(q, e)
		return next
	}
	if q.toSrc[0] != "" {
		m := shift(q.toSrc[:])
		learn(q, Heard(m))
		return next
	}
	if !p.link && p.source.Stage == Offering { // its timeout
		learn(p, Cancelled)
	}
	if p.tgt.lost && p.source.Stage != Still && p.source.Stage != Gone { // a user knows it
		learn(p, Fenced)
	}
	return next
}

func (p place) targetSteps() (next []place) {
	if !p.tgt.up {
		return nil
	}
	q := p
	if q.tgt.todo[0] != (Action{}) {
		return q.atTarget(shift(q.tgt.todo[:]))
	}
	learn := func(q place, e Event) {
		var actions []Action
		q.target, actions = q.target.On(e)
		q.tgt.plan(actions)
		next = append(next, q)
	}
	if q.tgt.events[0] != "" {
		e := shift(q.tgt.events[:])
		learn(q, e)
		return next
	}
	if q.toTgt[0] != "" {
		m := shift(q.toTgt[:])
		learn(q, Heard(m))
		return next
	}
	switch p.target.Stage {
	case Comparing, Preparing, Receiving, Holding:
		if !p.link { // its timeout
			learn(p, Cancelled)
		}
		if p.src.lost {
			learn(p, Fenced)
		}
	}
	return next
}

// copySteps returns the steps that QEMU takes by itself.
func (p place) copySteps() (next []place) {
	add := func(change func(*place)) {
		q := p
		change(&q)
		next = append(next, q)
	}
	if p.copy == noCopy || p.copy == complete {
		return nil
	}
	if p.src.qemu == dead { // the target's QEMU sees the end of the stream
		add(func(q *place) {
			q.copy = noCopy
			if q.tgt.qemu == incoming {
				q.tgt.qemu = dead
				q.tgt.happens(QEMUEnded)
			}
		})
		return next
	}
	fails := func(resumes bool) func(q *place) {
		return func(q *place) {
			q.copy = noCopy
			if resumes {
				q.src.qemu = runs
			}
			q.src.happens(Failed)
		}
	}
	switch {
	case p.tgt.qemu != incoming:
		add(fails(true))
		add(fails(false))
	case p.copy == active:
		add(func(q *place) {
			q.copy, q.src.qemu = atSwitch, paused
			q.src.happens(AtSwitch)
		})
	case p.copy == finishing:
		arrives := func(q *place) {
			q.tgt.qemu = paused
			q.tgt.happens(Complete)
		}
		add(func(q *place) {
			arrives(q)
			q.copy = complete
			q.src.happens(Copied)
		})
		add(func(q *place) { // the target has everything, and the source reports a failure
			arrives(q)
			fails(true)(q)
		})
	}
	return next
}

// atSource executes an action of the source.
func (p *place) atSource(a Action) {
	switch a.Do {
	case Write:
		p.src.record = a.Note
	case Say:
		if p.link {
			push(&p.toTgt, a.Message)
		}
	case Connect:
		p.dialing = !p.link
		if p.link {
			p.src.happens(Connected)
		}
	case Copy:
		p.copy = active // fails if there is no peer
	case Switch:
		if p.copy == atSwitch {
			p.copy = finishing
		}
	case StopCopying:
		if p.copy != noCopy && p.copy != complete {
			p.copy = noCopy
			if p.tgt.qemu == incoming {
				p.tgt.qemu = dead
				p.tgt.happens(QEMUEnded)
			}
		}
	case Resume:
		if p.src.qemu == paused {
			p.src.qemu = runs
		}
	case Quit:
		p.src.qemu = dead
	default:
		panic(a)
	}
}

// atTarget executes an action of the target.
func (p place) atTarget(a Action) (next []place) {
	q := p
	switch a.Do {
	case Write:
		q.tgt.record = a.Note
	case Say:
		if q.link {
			push(&q.toSrc, a.Message)
		}
	case Compare:
		other := p
		other.tgt.happens(Differs)
		next = append(next, other)
		q.tgt.happens(Suits)
	case Receive:
		q.tgt.qemu = incoming
		q.tgt.happens(Listens)
	case Resume:
		switch {
		case q.tgt.qemu == paused:
			q.tgt.qemu, q.taken = runs, true
			q.tgt.happens(Continues)
		case q.tgt.qemu == dead && q.target.Stage == Resuming:
			q.tgt.happens(NotResumed)
		}
	case Quit:
		q.tgt.qemu = dead
	default:
		panic(a)
	}
	return append(next, q)
}

// accidents returns the next states after a fault.
func (p place) accidents() (next []place) {
	add := func(change func(*place)) {
		q := p
		q.faults--
		change(&q)
		next = append(next, q)
	}
	down := func(q *place, s *side) {
		q.cut()
		s.up, s.todo, s.events = false, [6]Action{}, [10]Event{}
		q.dialing = q.dialing && s != &q.src
	}
	kill := func(q *place, s *side) {
		// Was this the only copy of the guest's memory?
		q.killed = q.killed || s == &q.src && q.src.record != Moved && !q.taken || s == &q.tgt && q.taken
		q.unknown = q.unknown || s == &q.tgt && (q.target.Stage == Resuming || q.tgt.record == Taken)
		s.qemu = dead
	}
	if p.src.up {
		add(func(q *place) { down(q, &q.src) })
		add(func(q *place) { q.src.happens(Cancelled) })
	}
	if p.tgt.up {
		add(func(q *place) { down(q, &q.tgt) })
		add(func(q *place) { q.tgt.happens(Cancelled) })
	}
	if p.link {
		add(func(q *place) { q.cut() })
	}
	if p.src.qemu != dead {
		add(func(q *place) {
			kill(q, &q.src)
			q.src.happens(QEMUEnded)
		})
	}
	if p.tgt.qemu != dead && p.tgt.qemu != none {
		add(func(q *place) {
			kill(q, &q.tgt)
			q.tgt.happens(QEMUEnded)
		})
	}
	for _, of := range []func(*place) *side{
		func(q *place) *side { return &q.src }, func(q *place) *side { return &q.tgt },
	} {
		if at := of(&p); !at.lost {
			add(func(q *place) {
				s := of(q)
				kill(q, s)
				down(q, s)
				s.lost = true
			})
		}
	}
	return next
}

// most is the maximum number of faults.
const most = 3

// For any faults and any order of steps, the guest never runs twice, and never at the source after it has run at the
// target. In every final state it is running, unless its QEMU was killed.
func TestExactlyOneGuest(t *testing.T) {
	t.Parallel()
	first := place{faults: most}
	first.src = side{up: true, qemu: runs}
	first.tgt = side{up: true, qemu: none}
	from := map[place]*place{first: nil}
	todo := []place{first}
	ends := map[string]int{}
	for len(todo) > 0 {
		p := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if wrong := p.wrong(); wrong != "" {
			require.FailNow(t, wrong, "%s", history(from, p))
		}
		next := p.steps()
		if len(next) == 0 {
			ends[fmt.Sprintf("%s %s", p.src.qemu, p.tgt.qemu)]++
			// The guest may also be lost if the runner that knew its place was killed.
			excused := p.killed || p.tgt.lost && p.src.record == Moved || p.unknown && p.faults < most-1
			if p.src.qemu != runs && p.tgt.qemu != runs && !excused {
				require.FailNow(t, "no guest runs", "%s", history(from, p))
			}
		}
		if p.faults > 0 {
			next = append(next, p.accidents()...)
		}
		for _, q := range next {
			if _, known := from[q]; !known {
				from[q] = &p
				todo = append(todo, q)
			}
		}
	}
	t.Logf("%d states; ends: %v", len(from), ends)
	for _, end := range []string{"runs none", "runs dead", "dead runs"} {
		require.NotZero(t, ends[end], end)
	}
}

// wrong describes a violated rule, or returns "".
func (p place) wrong() string {
	switch {
	case p.src.qemu == runs && p.tgt.qemu == runs:
		return "two guests run"
	case p.src.qemu == runs && p.taken:
		return "the guest runs at the source, after it has been running at the target"
	case p.tgt.qemu == runs && p.tgt.record != Taken && !(p.tgt.record == NoRecord && p.src.record == Moved):
		return "a guest runs that isn't the target's"
	}
	return ""
}

// history describes how a state was reached.
func history(from map[place]*place, p place) (text string) {
	for at := &p; at != nil; at = from[*at] {
		text = at.String() + "\n" + text
	}
	return text
}

func (p place) String() string {
	return fmt.Sprintf("source %q %q up=%v %s %v %v | target %q %q up=%v %s %v %v | link=%v %v %v copy %q faults %d",
		p.source.Stage, p.src.record, p.src.up, p.src.qemu, p.src.todo[0], p.src.events[:2],
		p.target.Stage, p.tgt.record, p.tgt.up, p.tgt.qemu, p.tgt.todo[0], p.tgt.events[:2],
		p.link, p.toTgt[:2], p.toSrc[:2], p.copy, p.faults)
}
