package access

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
	"vmop/test/wait"
)

// cluster implements Reviewer with a table of rights.
type cluster struct {
	allowed map[Right]bool
	err     atomic.Pointer[error]
	block   chan struct{} // if not nil, answers wait for it

	asked, running, most atomic.Int64
}

func (c *cluster) Review(ctx context.Context, who Identity, what Right) (bool, string, error) {
	c.asked.Add(1)
	running := c.running.Add(1)
	defer c.running.Add(-1)
	for most := c.most.Load(); running > most && !c.most.CompareAndSwap(most, running); most = c.most.Load() {
	}
	if c.block != nil {
		select {
		case <-c.block:
		case <-ctx.Done():
			return false, "", ctx.Err()
		}
	}
	if err := c.err.Load(); err != nil {
		return false, "", *err
	}
	return who.User == "ann@example" && c.allowed[what], "RBAC", nil
}

// clock is a time that tests can set.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(int64(d)) }

func ann() Subject { return Subject{User: "ann", Cluster: Identity{User: "ann@example"}} }

// RBAC rights decide like permissions with the same actions, in every situation, for one VM or for all.
func TestRBACDecidesAsPermissionsDo(t *testing.T) {
	t.Parallel()
	verbs := slices.DeleteFunc(Verbs(), func(v Verb) bool { return v == View })
	for set := range 1 << len(verbs) {
		for _, scope := range []string{"", "web"} {
			rights := &cluster{allowed: map[Right]bool{}}
			granted := map[v1.Action]bool{}
			for i, verb := range verbs {
				if set&(1<<i) != 0 && (verb != Create || scope == "") {
					granted[v1.Action(verb)] = true
					what := rightFor(verb)
					what.Resource = vms
					what.Name = scope
					rights.allowed[what] = true
				}
			}
			var c clock
			a := Authorizer{Policy{Mode: ByRBAC}, NewReviews(rights, c.now)}
			for _, s := range situations() {
				vm := VM{Name: "web", ConsoleUser: s.console, LogInRequested: s.pending, LoggedInUser: s.loggedIn}
				for _, verb := range verbs {
					got := a.Decide(t.Context(), ann(), verb, vm)
					require.Equal(t, model(granted, verb, s), got.Allowed, "%s %v %v", verb, granted, s)
					require.False(t, got.Unknown)
				}
			}
			require.False(t, a.Decide(t.Context(), ann(), View, VM{Name: "web"}).Allowed, "it is a separate right")
		}
	}
}

func TestRightsByVerb(t *testing.T) {
	t.Parallel()
	want := map[Verb]string{
		View: "get vms/view", Start: "create vms/start", Stop: "create vms/stop", Reset: "create vms/reset",
		AccessConsole: "create vms/console", TakeConsole: "create vms/takeconsole", Resize: "create vms/resize",
		Edit: "update vms/", Create: "create vms/", Delete: "delete vms/",
	}
	for _, verb := range Verbs() {
		require.Equal(t, want[verb], rightFor(verb).Verb+" vms/"+rightFor(verb).Subresource)
	}
}

// In mode Both, a permission or an RBAC right is enough, and a permission makes a review unnecessary.
func TestBothAddUp(t *testing.T) {
	t.Parallel()
	stop := Right{Resource: "vms", Verb: "create", Subresource: "stop", Name: "web"}
	rights := &cluster{allowed: map[Right]bool{stop: true}}
	var c clock
	a := Authorizer{Policy{Mode: ByBoth}, NewReviews(rights, c.now)}
	vm := VM{Name: "web", Permissions: []v1.Permission{{User: "ann", May: []v1.Action{"start"}}}}
	require.True(t, a.Decide(t.Context(), ann(), Start, vm).Allowed)
	require.Zero(t, rights.asked.Load())
	ofCluster := a.Decide(t.Context(), ann(), Stop, vm)
	require.True(t, ofCluster.Allowed)
	require.Equal(t, "granted by the cluster: RBAC", ofCluster.Reason.String())
	require.False(t, a.Decide(t.Context(), ann(), Reset, vm).Allowed)
	require.False(t, a.Decide(t.Context(), Subject{User: "ann"}, Stop, vm).Allowed, "unknown to the cluster")
	require.Equal(t, int64(4), rights.asked.Load())
}

func TestAnAnswerIsRememberedFor10Seconds(t *testing.T) {
	t.Parallel()
	everywhere := Right{Resource: "vms", Verb: "get", Subresource: "view"}
	rights := &cluster{allowed: map[Right]bool{everywhere: true}}
	var c clock
	a := Authorizer{Policy{Mode: ByRBAC}, NewReviews(rights, c.now)}
	for i := range 5000 {
		require.True(t, a.Decide(t.Context(), ann(), View, VM{Name: fmt.Sprint("vm", i)}).Allowed)
	}
	require.Equal(t, int64(1), rights.asked.Load(), "one answer for all VMs")
	rights.allowed = nil
	c.advance(lifetime - 1)
	require.True(t, a.Decide(t.Context(), ann(), View, VM{Name: "vm1"}).Allowed)
	c.advance(1)
	require.False(t, a.Decide(t.Context(), ann(), View, VM{Name: "vm1"}).Allowed)
	require.Equal(t, int64(3), rights.asked.Load())

	other := ann()
	other.Cluster.Groups = []string{"ops"}
	require.False(t, a.Decide(t.Context(), other, View, VM{Name: "vm1"}).Allowed)
	require.Equal(t, int64(5), rights.asked.Load(), "other groups are another question")
}

// An unreachable cluster grants no access and is asked once per second; the decision is marked as not final.
func TestAClusterThatIsAway(t *testing.T) {
	t.Parallel()
	everywhere := Right{Resource: "vms", Verb: "create", Subresource: "console"}
	rights := &cluster{allowed: map[Right]bool{everywhere: true}}
	var c clock
	a := Authorizer{Policy{Mode: ByRBAC}, NewReviews(rights, c.now)}
	err := errors.New("connection refused")
	rights.err.Store(&err)
	for i := range 100 {
		got := a.Decide(t.Context(), ann(), AccessConsole, VM{Name: fmt.Sprint(i)})
		require.False(t, got.Allowed)
		require.True(t, got.Unknown)
		require.Equal(t, Unavailable, got.Reason.Key)
		require.NotEmpty(t, got.Reason.String())
	}
	require.Equal(t, int64(1), rights.asked.Load())
	c.advance(pause)
	rights.err.Store(nil)
	require.True(t, a.Decide(t.Context(), ann(), AccessConsole, VM{Name: "1"}).Allowed)
	require.Equal(t, int64(2), rights.asked.Load())

	rights.err.Store(&err) // accessConsole is cached, takeConsole isn't
	busy := a.Decide(t.Context(), ann(), AccessConsole, VM{Name: "1", ConsoleUser: "bob"})
	require.False(t, busy.Allowed)
	require.True(t, busy.Unknown)
	require.Equal(t, ConsoleInUse, busy.Reason.Key)
}

// A caller that gives up doesn't affect the answer for others, and its error isn't cached.
func TestACallerGivesUp(t *testing.T) {
	t.Parallel()
	everywhere := Right{Resource: "vms", Verb: "get", Subresource: "view"}
	rights := &cluster{allowed: map[Right]bool{everywhere: true}, block: make(chan struct{})}
	var c clock
	a := Authorizer{Policy{Mode: ByRBAC}, NewReviews(rights, c.now)}
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan Decision, 1), make(chan Decision, 1)
	go func() { first <- a.Decide(ctx, ann(), View, VM{Name: "a"}) }()
	go func() { second <- a.Decide(t.Context(), ann(), View, VM{Name: "b"}) }()
	wait.Until(t, func() bool { return rights.asked.Load() == 1 })
	cancel()
	require.True(t, (<-first).Unknown)
	close(rights.block)
	require.True(t, (<-second).Allowed)
	require.Equal(t, int64(1), rights.asked.Load())
}

// Many concurrent decisions send few reviews at a time, and the cache is bounded.
func TestQuestionsAreBounded(t *testing.T) {
	t.Parallel()
	rights := &cluster{}
	var c clock
	reviews := NewReviews(rights, c.now)
	a := Authorizer{Policy{Mode: ByRBAC}, reviews}
	var deciding sync.WaitGroup
	for i := range 64 {
		deciding.Go(func() {
			for j := range 2 * mostAnswers / 64 {
				a.Decide(t.Context(), ann(), View, VM{Name: fmt.Sprint(i, "-", j)})
			}
		})
	}
	deciding.Wait()
	require.LessOrEqual(t, rights.most.Load(), int64(mostQuestions))
	require.LessOrEqual(t, len(reviews.answers), mostAnswers)
	require.Greater(t, rights.asked.Load(), int64(mostAnswers))
}
