package vmtypes

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.starlark.net/starlark"

	"vmop/vmspec"
)

// A Cost is what a function has taken while a plan was made.
type Cost struct {
	// File, Line and Function are where it is defined.
	File     string `json:"file"`
	Line     int    `json:"line"`
	Function string `json:"function"`
	// Steps are the interpreter's, and Time, in the function itself and the
	// builtins that it calls.
	Steps uint64        `json:"steps"`
	Time  time.Duration `json:"time"`
	// AllSteps and AllTime include the functions that it calls.
	AllSteps uint64        `json:"allSteps"`
	AllTime  time.Duration `json:"allTime"`
}

// Profile makes a plan as Launch does, and returns what each function has taken,
// the one with the most steps first. Steps are the same each time. Times are not,
// and those of single steps are too short to be exact.
func (t *Type) Profile(ctx context.Context, spec vmspec.Spec, host Host) ([]Cost, error) {
	p := &profiler{costs: map[*starlark.Function]*Cost{}}
	_, err := t.launchIn(ctx, spec, host, p.attach)
	p.settle(time.Now())
	if err != nil {
		return nil, err
	}
	var list []Cost
	for _, c := range p.costs {
		list = append(list, *c)
	}
	slices.SortFunc(list, func(a, b Cost) int {
		return cmp.Or(-cmp.Compare(a.Steps, b.Steps), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return list, nil
}

// profiler looks at a thread before each of its steps.
type profiler struct {
	costs map[*starlark.Function]*Cost
	stack []*Cost // of the step that is being done, innermost first
	since time.Time
}

// attach has the thread stop at every step: its limit is always the next one.
func (p *profiler) attach(thread *starlark.Thread) {
	p.since = time.Now()
	thread.OnMaxSteps = p.step
	thread.SetMaxExecutionSteps(1)
}

func (p *profiler) step(thread *starlark.Thread) {
	p.settle(time.Now())
	p.stack = p.stack[:0]
	for i := range thread.CallStackDepth() {
		fn, ok := thread.DebugFrame(i).Callable().(*starlark.Function)
		if !ok {
			continue
		}
		c := p.costs[fn]
		if c == nil {
			at := fn.Position()
			c = &Cost{File: at.Filename(), Line: int(at.Line), Function: fn.Name()}
			p.costs[fn] = c
		}
		if len(p.stack) == 0 {
			c.Steps++
		}
		c.AllSteps++
		p.stack = append(p.stack, c)
	}
	if thread.ExecutionSteps() >= maxSteps {
		thread.Cancel("too many steps")
		return
	}
	thread.SetMaxExecutionSteps(thread.ExecutionSteps() + 1)
	p.since = time.Now() // looking doesn't count
}

// settle adds the time of the step that was done. No function is twice in a
// stack: there is no recursion.
func (p *profiler) settle(now time.Time) {
	took := now.Sub(p.since)
	for i, c := range p.stack {
		if i == 0 {
			c.Time += took
		}
		c.AllTime += took
	}
}
