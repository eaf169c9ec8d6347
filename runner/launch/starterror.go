package launch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"vmop/process"
	"vmop/qmp"
	"vmop/runner/machine"
	"vmop/runner/prepare"
)

// Times that ends are waited for.
const (
	endTime       = 2 * time.Second        // of the process, when its monitor is closed
	helperEndTime = 200 * time.Millisecond // of all helpers, when QEMU has ended
)

// StartError says that a process ended before the guest ran.
type StartError struct {
	// Process is its name, Exit how it ended, Output the last it said.
	Process string
	Exit    process.Exit
	Output  string
	// Option, if it is known, is what the process complained about, and Origin
	// where the VM type made it.
	Option, Origin string
	// Advice is what to do about it; may be empty.
	Advice string
}

// Error returns the output and, as far as they are known, what to do and the line of the
// VM type.
func (e *StartError) Error() string {
	s := fmt.Sprintf("%s ended while the VM was being started: %s", e.Process, e.Exit)
	if e.Output != "" {
		s += "\n  " + strings.ReplaceAll(e.Output, "\n", "\n  ")
	}
	if e.Advice != "" {
		s += "\n" + e.Advice
	}
	if e.Option != "" {
		s += "\nthe option " + e.Option + "\n  was made at " + e.Origin
	}
	return s
}

// Blame turns the end of the monitor's connection into the reason for it: how
// QEMU ended, what it said, and which option of the plan it was about. Any other error
// it returns as it is.
func (p *Processes) Blame(ctx context.Context, vm *prepare.VM, err error) error {
	if !errors.Is(err, qmp.ErrClosed) && !errors.Is(err, machine.ErrExited) {
		return err
	}
	select {
	case <-p.QEMU.Done():
	case <-time.After(endTime):
		return err
	}
	e := &StartError{Process: vm.Plan.QEMU.Name, Exit: p.QEMU.Exit(), Output: strings.TrimSpace(p.QEMU.Tail())}
	if o := vm.Plan.QEMU.Blame(e.Output); o != nil {
		e.Option, e.Origin = strings.Join(o.Words(func(name string) string {
			return "<" + name + ">"
		}), " "), o.Origin.String()
	}
	e.Advice = adviceFor(vm, e.Output, func(program, flag string) string { return help(ctx, program, flag) })
	e.Output = strings.TrimSpace(e.Output + p.endedHelpers())
	return e
}

// Suspects names the helpers that a QEMU that doesn't answer may wait for: it
// sets its devices up before it answers, and asks its TPM without a time-out.
func (p *Processes) Suspects() string {
	var names []string
	for _, h := range p.Helpers {
		names = append(names, fmt.Sprintf("%s (process %d)", h.Name(), h.Pid()))
	}
	if names == nil {
		return ""
	}
	return "; does it wait for " + strings.Join(names, ", ") + "?"
}

// endedHelpers tells of the helpers that have ended badly: QEMU knows only that
// it gets no answer. Their ends may be noticed a moment after QEMU's.
func (p *Processes) endedHelpers() string {
	var text strings.Builder
	late := time.After(helperEndTime)
	for _, h := range p.Helpers {
		select {
		case <-h.Done():
		case <-late:
			return text.String()
		}
		if exit := h.Exit(); exit.Code != 0 || exit.Signal != 0 {
			fmt.Fprintf(&text, "\n%s ended, too: %s%s", h.Name(), exit, tail(h))
		}
	}
	return text.String()
}
