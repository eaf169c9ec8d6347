package decide

import (
	"errors"
	"time"
)

// An Obstacle says why a step isn't done; nil means that it is. What is neither done
// nor has an obstacle is an error: it is tried again.
type Obstacle interface{ isObstacle() }

// Waiting is for something that happens without anyone's help.
type Waiting struct {
	Reason, Message string
	// Until is when to try again if nothing changes; zero: never.
	Until time.Time
}

// Stalled means that a user or an administrator has to change something.
type Stalled struct{ Reason, Message string }

func (Waiting) isObstacle() {}
func (Stalled) isObstacle() {}

// A Problem is something that is not as the definition says. Problems are the message of
// the condition Reconciled.
type Problem struct{ Reason, Message string }

// A Report is what one step, or several, could not do.
type Report struct {
	// Obstacle is that of the step, and of several steps the first one's.
	Obstacle Obstacle
	// Problems are all there are, in the order in which they were found.
	Problems []Problem
	// Again is when to reconcile again if nothing changes; zero: never.
	Again time.Time
	// Err is to be tried again soon.
	Err error
}

// Append adds what the next step reports.
func (r *Report) Append(next Report) {
	if r.Obstacle == nil {
		r.Obstacle = next.Obstacle
	}
	r.Problems = append(r.Problems, next.Problems...)
	r.RetryAt(next.Again)
	r.Err = errors.Join(r.Err, next.Err)
}

// RetryAt makes the VM be reconciled again no later than at a time; zero means never.
func (r *Report) RetryAt(at time.Time) {
	if !at.IsZero() && (r.Again.IsZero() || at.Before(r.Again)) {
		r.Again = at
	}
}

// Problem adds a problem.
func (r *Report) Problem(reason, message string) {
	r.Problems = append(r.Problems, Problem{reason, message})
}

// Record adds the problem of an obstacle, if there is one, and when to try again.
func (r *Report) Record(o Obstacle) {
	switch o := o.(type) {
	case Waiting:
		r.Problem(o.Reason, o.Message)
		r.RetryAt(o.Until)
	case Stalled:
		r.Problem(o.Reason, o.Message)
	}
}

// Stop adds what came of a step at its end: its obstacle, if there is one, and its error,
// which is an obstacle, too.
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
