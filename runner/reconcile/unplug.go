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
// Without KVM it can't: when CPUs are plugged in later, QEMU 7.2 uses what it has freed, and 10.0 has no TCG context
// left (tcg_register_thread: assertion failed).
type unplugSupport struct {
	asked   bool
	missing string // why it cannot; "" if it can
}

// learn reads the answer to query-kvm.
func (u *unplugSupport) learn(answers []answer) error {
	var kvm struct{ Enabled bool }
	if err := answers[0].decode(&kvm); err != nil {
		return fmt.Errorf("ask what QEMU can do: %w", err)
	}
	u.asked = true
	if !kvm.Enabled {
		u.missing = "QEMU cannot unplug CPUs without KVM: it would crash when one is plugged in later. The VM has fewer CPUs " +
			"after its next start"
	}
	return nil
}

// unplug asks the guest to give up so many CPUs, the highest first.
func (c *cpus) unplug(excess int, now time.Time) {
	switch {
	case !c.support.asked:
		c.send(func(answers []answer, now time.Time) {
			if err := c.support.learn(answers); err != nil {
				c.fail(err, now)
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
		c.await(now)
		return
	case c.patience > 0 && !strings.Contains(c.problem, "refuses"):
		c.problem = fmt.Sprintf("the guest has not given up %d of %d CPUs", excess, c.count)
	case c.patience == 0:
		c.problem = ""
	}
	var commands []qmp.Command
	for _, s := range c.slots {
		if id := s.id(); id != "" && len(commands) < excess {
			if !slices.Contains(c.leaving, id) {
				c.leaving = append(c.leaving, id) // also if the answer is lost
			}
			commands = append(commands, qmp.Command{Execute: "device_del", Arguments: map[string]any{"id": id}})
		}
	}
	c.send(func(answers []answer, now time.Time) {
		if err := fault(answers); err != nil {
			c.fail(fmt.Errorf("unplug a CPU: %w", err), now)
			return
		}
		c.patience = min(max(2*c.patience, firstUnplug), lastUnplug)
		c.deadline = now.Add(c.patience)
		c.await(now)
	}, commands...)
}

// await looks at the CPUs again at the deadline, or when something happens.
func (c *cpus) await(now time.Time) {
	c.known = false
	c.until(c.deadline, now)
}

// linger waits for CPUs that the guest was asked to give up and that are wanted
// again meanwhile: those that it gives up nevertheless are plugged in again.
func (c *cpus) linger(now time.Time) {
	c.problem = c.outOfReach()
	if c.deadline.IsZero() {
		c.deadline = now.Add(lastPause)
	}
	if now.Before(c.deadline) {
		c.await(now)
		return
	}
	c.leaving, c.deadline, c.patience = nil, time.Time{}, 0
	c.succeeded()
}

// The meaning of ACPI_DEVICE_OST; see _OST in the ACPI specification, 6.3.5.
const (
	ejectRequest    = 0x3   // the machine asked for the device
	ejectOSPM       = 0x103 // the guest gives it up by itself
	ejectInProgress = 0x84
)

// refused says that the guest will keep a device.
func refused(source, status int) bool {
	return (source == ejectRequest || source == ejectOSPM) && status != 0 && status != ejectInProgress
}
