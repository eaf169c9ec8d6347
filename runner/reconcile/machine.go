package reconcile

import (
	"encoding/json"
	"os"
	"slices"
	"time"

	"vmop/qmp"
	"vmop/runner/usernet"
	"vmop/vmtypes/plan"
)

// Machine is what is known of a running machine, and of what was asked of it.
// One goroutine uses it.
type Machine struct {
	rules    []follower
	inFlight map[uint64]place
	last     uint64 // number of the newest request
	servers  *servers
	opener   *opener
	affinity *affinity // nil without a rule
}

// A follower keeps the machine near what one rule is about.
type follower interface {
	// next may say something, if the follower is not waiting for answers.
	next(want *Desired, now time.Time)
	// observe takes note of an event.
	observe(e event, now time.Time)
	// wake is when next has to be asked again although nothing has happened;
	// zero if only events, answers and wishes matter.
	wake() time.Time
	// doubt takes in that events may have been missed.
	doubt()
	// report adds what is known to the facts.
	report(f *Facts)
	// line is the follower's connection with QEMU.
	line() *dialogue
}

// place is where an answer belongs.
type place struct {
	dialogue *dialogue
	index    int
}

// Start is what is known of the machine when the Machine is made.
type Start struct {
	// Running tells a machine that was found running from one that was started
	// a moment ago, is paused, and is as the plan made it.
	Running bool
	// Arriving: its guest comes from another runner, and with it how much memory it has.
	Arriving bool
	// Media are the files in the CD drives, by their index in vm.drives; "" is
	// an empty drive. What is in a drive that isn't listed is asked for.
	Media map[int]string
	// Ports are those that user networks forward, by their index in vm.network.
	Ports map[int][]usernet.Forward
	// Password is the one that has been set; nil if none has, or if it is not
	// known.
	Password *Password
	// ResetCounter is the one that was seen last; nil if none was.
	ResetCounter *int64
}

// Request is a command of Next, whose answer is awaited.
type Request struct {
	Command qmp.Command
	number  uint64
}

// Step is what is to be done next.
type Step struct {
	// Requests are sent in this order, without waiting for answers in between.
	Requests []Request
	// Servers are web addresses: the caller finds out whether the server answers, and
	// gives that to Answers.
	Servers []string
	// Opens are drives: the caller opens the file or device of each, and gives it to Opened.
	Opens []Drive
	// Placements are for threads of QEMU: the caller carries them out, and gives what
	// became of each to Placed.
	Placements []Placement
	// Wake is when Next has to be asked again if nothing happens before; it is
	// later than now. Zero means that only answers, events and wishes matter.
	Wake time.Time
}

// New returns what is known of a machine in the beginning.
func New(rules plan.Rules, start Start) *Machine {
	m := &Machine{inFlight: map[uint64]place{}, servers: &servers{}, opener: &opener{}}
	state, blocks := &runState{running: start.Running, ran: start.Running}, &blockDevices{}
	secret := &passwords{have: start.Password, sure: start.Password != nil}
	m.rules = []follower{state}
	if !rules.Has("disks") { // to say of each why it isn't attached
		rules = append(slices.Clone(rules), plan.Disks{})
	}
	var count *cpus
	for _, r := range rules {
		switch r := r.(type) {
		case plan.CPUs:
			count = newCPUs(r, state, start)
			m.rules = append(m.rules, count)
		case plan.Affinity:
			m.affinity = newAffinity(r)
		case plan.Balloon:
			m.rules = append(m.rules, newRAM(balloon{r}, state, start))
		case plan.Memory:
			m.rules = append(m.rules, newRAM(virtioMem{r}, state, start))
		case plan.Medium:
			m.rules = append(m.rules, newMedium(r, blocks, m.servers, start))
		case plan.Disk:
			m.rules = append(m.rules, newDisk(r, state, blocks))
		case plan.Disks:
			m.rules = append(m.rules, newDrives(r, m.opener, start))
		case plan.Ports:
			m.rules = append(m.rules, newPorts(r, start))
		case plan.Password:
			secret.displays = append(secret.displays, r)
		}
	}
	if len(secret.displays) > 0 {
		m.rules = append(m.rules, secret)
	}
	if m.affinity != nil { // behind the CPUs, which it looks at
		m.affinity.cpus = count
		m.rules = append(m.rules, m.affinity)
	}
	// The block devices come last: they ask for what the others want to know.
	m.rules = append(m.rules, newReset(state, start), blocks)
	return m
}

// Next returns what to do to bring the machine nearer to what is wanted.
func (m *Machine) Next(want Desired, now time.Time) Step {
	var step Step
	for _, r := range m.rules {
		r.next(&want, now)
	}
	step.Servers, step.Opens = m.servers.drain(), m.opener.drain()
	if m.affinity != nil {
		step.Placements = m.affinity.drainPlacements()
	}
	for _, r := range m.rules {
		d := r.line()
		for i, c := range d.drain() {
			m.last++
			m.inFlight[m.last] = place{d, i}
			step.Requests = append(step.Requests, Request{Command: c, number: m.last})
		}
		if d.busy() {
			continue
		}
		if w := r.wake(); w.After(now) && (step.Wake.IsZero() || w.Before(step.Wake)) {
			step.Wake = w
		}
	}
	return step
}

// Answer takes the answer to a request: what QEMU returned, or the error that
// QEMU answered or that kept the answer away. Each request needs one, or its
// rule says nothing more.
func (m *Machine) Answer(r Request, reply json.RawMessage, err error, now time.Time) {
	at, ok := m.inFlight[r.number]
	if !ok {
		return
	}
	delete(m.inFlight, r.number)
	at.dialogue.accept(at.index, reply, err, now)
}

// Answers takes in whether the server of one of Step.Servers answers; an error says
// that it does not, and would stop the guest.
func (m *Machine) Answers(address string, err error, now time.Time) {
	m.servers.answered(address, err, now)
}

// Opened takes in the file of one of Step.Opens, or why it can't be opened, and reports
// whether a request has the file now. It is to be closed when that is answered, or else at once.
func (m *Machine) Opened(d Drive, file *os.File, err error, now time.Time) bool {
	return m.opener.opened(d, file, err, now)
}

// Placed takes in what became of one of Step.Placements.
func (m *Machine) Placed(p Placement, err error, now time.Time) {
	if m.affinity != nil {
		m.affinity.placedThread(p, err, now)
	}
}

// Observe takes note of an event of QEMU.
func (m *Machine) Observe(e qmp.Event, now time.Time) {
	parsed, ok := parse(e)
	if !ok {
		return
	}
	for _, r := range m.rules {
		r.observe(parsed, now)
	}
}

// Doubt says that events may have been missed (qmp.Session.Dropped): what they
// would have told is asked for.
func (m *Machine) Doubt() {
	for _, r := range m.rules {
		r.doubt()
	}
}

// Facts returns what is true, as far as it is known.
func (m *Machine) Facts() Facts {
	f := Facts{Media: map[int]Medium{}}
	for _, r := range m.rules {
		r.report(&f)
	}
	return f
}
