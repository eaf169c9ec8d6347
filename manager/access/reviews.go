package access

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// lifetime is how long an answer of the cluster remains valid.
	lifetime = 10 * time.Second
	// patience is how long a decision waits for the cluster.
	patience = 2 * time.Second
	// pause is how long no questions are sent after the cluster has not answered.
	pause = time.Second
	// mostAnswers is the maximum number of remembered answers, about 2 MiB.
	mostAnswers = 10_000
	// mostQuestions is the maximum number of concurrent questions.
	mostQuestions = 16
)

// Reviewer asks the cluster. Implementations must return when the context is done.
type Reviewer interface {
	// Review reports whether the cluster allows something, and why. It returns an error if the cluster does not
	// answer.
	Review(ctx context.Context, who Identity, what Right) (allowed bool, reason string, err error)
}

// Right is a right that RBAC can grant for VMs or pools.
type Right struct {
	// Verb is an RBAC verb.
	Verb string
	// Resource is vms or vmpools.
	Resource string
	// Subresource of Resource, which exists only as the object of rights; "" means the VM or pool itself.
	Subresource string
	// Name of the VM or pool; "" means all in the namespace.
	Name string
}

const (
	vms   = "vms"
	pools = "vmpools"
)

// rightFor returns the right that a verb requires. Reading, changing, creating and deleting use RBAC's own verbs, so
// they mean the same as with kubectl.
func rightFor(verb Verb) Right {
	switch verb {
	case View:
		return Right{Verb: "get", Subresource: "view"}
	case Edit:
		return Right{Verb: "update"}
	case Create:
		return Right{Verb: "create"}
	case Delete:
		return Right{Verb: "delete"}
	case AccessConsole:
		return Right{Verb: "create", Subresource: "console"}
	case TakeConsole:
		return Right{Verb: "create", Subresource: "takeconsole"}
	default: // start, stop, reset, resize
		return Right{Verb: "create", Subresource: string(verb)}
	}
}

// Reviews asks a Reviewer and remembers its answers for 10 s. It is safe for concurrent use.
type Reviews struct {
	reviewer Reviewer
	now      func() time.Time
	slots    chan struct{}
	flight   singleflight.Group

	mu      sync.Mutex
	answers map[string]answer
	away    time.Time // do not ask the cluster before this time
}

type answer struct {
	allowed bool
	reason  string
	until   time.Time
}

// NewReviews returns Reviews that asks reviewer; now is the clock.
func NewReviews(reviewer Reviewer, now func() time.Time) *Reviews {
	return &Reviews{
		reviewer: reviewer, now: now,
		slots: make(chan struct{}, mostQuestions), answers: map[string]answer{},
	}
}

// reviewGrant asks for the right to all VMs or pools first, because that answer covers each of them.
func (r *Reviews) reviewGrant(ctx context.Context, s Subject, verb Verb, resource, of string) (Reason, bool) {
	if s.Cluster.User == "" {
		return Reason{}, false
	}
	what := rightFor(verb)
	what.Resource = resource
	names := []string{"", of}
	if verb == Create || of == "" { // RBAC can't grant create by name
		names = names[:1]
	}
	for _, name := range names {
		what.Name = name
		given, known := r.queryReview(ctx, s.Cluster, what)
		switch {
		case !known:
			return Reason{Key: Unavailable}, false
		case given.allowed:
			return Reason{Key: byCluster, Args: args{"message": given.reason}}, true
		}
	}
	return Reason{}, false
}

// queryReview returns the answer, and whether it is known.
func (r *Reviews) queryReview(ctx context.Context, who Identity, what Right) (answer, bool) {
	data, err := json.Marshal(struct {
		Identity
		Right
	}{who, what})
	if err != nil {
		return answer{}, false // cannot happen: the fields are strings
	}
	key := string(data)
	if given, known, settled := r.recallAnswer(key); settled {
		return given, known
	}
	shared := context.WithoutCancel(ctx) // other callers may wait for the same answer
	result := r.flight.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(shared, patience)
		defer cancel()
		return r.reviewAccess(ctx, key, who, what)
	})
	select {
	case <-ctx.Done():
		return answer{}, false
	case got := <-result:
		given, known := got.Val.(answer)
		return given, known && got.Err == nil
	}
}

// recallAnswer returns a remembered answer. settled reports that asking again is pointless.
func (r *Reviews) recallAnswer(key string) (given answer, known, settled bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if given, known := r.answers[key]; known && now.Before(given.until) {
		return given, true, true
	}
	return answer{}, false, now.Before(r.away)
}

// reviewAccess asks the cluster as soon as fewer than mostQuestions other questions are in flight.
func (r *Reviews) reviewAccess(ctx context.Context, key string, who Identity, what Right) (answer, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
	if given, known, settled := r.recallAnswer(key); known {
		return given, nil
	} else if settled {
		return answer{}, context.DeadlineExceeded
	}
	allowed, reason, err := r.reviewer.Review(ctx, who, what)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.away = r.now().Add(pause)
		return answer{}, err
	}
	given := answer{allowed: allowed, reason: reason, until: r.now().Add(lifetime)}
	r.rememberAnswer(key, given)
	return given, nil
}

// rememberAnswer stores an answer. If the table is full, it first drops the expired answers, and if that isn't enough,
// all answers.
func (r *Reviews) rememberAnswer(key string, given answer) {
	if len(r.answers) >= mostAnswers {
		now := r.now()
		for key, old := range r.answers {
			if !now.Before(old.until) {
				delete(r.answers, key)
			}
		}
	}
	if len(r.answers) >= mostAnswers {
		clear(r.answers)
	}
	r.answers[key] = given
}
