package vmtype

import (
	"context"
	"path/filepath"
	"regexp"

	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/vmtypestest"
)

// contained evaluates the modules of a folder where they can do no harm.
type contained struct{ source vmtypes.Source }

var _ vmtypestest.Evaluator = contained{}

// containedIn reads the modules of a folder.
func containedIn(dir string) (contained, error) {
	source, err := vmtypes.ReadSource(dir)
	return contained{source}, err
}

// Test implements vmtypestest.Evaluator.
func (c contained) Test(ctx context.Context, file string, match *regexp.Regexp) []vmtypestest.Result {
	results, err := evaluate.Test(ctx, c.source, file, match)
	if err != nil {
		return []vmtypestest.Result{{File: file, Failures: vmtypestest.FailuresOf(err)}}
	}
	return results
}

// Launch implements vmtypestest.Evaluator.
func (c contained) Launch(ctx context.Context, vmType string, spec vmspec.Spec, host vmtypes.Host) (*plan.Plan, error) {
	t := evaluate.Type{Source: c.source, Name: vmType}
	if filepath.IsAbs(vmType) { // a file anywhere
		var err error
		if t, err = evaluate.Find("", vmType); err != nil {
			return nil, err
		}
	}
	return t.Launch(ctx, spec, host)
}
