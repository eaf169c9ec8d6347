package vmtype

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"vmop/authoring/revision"
	"vmop/authoring/vmtypestest"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/plan"
)

// contained evaluates the modules of a folder in limited processes. The caller must close it.
type contained struct {
	source vmtypes.Source
	policy *policyCheck // checks the plans
	idle   *idleProcesses
}

var _ vmtypestest.Evaluator = contained{}

// containedIn reads the modules of a folder.
func containedIn(dir string, j *policyCheck) (contained, error) {
	source, err := vmtypes.ReadSource(dir)
	return contained{source, j, &idleProcesses{}}, err
}

// close ends the processes that wait for work. Processes that are working end when they have finished.
func (c contained) close() { c.idle.closeAll() }

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

// Launch implements vmtypestest.Evaluator. The launches of a type share processes. If a launch ends a process that
// launched other VMs before, it runs again in a new process, so that each launch has all of the limits.
func (c contained) Launch(ctx context.Context, vmType string, spec vmspec.Spec, host vmtypes.Host) (*plan.Plan, error) {
	for {
		process, err := c.processFor(ctx, vmType)
		if err != nil {
			return nil, err
		}
		stop := context.AfterFunc(ctx, func() { process.cancel(context.Cause(ctx)) })
		p, err := process.member.Plan(ctx, spec, host)
		stop()
		first := process.launches == 0
		process.launches++
		if isAnswer(err) {
			c.idle.keepProcess(process)
			if err == nil {
				err = c.policy.checkPlan(p, vmType, host, spec.Options)
			}
			return p, err
		}
		process.close()
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case first:
			return nil, err
		}
	}
}

// sharedLaunches evaluates the types of revisions. The caller must close it.
type sharedLaunches struct {
	mu      sync.Mutex
	folders map[string]contained
}

// launch implements revision.Launch.
func (s *sharedLaunches) launch(
	ctx context.Context, t revision.Type, spec vmspec.Spec, host vmtypes.Host,
) (*plan.Plan, error) {
	if t.Archive != nil {
		types := evaluate.NewGroup(ctx)
		defer types.Close()
		return types.AddKept(t.Archive).Launch(ctx, spec, host)
	}
	in, err := s.folder(t.Dir)
	if err != nil {
		return nil, err
	}
	return in.Launch(ctx, t.Name, spec, host)
}

// folder returns the modules of a folder, and reads them only once.
func (s *sharedLaunches) folder(dir string) (contained, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in, known := s.folders[dir]; known {
		return in, nil
	}
	in, err := containedIn(dir, &policyCheck{given: func() bool { return false }})
	if err != nil {
		return contained{}, err
	}
	if s.folders == nil {
		s.folders = map[string]contained{}
	}
	s.folders[dir] = in
	return in, nil
}

func (s *sharedLaunches) close() {
	for _, in := range s.folders {
		in.close()
	}
}

// isAnswer reports whether the type itself caused the result of a launch. Otherwise its process has ended.
func isAnswer(err error) bool {
	return err == nil || errors.As(err, new(*vmtypes.Error)) || errors.As(err, new(vmtypes.Errors)) ||
		errors.As(err, new(*vmtypes.FaultsError)) || errors.As(err, new(*vmtypes.FieldsError))
}

// processFor returns an idle process of the type, or starts a process.
func (c contained) processFor(ctx context.Context, vmType string) (*typeProcess, error) {
	if process := c.idle.take(vmType); process != nil {
		return process, nil
	}
	t := evaluate.Type{Source: c.source, Name: vmType}
	if filepath.IsAbs(vmType) { // a file in any folder
		var err error
		if t, err = evaluate.Find("", vmType); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	process := &typeProcess{vmType: vmType, group: evaluate.NewGroup(ctx), cancel: cancel}
	var err error
	if process.member, err = process.group.Add(t); err != nil {
		process.close()
		return nil, err
	}
	return process, nil
}

// A typeProcess evaluates one type. It never evaluates two types, so that a type can affect only its own results.
type typeProcess struct {
	vmType   string
	group    *evaluate.Group
	member   *evaluate.Member
	cancel   context.CancelCauseFunc
	launches int
}

func (p *typeProcess) close() {
	p.group.Close()
	p.cancel(nil)
}

// mostLaunches is the maximum number of launches in a process, far below the limit of its processor time.
const mostLaunches = 200

// idleProcesses keeps the processes that were used last, at most one for each processor.
type idleProcesses struct {
	mu     sync.Mutex
	list   []*typeProcess
	closed bool
}

// take removes and returns a process of the type; nil if there is none.
func (i *idleProcesses) take(vmType string) *typeProcess {
	i.mu.Lock()
	defer i.mu.Unlock()
	for n, p := range i.list {
		if p.vmType == vmType {
			i.list = append(i.list[:n:n], i.list[n+1:]...)
			return p
		}
	}
	return nil
}

// keepProcess adds a process, or ends it or another if there are too many.
func (i *idleProcesses) keepProcess(p *typeProcess) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if p.launches < mostLaunches && !i.closed {
		i.list = append(i.list, p)
		p = nil
		if len(i.list) > runtime.GOMAXPROCS(0) {
			p, i.list = i.list[0], i.list[1:]
		}
	}
	if p != nil {
		p.close()
	}
}

func (i *idleProcesses) closeAll() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, p := range i.list {
		p.close()
	}
	i.list, i.closed = nil, true
}
