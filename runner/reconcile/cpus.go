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

// How long the guest may take to give up CPUs before it is asked again.
const (
	firstUnplug = 5 * time.Second
	lastUnplug  = 5 * time.Minute
)

// cpus plugs and unplugs CPUs until as many as wanted are there.
//
// Plugging is done when QEMU answers. The driver and the properties are taken
// verbatim from query-hotpluggable-cpus: QEMU 7.2 and 10.0 crash when a CPU of
// another model is plugged into a running machine. QEMU lists the highest slot
// first; slots are filled from the lowest and cleared from the highest, so that
// the guest's CPUs have contiguous numbers.
//
// Unplugging is a wish that the guest may take its time for, or never fulfil.
// What QEMU says about it differs (without KVM it never says DEVICE_DELETED of
// the CPU itself), so a CPU has gone when its slot is free.
type cpus struct {
	dialogue
	pace
	rule  plan.CPUs
	state *runState

	want    int
	slots   []cpuSlot
	count   int  // of plugged CPUs; 0: not known
	known   bool // the count, and the slots if there are any, are up to date
	problem string
	changes int // of the places that are taken

	support  unplugSupport
	leaving  []string      // ids of the CPUs that the guest was asked to give up
	deadline time.Time     // for it to do so
	patience time.Duration // that it was given
}

// cpuSlot is a place for a CPU; see HotpluggableCPU in QEMU's QMP reference.
type cpuSlot struct {
	Type  string          `json:"type"`
	Props json.RawMessage `json:"props"`
	// Path is the plugged CPU's place in QEMU's object tree; empty means that
	// the slot is free.
	Path string `json:"qom-path"`
}

// id of a CPU that can be unplugged; "" for the others.
func (s cpuSlot) id() string {
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

func (c *cpus) next(want *Desired, now time.Time) {
	if want.CPUs <= 0 || c.busy() {
		return
	}
	if want.CPUs != c.want {
		c.want, c.problem, c.pace = want.CPUs, "", pace{}
		c.deadline, c.patience = time.Time{}, 0
	}
	if !c.ready(now) {
		return
	}
	if !c.known || (c.slots == nil && c.want != c.count) {
		if c.rested(now) {
			c.query()
		}
		return
	}
	goal := c.goal()
	switch {
	case c.count < goal:
		c.plug(goal - c.count)
	case c.count > goal:
		c.unplug(c.count-goal, now)
	case len(c.leaving) > 0:
		c.linger(now)
	default:
		c.problem = c.outOfReach()
		c.deadline, c.patience = time.Time{}, 0
		c.succeeded()
	}
}

// query asks which slots there are and which are taken.
func (c *cpus) query() {
	c.known = true // what happens from now on makes it untrue again
	c.send(func(answers []answer, now time.Time) {
		slots, err := readSlots(answers[0])
		if err != nil {
			c.fail(fmt.Errorf("ask for the CPUs: %w", err), now)
			return
		}
		c.slots, c.tried = slots, now
		c.recount()
	}, qmp.Command{Execute: "query-hotpluggable-cpus"})
}

// readSlots reads the answer to query-hotpluggable-cpus.
func readSlots(a answer) ([]cpuSlot, error) {
	var slots []cpuSlot
	if err := a.decode(&slots); err != nil {
		return nil, err
	}
	if len(slots) == 0 {
		return nil, errors.New("the machine has no place for CPUs")
	}
	for _, s := range slots {
		if s.Type == "" || json.Unmarshal(s.Props, &map[string]any{}) != nil {
			return nil, errors.New("there is a place that says nothing of its CPU")
		}
	}
	return slots, nil
}

func (c *cpus) recount() {
	c.changes++
	c.count = 0
	there := map[string]bool{}
	for _, s := range c.slots {
		if s.Path != "" {
			c.count++
			there[s.id()] = true
		}
	}
	c.leaving = slices.DeleteFunc(c.leaving, func(id string) bool { return !there[id] })
}

// fixed is how many CPUs can't be unplugged.
func (c *cpus) fixed() int {
	n := 0
	for _, s := range c.slots {
		if s.Path != "" && s.id() == "" {
			n++
		}
	}
	return n
}

// goal is the number of CPUs next to the wanted one that can be reached.
func (c *cpus) goal() int {
	if c.slots == nil {
		return c.want
	}
	return max(min(c.want, len(c.slots)), c.fixed())
}

// outOfReach says why the wanted number of CPUs is not the goal.
func (c *cpus) outOfReach() string {
	switch goal := c.goal(); {
	case goal < c.want:
		return fmt.Sprintf("%d CPUs are wanted, the machine has places for %d", c.want, goal)
	case goal > c.want:
		return fmt.Sprintf("%d CPUs are wanted, %d of the machine cannot be unplugged", c.want, goal)
	}
	return ""
}

// fail notes what went wrong; before the next attempt, QEMU is asked what is
// true.
func (c *cpus) fail(err error, now time.Time) {
	c.problem, c.known = err.Error(), false
	c.failed(now)
}

// plug fills the lowest free slots.
func (c *cpus) plug(missing int) {
	var commands []qmp.Command
	var filled []int
	number := 0
	for i := len(c.slots) - 1; i >= 0 && len(commands) < missing; i-- {
		if c.slots[i].Path != "" {
			continue
		}
		number = c.freeNumber(number + 1)
		filled = append(filled, i)
		commands = append(commands, c.slots[i].plug(c.id(number)))
	}
	c.send(func(answers []answer, now time.Time) {
		for k, a := range answers {
			if a.err == nil {
				c.slots[filled[k]].Path = peripheral + a.command.Arguments.(map[string]any)["id"].(string)
			}
		}
		c.recount()
		if err := fault(answers); err != nil {
			c.fail(fmt.Errorf("plug a CPU in: %w", err), now)
		}
	}, commands...)
}

func (c *cpus) id(number int) string { return fmt.Sprintf(c.rule.ID, number) }

// freeNumber returns the first number from n on whose id is not taken.
func (c *cpus) freeNumber(n int) int {
	for slices.ContainsFunc(c.slots, func(s cpuSlot) bool { return s.Path == peripheral+c.id(n) }) {
		n++
	}
	return n
}

// plug returns the command that fills the slot.
func (s cpuSlot) plug(id string) qmp.Command {
	args := map[string]any{}
	_ = json.Unmarshal(s.Props, &args) // readSlots has looked at them
	args["driver"], args["id"] = s.Type, id
	return qmp.Command{Execute: "device_add", Arguments: args}
}

func (c *cpus) observe(e event, _ time.Time) {
	switch e.name {
	case "ACPI_DEVICE_OST":
		info := e.data.Info
		if info.SlotType != "CPU" || len(c.leaving) == 0 {
			return
		}
		if refused(info.Source, info.Status) {
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
	c.hurry()
}

func (c *cpus) doubt() {
	if c.slots != nil {
		c.known = false
	}
}

func (c *cpus) report(f *Facts) {
	f.CPUs = c.count
	f.add("vm.currentCpus", c.problem)
}
