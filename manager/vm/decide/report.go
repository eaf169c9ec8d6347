package decide

import (
	"errors"
	"time"
)

// Obstacle is the reason why a step isn't done; nil means that the step is done. A step that fails without an obstacle
// returns an error and is repeated.
type Obstacle interface{ isObstacle() }

// Waiting means that the VM waits for something that happens without user action.
type Waiting struct {
	Reason, Message string
	// Until is when to try again even without a change; zero means never.
	Until time.Time
}

// Stalled means that a user or an administrator must change something.
type Stalled struct{ Reason, Message string }

func (Waiting) isObstacle() {}
func (Stalled) isObstacle() {}

// Problem is a deviation from the definition. Problems form the message of the condition Reconciled.
type Problem struct{ Reason, Message string }

// Report contains what one or several steps could not do.
type Report struct {
	// Obstacle of the step; for several steps, the first obstacle.
	Obstacle Obstacle
	// Problems are all problems, in the order in which they were found.
	Problems []Problem
	// Again is when to reconcile again even without a change; zero means never.
	Again time.Time
	// Err is an error that calls for another attempt soon.
	Err error
}

// Append adds the report of the next step.
func (r *Report) Append(next Report) {
	if r.Obstacle == nil {
		r.Obstacle = next.Obstacle
	}
	r.Problems = append(r.Problems, next.Problems...)
	r.RetryAt(next.Again)
	r.Err = errors.Join(r.Err, next.Err)
}

// RetryAt schedules another reconciliation of the VM no later than at a time; zero is ignored.
func (r *Report) RetryAt(at time.Time) {
	if !at.IsZero() && (r.Again.IsZero() || at.Before(r.Again)) {
		r.Again = at
	}
}

// Problem adds a problem.
func (r *Report) Problem(reason, message string) {
	r.Problems = append(r.Problems, Problem{reason, message})
}

// Record adds the problem of an obstacle, if o is not nil, and when to try again.
func (r *Report) Record(o Obstacle) {
	switch o := o.(type) {
	case Waiting:
		r.Problem(o.Reason, o.Message)
		r.RetryAt(o.Until)
	case Stalled:
		r.Problem(o.Reason, o.Message)
	}
}

// Stop adds the result of a step that ends: its obstacle, if any, and its error. The error also counts as an
// obstacle.
func (r *Report) Stop(o Obstacle, err error) {
	if o == nil && err != nil {
		o = Waiting{Reason: ReasonRetrying, Message: Readable(err.Error())}
	}
	r.Record(o)
	if r.Obstacle == nil {
		r.Obstacle = o
	}
	r.Err = errors.Join(r.Err, err)
}
