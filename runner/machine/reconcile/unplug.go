package reconcile

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"vmop/qmp"
)

// unplugSupport reports whether this QEMU can unplug CPUs.
//
// It can't without KVM. When CPUs are plugged in later, QEMU 7.2 uses freed memory, and 10.0 has no TCG context
// left (tcg_register_thread: assertion failed).
type unplugSupport struct {
	asked   bool
	missing string // why it can't; "" if it can
}

// learnFrom decodes the answer to query-kvm.
func (u *unplugSupport) learnFrom(answers []answer) error {
	var kvm struct{ Enabled bool }
	if err := answers[0].decodeInto(&kvm); err != nil {
		return fmt.Errorf("ask what QEMU can do: %w", err)
	}
	u.asked = true
	if !kvm.Enabled {
		u.missing = "QEMU cannot unplug CPUs without KVM: it would crash when one is plugged in later. The VM has fewer CPUs " +
			"after its next start"
	}
	return nil
}

// unplugExcess asks the guest to give up excess CPUs, the highest first.
func (c *cpus) unplugExcess(excess int, now time.Time) {
	switch {
	case !c.support.asked:
		c.sendBatch(func(answers []answer, now time.Time) {
			if err := c.support.learnFrom(answers); err != nil {
				c.noteFailure(err, now)
			}
		}, qmp.Command{Execute: "query-kvm"})
		return
	case c.support.missing != "":
		c.problem = c.support.missing
		return
	case !c.state.running:
		c.problem = "CPUs are unplugged when the guest runs again"
		return
	case now.Before(c.deadline):
		c.awaitUnplug(now)
		return
	case c.patience > 0 && !strings.Contains(c.problem, "refuses"):
		c.problem = fmt.Sprintf("the guest has not given up %d of %d CPUs", excess, c.count)
	case c.patience == 0:
		c.problem = ""
	}
	var commands []qmp.Command
	for _, s := range c.slots {
		if id := s.slotID(); id != "" && len(commands) < excess {
			if !slices.Contains(c.leaving, id) {
				c.leaving = append(c.leaving, id) // even if the answer is lost
			}
			commands = append(commands, qmp.Command{Execute: "device_del", Arguments: map[string]any{"id": id}})
		}
	}
	c.sendBatch(func(answers []answer, now time.Time) {
		if err := firstError(answers); err != nil {
			c.noteFailure(fmt.Errorf("unplug a CPU: %w", err), now)
			return
		}
		c.patience = min(max(2*c.patience, firstUnplug), lastUnplug)
		c.deadline = now.Add(c.patience)
		c.awaitUnplug(now)
	}, commands...)
}

// awaitUnplug checks the CPUs again at the deadline, or when something happens.
func (c *cpus) awaitUnplug(now time.Time) {
	c.known = false
	c.lookAt(c.deadline, now)
}

// lingerForCPUs waits for CPUs that the guest was asked to give up, but that are wanted again in the meantime. If the
// guest does give them up, they are plugged in again.
func (c *cpus) lingerForCPUs(now time.Time) {
	c.problem = c.outOfReach()
	if c.deadline.IsZero() {
		c.deadline = now.Add(lastPause)
	}
	if now.Before(c.deadline) {
		c.awaitUnplug(now)
		return
	}
	c.leaving, c.deadline, c.patience = nil, time.Time{}, 0
	c.forgetFailures()
}

// Values of ACPI_DEVICE_OST; see _OST in the ACPI specification, 6.3.5.
const (
	ejectRequest    = 0x3   // the machine requested the removal
	ejectOSPM       = 0x103 // the guest gives it up by itself
	ejectInProgress = 0x84
)

// isRefusedEvent reports whether the guest will keep a device.
func isRefusedEvent(source, status int) bool {
	return (source == ejectRequest || source == ejectOSPM) && status != 0 && status != ejectInProgress
}
