package reconcile

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/vmtypes/plan"
)

// The first and the longest pause before the guest is asked again to give up CPUs.
const (
	firstUnplug = 5 * time.Second
	lastUnplug  = 5 * time.Minute
)

// cpus plugs and unplugs CPUs until the machine has the wanted number.
//
// A CPU is plugged when QEMU answers. The driver and the properties are copied verbatim from
// query-hotpluggable-cpus, because QEMU 7.2 and 10.0 crash when a CPU of another model is plugged into a running
// machine. QEMU lists the highest slot first. Slots are filled from the lowest and cleared from the highest, so
// that the guest's CPUs have contiguous numbers.
//
// Unplugging is a request. The guest may take its time, or never comply. QEMU's events about it differ (without
// KVM, QEMU never sends DEVICE_DELETED for the CPU itself), so a CPU counts as gone when its slot is free.
type cpus struct {
	dialogue
	pace
	rule  plan.CPUs
	state *runState

	want    int
	slots   []cpuSlot
	count   int  // plugged CPUs; 0: unknown
	known   bool // count and slots (if any) are up to date
	problem string
	changes int // number of updates of the slots

	support  unplugSupport
	leaving  []string      // IDs of the CPUs that the guest was asked to give up
	deadline time.Time     // for the guest to give them up
	patience time.Duration // the time that the guest was given
}

// cpuSlot is a slot for a CPU; see HotpluggableCPU in QEMU's QMP reference.
type cpuSlot struct {
	Type  string          `json:"type"`
	Props json.RawMessage `json:"props"`
	// Path is the plugged CPU's path in QEMU's object tree; empty if the slot is free.
	Path string `json:"qom-path"`
}

// slotID returns the ID of a CPU that can be unplugged, and "" for other CPUs.
func (s cpuSlot) slotID() string {
	id, ok := strings.CutPrefix(s.Path, peripheral)
	if !ok {
		return ""
	}
	return id
}

func newCPUs(r plan.CPUs, state *runState, start Start) *cpus {
	c := &cpus{rule: r, state: state}
	if !start.Running {
		c.count, c.known = r.Boot, true
	}
	return c
}

func (c *cpus) nextStep(want *Desired, now time.Time) {
	if want.CPUs <= 0 || c.isBusy() {
		return
	}
	if want.CPUs != c.want {
		c.want, c.problem, c.pace = want.CPUs, "", pace{}
		c.deadline, c.patience = time.Time{}, 0
	}
	if !c.isReady(now) {
		return
	}
	if !c.known || (c.slots == nil && c.want != c.count) {
		if c.hasRested(now) {
			c.querySlots()
		}
		return
	}
	goal := c.reachableGoal()
	switch {
	case c.count < goal:
		c.plugMissing(goal - c.count)
	case c.count > goal:
		c.unplugExcess(c.count-goal, now)
	case len(c.leaving) > 0:
		c.lingerForCPUs(now)
	default:
		c.problem = c.outOfReach()
		c.deadline, c.patience = time.Time{}, 0
		c.forgetFailures()
	}
}

// querySlots asks for the slots and their CPUs.
func (c *cpus) querySlots() {
	c.known = true // later events clear it again
	c.sendBatch(func(answers []answer, now time.Time) {
		slots, err := readSlots(answers[0])
		if err != nil {
			c.noteFailure(fmt.Errorf("ask for the CPUs: %w", err), now)
			return
		}
		c.slots, c.tried = slots, now
		c.recountSlots()
	}, qmp.Command{Execute: "query-hotpluggable-cpus"})
}

// readSlots decodes the answer to query-hotpluggable-cpus.
func readSlots(a answer) ([]cpuSlot, error) {
	var slots []cpuSlot
	if err := a.decodeInto(&slots); err != nil {
		return nil, err
	}
	if len(slots) == 0 {
		return nil, errors.New("the machine has no place for CPUs")
	}
	for _, s := range slots {
		if s.Type == "" || json.Unmarshal(s.Props, &map[string]any{}) != nil {
			return nil, errors.New("a place for a CPU lacks the CPU's properties")
		}
	}
	return slots, nil
}

func (c *cpus) recountSlots() {
	c.changes++
	c.count = 0
	there := map[string]bool{}
	for _, s := range c.slots {
		if s.Path != "" {
			c.count++
			there[s.slotID()] = true
		}
	}
	c.leaving = slices.DeleteFunc(c.leaving, func(id string) bool { return !there[id] })
}

// countFixed returns the number of CPUs that can't be unplugged.
func (c *cpus) countFixed() int {
	n := 0
	for _, s := range c.slots {
		if s.Path != "" && s.slotID() == "" {
			n++
		}
	}
	return n
}

// reachableGoal returns the possible number of CPUs that is closest to the wanted number.
func (c *cpus) reachableGoal() int {
	if c.slots == nil {
		return c.want
	}
	return max(min(c.want, len(c.slots)), c.countFixed())
}

// outOfReach returns why the wanted number of CPUs is not possible, or "".
func (c *cpus) outOfReach() string {
	switch goal := c.reachableGoal(); {
	case goal < c.want:
		return fmt.Sprintf("%d CPUs are wanted, the machine has places for %d", c.want, goal)
	case goal > c.want:
		return fmt.Sprintf("%d CPUs are wanted, %d of the machine cannot be unplugged", c.want, goal)
	}
	return ""
}

// noteFailure records an error. QEMU is queried again before the next attempt.
func (c *cpus) noteFailure(err error, now time.Time) {
	c.problem, c.known = err.Error(), false
	c.delayNext(now)
}

// plugMissing fills the lowest free slots.
func (c *cpus) plugMissing(missing int) {
	var commands []qmp.Command
	var filled []int
	number := 0
	for i := len(c.slots) - 1; i >= 0 && len(commands) < missing; i-- {
		if c.slots[i].Path != "" {
			continue
		}
		number = c.freeNumber(number + 1)
		filled = append(filled, i)
		commands = append(commands, c.slots[i].plugCommand(c.idOf(number)))
	}
	c.sendBatch(func(answers []answer, now time.Time) {
		for k, a := range answers {
			if a.err == nil {
				c.slots[filled[k]].Path = peripheral + a.command.Arguments.(map[string]any)["id"].(string)
			}
		}
		c.recountSlots()
		if err := firstError(answers); err != nil {
			c.noteFailure(fmt.Errorf("plug a CPU in: %w", err), now)
		}
	}, commands...)
}

func (c *cpus) idOf(number int) string { return fmt.Sprintf(c.rule.ID, number) }

// freeNumber returns the first number from n with an unused ID.
func (c *cpus) freeNumber(n int) int {
	for slices.ContainsFunc(c.slots, func(s cpuSlot) bool { return s.Path == peripheral+c.idOf(n) }) {
		n++
	}
	return n
}

// plugCommand returns the command that fills the slot.
func (s cpuSlot) plugCommand(id string) qmp.Command {
	args := map[string]any{}
	_ = json.Unmarshal(s.Props, &args) // readSlots has checked them
	args["driver"], args["id"] = s.Type, id
	return qmp.Command{Execute: "device_add", Arguments: args}
}

func (c *cpus) observeEvent(e event, _ time.Time) {
	switch e.name {
	case "ACPI_DEVICE_OST":
		info := e.data.Info
		if info.SlotType != "CPU" || len(c.leaving) == 0 {
			return
		}
		if isRefusedEvent(info.Source, info.Status) {
			c.problem = fmt.Sprintf("the guest refuses to give up CPU %s (ACPI status %#x)", info.Device, info.Status)
		}
	case "DEVICE_UNPLUG_GUEST_ERROR":
		if slices.Contains(c.leaving, e.data.Device) {
			c.problem = fmt.Sprintf("the guest refuses to give up CPU %s", e.data.Device)
		}
		return
	case "DEVICE_DELETED", "RESET":
		if len(c.leaving) == 0 {
			return
		}
	default:
		return
	}
	c.known = false
	c.hurryUp()
}

func (c *cpus) doubtState() {
	if c.slots != nil {
		c.known = false
	}
}

func (c *cpus) reportFacts(f *Facts) {
	f.CPUs = c.count
	f.addProblem("vm.currentCpus", c.problem)
}
