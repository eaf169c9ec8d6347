package launch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"vmop/internal/childprocess"
	"vmop/qmp"
	"vmop/runner/machine"
	"vmop/runner/prepare"
)

// Timeouts for the end of processes.
const (
	endTime       = 2 * time.Second        // for QEMU, after its monitor was closed
	helperEndTime = 200 * time.Millisecond // for all helpers, after QEMU has ended
)

// startError reports that a process ended before the guest ran.
type startError struct {
	// Process is the process's name, Exit its exit status, and Output the end of its output.
	Process string
	Exit    childprocess.Exit
	Output  string
	// Option is the option that the process complained about, if known. Origin is the place in the VM type that
	// created it.
	Option, Origin string
	// Advice explains what to do about the error; may be empty.
	Advice string
}

// Error returns the output and, if known, the advice and the line of the VM type.
func (e *startError) Error() string {
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

// Blame replaces an error about the closed monitor connection with its cause: how QEMU ended, its last output,
// and the option of the plan that the output is about. It returns other errors unchanged.
func (p *Processes) Blame(ctx context.Context, vm *prepare.VM, err error) error {
	if !errors.Is(err, qmp.ErrClosed) && !errors.Is(err, machine.ErrExited) {
		return err
	}
	select {
	case <-p.QEMU.Done():
	case <-time.After(endTime):
		return err
	}
	e := &startError{Process: vm.Plan.QEMU.Name, Exit: p.QEMU.Exit(), Output: strings.TrimSpace(p.QEMU.Tail())}
	if o := vm.Plan.QEMU.Blame(e.Output); o != nil {
		e.Option, e.Origin = strings.Join(o.Words(func(name string) string {
			return "<" + name + ">"
		}), " "), o.Origin.String()
	}
	e.Advice = adviceFor(vm, e.Output, func(program, flag string) string { return helpOf(ctx, program, flag) })
	e.Output = strings.TrimSpace(e.Output + p.endedHelpers())
	return e
}

// Suspects returns the names of helpers that an unresponsive QEMU may be waiting for. QEMU initializes its
// devices before it answers, and queries its TPM without a timeout.
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

// endedHelpers describes the helpers that have failed, because QEMU only notices that it gets no answer. They may
// be reaped shortly after QEMU, so endedHelpers waits briefly.
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
			fmt.Fprintf(&text, "\n%s ended, too: %s%s", h.Name(), exit, outputTail(h))
		}
	}
	return text.String()
}
