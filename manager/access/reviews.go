package access

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	// lifetime is how long an answer of the cluster counts.
	lifetime = 10 * time.Second
	// patience is how long a decision waits for the cluster.
	patience = 2 * time.Second
	// pause is how long the cluster isn't asked after it has not answered.
	pause = time.Second
	// mostAnswers are remembered, about 2 MiB.
	mostAnswers = 10_000
	// mostQuestions are asked at once.
	mostQuestions = 16
)

// Reviewer asks the cluster. It must honour the context.
type Reviewer interface {
	// Review returns whether the cluster allows something, and why; an error if it doesn't
	// answer.
	Review(ctx context.Context, who Identity, what Right) (allowed bool, reason string, err error)
}

// Right is one that RBAC can grant for VMs or pools.
type Right struct {
	// Verb is one of RBAC.
	Verb string
	// Resource is vms or vmpools.
	Resource string
	// Subresource of that, which exists only as the object of rights; "" means the VM or pool itself.
	Subresource string
	// Name of the VM or pool; "" means all of the namespace.
	Name string
}

// Resources.
const (
	vms   = "vms"
	pools = "vmpools"
)

// right returns the right that a verb needs. Reading, changing, creating and deleting are RBAC's
// own verbs, and so mean the same as with kubectl.
func right(verb Verb) Right {
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

// Reviews asks a Reviewer, and remembers its answers for 10 s. It is safe for concurrent use.
type Reviews struct {
	reviewer Reviewer
	now      func() time.Time
	slots    chan struct{}
	flight   singleflight.Group

	mu      sync.Mutex
	answers map[string]answer
	away    time.Time // until then, the cluster is not asked
}

type answer struct {
	allowed bool
	reason  string
	until   time.Time
}

// NewReviews returns one that asks reviewer; now is the clock.
func NewReviews(reviewer Reviewer, now func() time.Time) *Reviews {
	return &Reviews{
		reviewer: reviewer, now: now,
		slots: make(chan struct{}, mostQuestions), answers: map[string]answer{},
	}
}

// grants asks for the right for all VMs or pools first: the answer serves each of them.
func (r *Reviews) grants(ctx context.Context, s Subject, verb Verb, resource, of string) (Reason, bool) {
	if s.Cluster.User == "" {
		return Reason{}, false
	}
	what := right(verb)
	what.Resource = resource
	names := []string{"", of}
	if verb == Create || of == "" { // RBAC can't grant create by name
		names = names[:1]
	}
	for _, name := range names {
		what.Name = name
		given, known := r.query(ctx, s.Cluster, what)
		switch {
		case !known:
			return Reason{Key: Unavailable}, false
		case given.allowed:
			return Reason{Key: ByCluster, Args: Args{"message": given.reason}}, true
		}
	}
	return Reason{}, false
}

// query returns the answer, and whether it is known.
func (r *Reviews) query(ctx context.Context, who Identity, what Right) (answer, bool) {
	data, err := json.Marshal(struct {
		Identity
		Right
	}{who, what})
	if err != nil {
		return answer{}, false // strings only: it can't be
	}
	key := string(data)
	if given, known, settled := r.recall(key); settled {
		return given, known
	}
	shared := context.WithoutCancel(ctx) // other callers may wait for the same answer
	result := r.flight.DoChan(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(shared, patience)
		defer cancel()
		return r.review(ctx, key, who, what)
	})
	select {
	case <-ctx.Done():
		return answer{}, false
	case got := <-result:
		given, known := got.Val.(answer)
		return given, known && got.Err == nil
	}
}

// recall returns an answer that is remembered; settled reports that there is no use in asking.
func (r *Reviews) recall(key string) (given answer, known, settled bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if given, known := r.answers[key]; known && now.Before(given.until) {
		return given, true, true
	}
	return answer{}, false, now.Before(r.away)
}

// review asks as soon as few enough others do.
func (r *Reviews) review(ctx context.Context, key string, who Identity, what Right) (answer, error) {
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return answer{}, context.Cause(ctx)
	}
	if given, known, settled := r.recall(key); known {
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
	r.remember(key, given)
	return given, nil
}

// remember makes room if there is none: what has expired, or else all.
func (r *Reviews) remember(key string, given answer) {
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
