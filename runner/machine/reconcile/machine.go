package reconcile

import (
	"encoding/json"
	"os"
	"slices"
	"time"

	"vmop/qmp"
	"vmop/runner/machine/usernet"
	"vmop/vmtypes/plan"
)

// Machine is the known state of a running machine, with its pending requests. It must be used by one goroutine
// only.
type Machine struct {
	rules    []follower
	inFlight map[uint64]place
	last     uint64 // number of the newest request
	servers  *servers
	opener   *opener
	keeper   *keeper
	affinity *affinity // nil without a rule
}

// A follower keeps the machine close to what one rule describes.
type follower interface {
	// nextStep may send commands, unless the follower is waiting for answers.
	nextStep(want *Desired, now time.Time)
	// observeEvent processes an event.
	observeEvent(e event, now time.Time)
	// wakeTime returns when nextStep must be called again without new input. Zero means that only events, answers and
	// wishes matter.
	wakeTime() time.Time
	// doubtState reports that events may have been missed.
	doubtState()
	// reportFacts adds the follower's known state to the facts.
	reportFacts(f *Facts)
	// ownDialogue returns the follower's conversation with QEMU.
	ownDialogue() *dialogue
}

// place identifies the command of an answer.
type place struct {
	dialogue *dialogue
	index    int
}

// Start is the known state of the machine when the Machine is created.
type Start struct {
	// Running reports whether the machine was found running. Otherwise it was just started, is paused, and is as
	// the plan created it.
	Running bool
	// Arriving reports that the guest comes from another runner, and with it the size of its memory.
	Arriving bool
	// Cards reports that network cards were plugged in before.
	Cards bool
	// Media are the files in the CD drives, by their index in vm.drives; "" is an empty drive. The media of
	// drives that are not listed are queried.
	Media map[int]string
	// Ports are the ports that user networks forward, by their index in vm.network.
	Ports map[int][]usernet.Forward
	// Password is the password that has been set; nil if no password has been set or it is unknown.
	Password *Password
	// ResetCounter is the last counter seen, or nil.
	ResetCounter *int64
}

// Request is a command of Next that needs an answer.
type Request struct {
	Command qmp.Command
	number  uint64
}

// Step contains what must be done next.
type Step struct {
	// Requests must be sent in this order, without waiting for answers in between.
	Requests []Request
	// Servers are web addresses. The caller checks whether the server answers, and passes the result to Answers.
	Servers []string
	// Opens are drives. The caller opens the file or device of each drive, and passes it to Opened.
	Opens []Drive
	// Cards are network cards. The caller opens the tap of each, and passes it to CardOpened.
	Cards []CardWish
	// Released are the hardware addresses of cards. The caller closes their taps. Kept are lists of hardware
	// addresses; the caller closes the taps of all other cards.
	Released []string
	Kept     [][]string
	// Placements are for threads of QEMU. The caller carries them out, and passes each result to Placed.
	Placements []Placement
	// Wake is when Next must be called again if no input arrives before; it is later than now. Zero means that
	// only answers, events and wishes matter.
	Wake time.Time
}

// New returns the initial state of a machine.
func New(rules plan.Rules, start Start) *Machine {
	m := &Machine{inFlight: map[uint64]place{}, servers: &servers{}, opener: &opener{}, keeper: &keeper{}}
	state, blocks := &runState{running: start.Running, ran: start.Running}, &blockDevices{}
	secret := &passwords{have: start.Password, sure: start.Password != nil}
	m.rules = []follower{state}
	if !rules.Has("disks") { // reports for each disk why it isn't attached
		rules = append(slices.Clone(rules), plan.Disks{})
	}
	var count *cpus
	limits := newLimits(start, blocks)
	var nics *cards
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
			m.rules = append(m.rules, newDiskRule(r, state, blocks))
		case plan.Limits:
			limits.rules = append(limits.rules, r)
		case plan.Disks:
			limits.drives = newDrives(r, m.opener, start)
			m.rules = append(m.rules, limits.drives)
		case plan.NICs:
			nics = newCards(r, m.keeper, start)
			m.rules = append(m.rules, nics)
		case plan.Link:
			m.rules = append(m.rules, newLink(r, start))
		case plan.Ports:
			m.rules = append(m.rules, newPorts(r, start))
		case plan.Password:
			secret.displays = append(secret.displays, r)
		}
	}
	if nics != nil {
		nics.drives, limits.drives.cards = limits.drives, nics
	}
	if len(secret.displays) > 0 {
		m.rules = append(m.rules, secret)
	}
	if m.affinity != nil { // after the CPUs, which it uses
		m.affinity.cpus = count
		m.rules = append(m.rules, m.affinity)
	}
	m.rules = append(m.rules, limits) // after the drives, which it uses
	// The block devices come last, because they collect the questions of the others.
	m.rules = append(m.rules, newReset(state, start), blocks)
	return m
}

// Next returns what must be done to bring the machine closer to want.
func (m *Machine) Next(want Desired, now time.Time) Step {
	var step Step
	for _, r := range m.rules {
		r.nextStep(&want, now)
	}
	step.Servers, step.Opens = m.servers.drainAddresses(), m.opener.drainWishes()
	m.keeper.drainInto(&step)
	if m.affinity != nil {
		step.Placements = m.affinity.drainPlacements()
	}
	for _, r := range m.rules {
		d := r.ownDialogue()
		for i, c := range d.drainCommands() {
			m.last++
			m.inFlight[m.last] = place{d, i}
			step.Requests = append(step.Requests, Request{Command: c, number: m.last})
		}
		if d.isBusy() {
			continue
		}
		if w := r.wakeTime(); w.After(now) && (step.Wake.IsZero() || w.Before(step.Wake)) {
			step.Wake = w
		}
	}
	return step
}

// Answer processes the answer to a request: QEMU's return value, QEMU's error, or the error that prevented an
// answer. Each request needs an answer; without it, its rule sends no more commands.
func (m *Machine) Answer(r Request, reply json.RawMessage, err error, now time.Time) {
	at, ok := m.inFlight[r.number]
	if !ok {
		return
	}
	delete(m.inFlight, r.number)
	at.dialogue.acceptAnswer(at.index, reply, err, now)
}

// Answers processes whether the server of one of Step.Servers answers. An error means that it does not answer,
// and would stop the guest.
func (m *Machine) Answers(address string, err error, now time.Time) {
	m.servers.noteAnswer(address, err, now)
}

// Opened processes the file of one of Step.Opens, or why it can't be opened. It reports whether a request now
// contains the file. If so, the caller must close the file when the request is answered, and otherwise
// immediately.
func (m *Machine) Opened(d Drive, file *os.File, err error, now time.Time) bool {
	return m.opener.noteOpened(d, file, err, now)
}

// CardOpened processes the descriptors for one of Step.Cards, or why its tap can't be opened. It reports whether
// requests now contain the descriptors. If so, the caller must close each when its request is answered, and otherwise
// immediately.
func (m *Machine) CardOpened(w CardWish, open OpenCard, err error, now time.Time) bool {
	return m.keeper.noteOpened(w, open, err, now)
}

// Placed processes the result of one of Step.Placements.
func (m *Machine) Placed(p Placement, err error, now time.Time) {
	if m.affinity != nil {
		m.affinity.placedThread(p, err, now)
	}
}

// Observe processes an event of QEMU.
func (m *Machine) Observe(e qmp.Event, now time.Time) {
	parsed, ok := parseEvent(e)
	if !ok {
		return
	}
	for _, r := range m.rules {
		r.observeEvent(parsed, now)
	}
}

// Doubt reports that events may have been missed (qmp.Session.Dropped). The missed state is queried.
func (m *Machine) Doubt() {
	for _, r := range m.rules {
		r.doubtState()
	}
}

// Facts returns the known state.
func (m *Machine) Facts() Facts {
	f := Facts{Media: map[int]Medium{}}
	for _, r := range m.rules {
		r.reportFacts(&f)
	}
	return f
}
