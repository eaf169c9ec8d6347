package runner

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"vmop/runner/process"
	"vmop/runner/qmp"
)

// endTime is how long a closed monitor waits for the end of its process.
const endTime = 2 * time.Second

// StartError says that a process ended before the guest ran.
type StartError struct {
	// Process is its name, Exit how it ended, Output the last it said.
	Process string
	Exit    process.Exit
	Output  string
	// Option, if it is known, is what the process complained about, and Origin
	// where the VM type made it.
	Option, Origin string
}

// Error returns the output and, if it is known, the line of the VM type.
func (e *StartError) Error() string {
	s := fmt.Sprintf("%s ended while the VM was being started: %s", e.Process, e.Exit)
	if e.Output != "" {
		s += "\n  " + strings.ReplaceAll(e.Output, "\n", "\n  ")
	}
	if e.Option != "" {
		s += "\nthe option " + e.Option + "\n  was made at " + e.Origin
	}
	return s
}

// blame turns the end of the monitor's connection into the reason for it: how
// QEMU ended, what it said, and which option it was about.
func (m *machine) blame(err error) error {
	if !errors.Is(err, qmp.ErrClosed) || m.qemu == nil {
		return err
	}
	select {
	case <-m.qemu.Done():
	case <-time.After(endTime):
		return err
	}
	e := &StartError{Process: m.vm.Plan.QEMU.Name, Exit: m.qemu.Exit(), Output: strings.TrimSpace(m.qemu.Tail())}
	if o := m.vm.Plan.QEMU.Blame(e.Output); o != nil {
		e.Option, e.Origin = strings.Join(o.Words(func(name string) string { return "<" + name + ">" }), " "), o.Origin.String()
	}
	for _, h := range m.helpers {
		select {
		case <-h.Done():
			if exit := h.Exit(); exit.Code != 0 || exit.Signal != 0 {
				e.Output += tail(h)
			}
		default:
		}
	}
	return e
}
