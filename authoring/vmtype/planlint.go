package vmtype

import (
	"context"
	"errors"
	"slices"

	"vmop/authoring/introspect"
	"vmop/authoring/lint"
	"vmop/authoring/revision"
	"vmop/authoring/sample"
	"vmop/vmtypes/plan"
)

// mostPlans is the maximum number of plans in memory. A plan with its origins takes about 100 KB.
const mostPlans = 64

// A planLint checks plans, each with its QEMU. It keeps only their findings. The caller must close it.
type planLint struct {
	*linting
	folder  *lint.Folder
	pending []*plan.Plan
	found   []lint.Finding
	qemus   map[string]*introspect.QEMU // nil for a program that is not installed
}

// addPlan adds a plan.
func (p *planLint) addPlan(ctx context.Context, made *plan.Plan) error {
	p.pending = append(p.pending, made)
	if len(p.pending) < mostPlans {
		return nil
	}
	return p.checkPending(ctx)
}

// checkPending checks the plans in memory.
func (p *planLint) checkPending(ctx context.Context) error {
	plans := map[string][]*plan.Plan{}
	for _, made := range p.pending {
		program := p.qemu
		if program == "" {
			program = made.QEMU.Executable
		}
		plans[program] = append(plans[program], made)
	}
	p.pending = nil
	for program, made := range plans {
		if _, known := p.qemus[program]; !known {
			qemu, err := p.openQEMU(ctx, program)
			if err != nil {
				return err
			}
			p.qemus[program] = qemu
			if qemu != nil {
				p.folder.Unasked = p.tooNew(qemu.Name())
			}
		}
		for _, f := range p.folder.PlanFindings(made, knownBy(p.qemus[program])) {
			if !slices.ContainsFunc(p.found, f.Equals) {
				p.found = append(p.found, f)
			}
		}
	}
	return nil
}

// findings returns the findings in the plans and in the modules of the folder. It only checks the modules with a QEMU
// if all plans use the same QEMU.
func (p *planLint) findings(ctx context.Context) ([]lint.Finding, error) {
	if err := p.checkPending(ctx); err != nil {
		return nil, err
	}
	if len(p.qemus) == 1 {
		for _, qemu := range p.qemus {
			p.folder.Around.QEMU = knownBy(qemu)
		}
	}
	return lint.Sort(append(p.folder.Findings(), p.found...)), nil
}

// addPlans adds the plans of a type for the samples of this type. It returns their number, and the last reason why a
// sample has no plan.
func (p *planLint) addPlans(
	ctx context.Context, r *revision.Revision, name string, samples []*sample.Sample,
) (added int, reason, err error) {
	for _, s := range samples {
		if s.Type != name {
			continue
		}
		made, why := r.Plan(ctx, name, s)
		if ctx.Err() != nil {
			return added, reason, context.Cause(ctx)
		}
		p.folder.AddFaults(name, why)
		if made == nil {
			reason = why
			continue
		}
		added++
		if err := p.addPlan(ctx, made); err != nil {
			return added, reason, err
		}
	}
	return added, reason, nil
}

// knownBy returns the QEMU for the rules; nil if it is not installed.
func knownBy(qemu *introspect.QEMU) lint.QEMU {
	if qemu == nil {
		return nil
	}
	return qemu
}

func (p *planLint) close() error {
	var errs []error
	for _, qemu := range p.qemus {
		if qemu != nil {
			errs = append(errs, qemu.Close())
		}
	}
	return errors.Join(errs...)
}
