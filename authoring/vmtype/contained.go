package vmtype

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"vmop/authoring/vmtypestest"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/plan"
)

// contained evaluates the modules of a folder in limited processes.
type contained struct {
	source vmtypes.Source
	policy *policyCheck // checks the plans
}

var _ vmtypestest.Evaluator = contained{}

// containedIn reads the modules of a folder.
func containedIn(dir string, j *policyCheck) (contained, error) {
	source, err := vmtypes.ReadSource(dir)
	return contained{source, j}, err
}

// runTests runs the tests with matching names in a file, in one limited process. A nil match selects all tests.
func runTests(
	ctx context.Context, source vmtypes.Source, file string, match *regexp.Regexp,
) (results []vmtypestest.Result, err error) {
	err = evaluate.Test(ctx, source, file, match, &results)
	return results, err
}

// Test implements vmtypestest.Evaluator. The tests of a file share the limits of one process. If they reach a limit,
// each test runs again in a separate process, so that a single test does not hide the results of the others.
func (c contained) Test(ctx context.Context, file string, match *regexp.Regexp) []vmtypestest.Result {
	results, err := runTests(ctx, c.source, file, match)
	if err == nil {
		return results
	}
	if _, loads := runTests(ctx, c.source, file, regexp.MustCompile("^$")); loads != nil {
		return []vmtypestest.Result{{File: file, Failures: vmtypestest.FailuresOf(err)}}
	}
	results = nil
	for _, f := range vmtypes.DescribeModule(file, c.source.Modules[file]).Functions {
		r := vmtypestest.Result{File: file, Function: f.Name, Line: f.Line}
		if !strings.HasPrefix(f.Name, "test_") || match != nil && !match.MatchString(r.Name()) {
			continue
		}
		start := time.Now()
		one, err := runTests(ctx, c.source, file, regexp.MustCompile("^"+regexp.QuoteMeta(r.Name())+"$"))
		if err != nil {
			r.Time, r.Failures = time.Since(start), vmtypestest.FailuresOf(err)
			one = []vmtypestest.Result{r}
		}
		results = append(results, one...)
	}
	return results
}

// Launch implements vmtypestest.Evaluator.
func (c contained) Launch(ctx context.Context, vmType string, spec vmspec.Spec, host vmtypes.Host) (*plan.Plan, error) {
	t := evaluate.Type{Source: c.source, Name: vmType}
	if filepath.IsAbs(vmType) { // a file in any folder
		var err error
		if t, err = evaluate.Find("", vmType); err != nil {
			return nil, err
		}
	}
	p, err := t.Launch(ctx, spec, host)
	if err == nil {
		err = c.policy.checkPlan(p, vmType, host, spec.Options)
	}
	return p, err
}
