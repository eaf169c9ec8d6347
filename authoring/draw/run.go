package draw

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"vmop/authoring/sample"
	"vmop/authoring/textdiff"
	"vmop/internal/yamlfile"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// A Launch returns the plan of a type, like vmtypes.Type.Launch.
type Launch func(ctx context.Context, spec vmspec.Spec, host vmtypes.Host) (*plan.Plan, error)

// A Report is the result of Run.
type Report struct {
	// Drawn is the number of VMs, and Refused the number of VMs that the type refused.
	Drawn, Refused int
	// Reason is the reason for the last refusal; nil without a refusal.
	Reason error
	// Found are the smallest VMs with an error, at most one for each error.
	Found []Counterexample
}

// A Counterexample is a VM that makes a type fail.
type Counterexample struct {
	VM VM
	// Err is the error that the type returns for this VM.
	Err error
}

// Limits of a run.
const (
	mostFound   = 3
	mostShrinks = 400 // launches to reduce a VM
)

// Run draws number VMs and launches each twice. If the context ends, Run returns its cause.
func Run(ctx context.Context, from *Source, number int, launch Launch) (Report, error) {
	var r Report
	known := map[string]bool{}
	for range number {
		vm := from.Next()
		refusal, err := from.tryVM(ctx, &vm, launch)
		if ctx.Err() != nil {
			return r, context.Cause(ctx)
		}
		r.Drawn++
		switch {
		case refusal != nil:
			r.Refused++
			r.Reason = refusal
		case err == nil:
			from.Accept(vm)
		}
		if err == nil || known[kindOf(err)] {
			continue
		}
		known[kindOf(err)] = true
		if r.Found = append(r.Found, shrink(ctx, vm, err, launch)); len(r.Found) == mostFound {
			break
		}
	}
	return r, nil
}

// Accepted returns number VMs that the type accepts. It returns an error if the type fails for a VM, or refuses too
// many VMs.
func (s *Source) Accepted(ctx context.Context, number int, launch Launch) ([]VM, error) {
	var list []VM
	var refusal error
	for tries := 0; len(list) < number; tries++ {
		if tries > mostRefused+2*number {
			return nil, fmt.Errorf("only %d of %d drawn VMs were accepted; give keys that the type needs; the last refusal "+
				"was: %w", len(list), tries, refusal)
		}
		vm := s.Next()
		refused, err := s.tryVM(ctx, &vm, launch)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, fmt.Errorf("%w\nwith this VM; vmtype test --draw finds the smallest:\n%s", err,
				indent(vm.describeVM()))
		case refused != nil:
			refusal = refused
			continue
		}
		s.Accept(vm)
		list = append(list, vm)
	}
	return list, nil
}

// mostRefused is the maximum number of refused VMs, in addition to twice the number of wanted VMs.
const mostRefused = 200

// tryVM launches a VM. It removes fields that the type refuses, as long as that helps. It returns the reason if the
// type refuses the VM, or the error of the type.
func (s *Source) tryVM(ctx context.Context, vm *VM, launch Launch) (refusal, failure error) {
	for range mostRepairs {
		err := launchVM(ctx, *vm, launch, true)
		var fields *vmtypes.FieldsError
		switch {
		case isRefusal(err):
			return err, nil
		case refusal != nil && errors.As(err, new(yamlfile.Faults)):
			return refusal, nil // without the refused fields, the VM is no longer valid
		case !errors.As(err, &fields):
			return nil, err
		}
		if refusal != nil && refusal.Error() == err.Error() {
			break // the value was not removed, for example because the option is mandatory
		}
		refusal = err
		var faults yamlfile.Faults
		for _, f := range fields.Faults {
			faults = append(faults, yamlfile.Fault{Path: f.Path})
		}
		if !s.repair(*vm, faults) {
			break
		}
	}
	return refusal, nil
}

// isRefusal reports whether the type refused the VM by calling fail.
func isRefusal(err error) bool {
	var one *vmtypes.Error
	return errors.As(err, &one) && one.Refusal
}

// A differenceError means that a type computed two plans for one VM.
type differenceError struct{ diff string }

// Error implements error.
func (e *differenceError) Error() string {
	return "the type computes another plan for the same VM; a plan may depend only on the VM and the host:\n" + e.diff
}

// launchVM returns the error of launching a VM. With twice, a different second plan is an error.
func launchVM(ctx context.Context, vm VM, launch Launch, twice bool) error {
	spec, faults := vm.read()
	if faults != nil {
		return faults
	}
	facts, err := sample.ParseHost([]byte(cmp.Or(vm.hostText(), "{}")))
	if err != nil {
		return err
	}
	first, err := launch(ctx, spec, facts.Host())
	if err != nil || !twice {
		return err
	}
	second, err := launch(ctx, spec, facts.Host())
	if err != nil {
		return err
	}
	if first.Text() == second.Text() {
		return nil
	}
	var b strings.Builder
	for _, h := range textdiff.Hunks(first.Text(), second.Text()) {
		for _, l := range h.Lines {
			if l.Sign != ' ' {
				fmt.Fprintf(&b, "    %c%s\n", l.Sign, l.Text)
			}
		}
	}
	return &differenceError{strings.TrimSuffix(b.String(), "\n")}
}

// kindOf returns a text that is equal for the same error of different VMs: its place, or its first message without
// numbers and quoted words.
func kindOf(err error) string {
	var one *vmtypes.Error
	var faults *vmtypes.FaultsError
	message := err.Error()
	switch {
	case errors.As(err, &one) && one.Line > 0:
		return fmt.Sprintf("%s:%d:%d", one.File, one.Line, one.Column)
	case errors.As(err, &faults):
		message = faults.Faults[0].Message
		if origin := faults.Faults[0].Origin; len(origin) > 0 {
			return fmt.Sprintf("%T %s:%d", err, origin[0].File, origin[0].Line)
		}
	case errors.As(err, new(*differenceError)):
		return fmt.Sprintf("%T", err)
	}
	message, _, _ = strings.Cut(message, "\n")
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, message)
}

// shrink returns the smallest VM with the same kind of error.
func shrink(ctx context.Context, vm VM, err error, launch Launch) Counterexample {
	kind, tries := kindOf(err), 0
	for smaller := true; smaller; {
		smaller = false
		for _, candidate := range vm.simpler() {
			if tries++; tries > mostShrinks || ctx.Err() != nil {
				return Counterexample{vm, err}
			}
			other := launchVM(ctx, candidate, launch, errors.As(err, new(*differenceError)))
			if other == nil || isRefusal(other) || kindOf(other) != kind {
				continue
			}
			vm, err, smaller = candidate.clone(), other, true
			break
		}
	}
	return Counterexample{vm, err}
}

// Error returns the error and the VM.
func (c Counterexample) Error() string {
	return c.Err.Error() + "\nthis is the smallest VM with this error:\n" +
		strings.TrimSuffix(indent(c.VM.describeVM()), "\n")
}

// Archive returns the VM as a sample of the type without a plan, and the name of a file for it.
func (c Counterexample) Archive(vmType string) (name string, text []byte) {
	first, _, _ := strings.Cut(c.Err.Error(), "\n")
	hash := sha256.Sum256([]byte(c.VM.describeVM()))
	return fmt.Sprintf("%s-drawn-%x%s", vmType, hash[:4], sample.Suffix),
		c.VM.archive("A drawn VM. The type failed: "+first, vmType)
}
