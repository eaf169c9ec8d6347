package pool

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// noon is the time of the tests.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// desktops returns a pool with an edited spec.
func desktops(t *testing.T, edit func(*v1.VmPoolSpec)) Pool {
	t.Helper()
	is := &v1.VmPool{}
	is.Name, is.UID = "desktops", "pool"
	if edit != nil {
		edit(&is.Spec)
	}
	p, err := Of(is)
	require.NoError(t, err)
	return p
}

// machine returns a VM of the pool.
func machine(name string, edits ...func(*Member)) Member {
	m := Member{Name: name, UID: "u", Version: "1", Pools: []string{"desktops"}, Phase: v1.PhaseStopped}
	for _, edit := range edits {
		edit(&m)
	}
	return m
}

// has assigns a VM to a user who last used it this long ago.
func has(user string, ago time.Duration) func(*Member) {
	return func(m *Member) {
		at := metav1.NewTime(noon.Add(-ago))
		m.Assignment = &v1.Assignment{Pool: "desktops", User: user, LastUsed: at, Since: &at}
	}
}

func runs(m *Member)   { m.Wanted, m.Phase = true, v1.PhaseRunning }
func viewed(m *Member) { m.Viewed = true }

// P01: every retention that the resource accepts is parsed correctly.
func TestRetention(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"": time.Hour, "PT1h": time.Hour, "PT30M": 30 * time.Minute, "P2W": 14 * 24 * time.Hour,
		"P1DT2H": 26 * time.Hour,
		"PT1.5S": 1500 * time.Millisecond, "PT0S": 0, "p1d": 24 * time.Hour, "PT1,5S": 1500 * time.Millisecond,
		"P9999W99999DT999999H": longest,
	} {
		got, err := ParseRetention(text)
		require.NoError(t, err, text)
		require.Equal(t, Retention{For: want}, got, text)
		require.Equal(t, noon.Add(want), got.End(noon))
	}
	for text, want := range map[string]time.Time{
		"2026-12-24T18:00:00Z":   time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC),
		"2026-12-24t18:00z":      time.Date(2026, 12, 24, 18, 0, 0, 0, time.UTC),
		"2026-12-24T18:00+02:00": time.Date(2026, 12, 24, 16, 0, 0, 0, time.UTC),
	} {
		got, err := ParseRetention(text)
		require.NoError(t, err, text)
		require.True(t, want.Equal(got.End(noon)), text)
	}
	for _, text := range []string{"P", "PT", "P1Y", "P1M", "1h", "P1DT", "2026-12-24", "2026-13-01T00:00:00Z"} {
		_, err := ParseRetention(text)
		require.ErrorContains(t, err, "PT1h", text)
	}
}

// P03 to P06: who gets which VM.
func TestChoose(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		of   []Member
		spec func(*v1.VmPoolSpec)
		want string
	}{
		"none":          {want: ""},
		"a free one":    {of: []Member{machine("a")}, want: "a"},
		"one that runs": {of: []Member{machine("a"), machine("b", runs)}, want: "b"},
		"their own, kept or not": {
			of: []Member{machine("a", runs), machine("b", has("alice", 99*time.Hour))}, want: "b",
		},
		"not one that is kept":     {of: []Member{machine("a", has("bob", 59*time.Minute))}, want: ""},
		"one that is kept no more": {of: []Member{machine("a", has("bob", time.Hour))}, want: "a"},
		"a free one before another": {
			of: []Member{machine("a", has("bob", 9*time.Hour), runs), machine("b")}, want: "b",
		},
		"the one used longest ago": {
			of: []Member{machine("a", has("bob", 2*time.Hour)), machine("b", has("eve", 3*time.Hour))}, want: "b",
		},
		"not one in use": {of: []Member{machine("a", viewed, runs)}, want: ""},
		"not one left just now": {
			of: []Member{machine("a", has("bob", 2*time.Hour), func(m *Member) { m.Left = noon.Add(-time.Minute) })},
		},
		"not one being deleted":   {of: []Member{machine("a", func(m *Member) { m.Deleting = true })}, want: ""},
		"not one that never runs": {of: []Member{machine("a", func(m *Member) { m.Fixed = true })}, want: ""},
		"not one of another pool": {
			of: []Member{machine("a", func(m *Member) { m.Pools = []string{"servers"} })},
		},
		"one of several pools": { // P02
			of: []Member{machine("a", func(m *Member) { m.Pools = []string{"servers", "desktops"} })}, want: "a",
		},
		"not another pool's user": {
			of: []Member{machine("a", has("alice", 9*time.Hour), func(m *Member) { m.Assignment.Pool = "servers" })},
		},
		"a failed one last": {
			of:   []Member{machine("a", func(m *Member) { m.Wanted, m.Phase = true, v1.PhaseFailed }), machine("b")},
			want: "b",
		},
		"until a time": {
			of: []Member{machine("a", has("bob", 99*time.Hour))}, want: "",
			spec: func(s *v1.VmPoolSpec) { s.Retention = "2026-03-01T12:00:01Z" },
		},
		"after a time": {
			of: []Member{machine("a", has("bob", time.Minute))}, want: "a",
			spec: func(s *v1.VmPoolSpec) { s.Retention = "2026-03-01T12:00:00Z" },
		},
		"not one that is to be made anew": {
			of:   []Member{machine("a", has("bob", 9*time.Hour), func(m *Member) { m.Made = "pool" })},
			spec: func(s *v1.VmPoolSpec) { s.Recreate = v1.RecreateOnRelease }, want: "",
		},
	}
	for name, tt := range tests {
		p := desktops(t, tt.spec)
		got, mine := p.Choose(tt.of, "alice", noon)
		if tt.want == "" {
			require.Nil(t, got, name)
			continue
		}
		require.NotNil(t, got, name)
		require.Equal(t, tt.want, got.Name, name)
		require.Equal(t, got.Assignment != nil && got.Assignment.User == "alice", mine, name)
	}
}

// names returns the names of VMs.
func names(all []Member) (list []string) {
	for _, m := range all {
		list = append(list, m.Name)
	}
	return list
}

// given returns the names of VMs that a plan releases from their pool for deletion.
func given(plan Plan) (list []string) {
	for _, c := range plan.Changes {
		if c.To != nil && c.To.Released != nil {
			list = append(list, c.Name)
		}
	}
	return list
}

// P13, P14, P16: the plan without users' requests.
func TestPlan(t *testing.T) {
	t.Parallel()
	stop := func(s *v1.VmPoolSpec) { s.AfterRetention = v1.StopVM }
	p := desktops(t, stop)
	both := []Member{machine("a", has("bob", 2*time.Hour), runs), machine("b", has("eve", time.Minute), runs)}
	plan := p.Plan(both, noon)
	require.Len(t, plan.Changes, 1)
	require.Equal(t, "a", plan.Changes[0].Name)
	require.Nil(t, plan.Changes[0].To)
	require.Equal(t, Ended, plan.Changes[0].Why)
	require.Equal(t, noon.Add(59*time.Minute), plan.Again)
	require.Equal(t, []string{"a"}, names(p.Plan([]Member{machine("a", runs)}, noon).Stop), "free, and runs")

	plan = desktops(t, nil).Plan([]Member{machine("a", has("bob", 2*time.Hour), runs)}, noon)
	require.Empty(t, plan.Changes, "it stays bob's until another user gets it")

	p = desktops(t, func(s *v1.VmPoolSpec) { s.Started, s.AfterRetention = 2, v1.StopVM })
	plan = p.Plan([]Member{machine("a"), machine("b", runs), machine("c"), machine("d", has("bob", 0), runs)}, noon)
	require.Equal(t, []string{"a"}, names(plan.Start))
	require.Empty(t, plan.Stop)

	plan = p.Plan([]Member{machine("a", has("bob", time.Hour), func(m *Member) { m.Used = noon })}, noon)
	require.Equal(t, noon, plan.Changes[0].To.LastUsed.Time, "bob came or went")
	require.Empty(t, plan.Changes[0].Why)

	plan = p.Plan([]Member{machine("a", has("bob", 2*time.Minute)), machine("b", has("bob", time.Minute))}, noon)
	require.Equal(t, "b", plan.Changes[0].Name)
	require.Equal(t, Duplicate, plan.Changes[0].Why)

	plan = p.Plan([]Member{machine("a", has("bob", 0), func(m *Member) { m.Pools = nil })}, noon)
	require.Equal(t, Left, plan.Changes[0].Why)
	orphans := Orphans([]Member{machine("a", has("bob", 0)), machine("b")}, func(string) bool { return false })
	require.Len(t, orphans, 1)
	require.Nil(t, orphans[0].To)
}

// VMs of a template are created, replaced and removed.
func TestTemplates(t *testing.T) {
	t.Parallel()
	made := func(m *Member) { m.Made = "pool" }
	p := desktops(t, func(s *v1.VmPoolSpec) {
		s.Template, s.Replicas, s.Recreate = &v1.VmPoolTemplate{}, new(int32(3)), v1.RecreateOnRelease
		s.Template.Spec.RunPolicy = v1.Manual
		s.Template.Disks = []v1.DiskTemplate{{Name: "system"}}
	})
	require.Equal(t, 2, p.Plan([]Member{machine("a", made), machine("b")}, noon).Make, "b was made by someone else")
	plan := p.Plan([]Member{machine("a", made, has("bob", 2*time.Hour))}, noon)
	require.NotNil(t, plan.Changes[0].To.Released)
	released := machine("a", made, has("bob", 2*time.Hour))
	released.Assignment = plan.Changes[0].To
	plan = p.Plan([]Member{released}, noon)
	require.Empty(t, plan.Changes)
	require.Equal(t, []string{"a"}, names(plan.Delete))
	one, _ := p.Choose([]Member{released}, "bob", noon)
	require.Nil(t, one, "not even its last user gets it")
	released.Deleting = true
	require.Equal(t, 3, p.Plan([]Member{released}, noon).Make)

	four := []Member{
		machine("a", made), machine("b", made, has("bob", 0)), machine("c", made, runs), machine("d", made),
	}
	require.Equal(t, []string{"d"}, given(p.Plan(four, noon)), "a free one that doesn't run")
	p.Spec.Replicas = new(int32(0))
	require.Equal(t, []string{"d", "a", "c"}, given(p.Plan(four, noon)), "none that a user has")
	four[3].Assignment = p.Plan(four, noon).Changes[0].To
	require.Equal(t, []string{"d"}, names(p.Plan(four, noon).Delete), "no user gets it again")

	vm := p.Machine(7)
	require.Equal(t, "desktops-7", vm.Name)
	require.Equal(t, []string{"desktops"}, vm.Spec.Pools)
	require.Equal(t, "desktops-7-system", vm.Spec.BlockDeviceRefs[0].Name)
	require.Equal(t, "VmPool", vm.OwnerReferences[0].Kind)
	copied := vm.DeepCopy()
	copied.OwnerReferences = nil
	require.Empty(t, p.Disks(MemberOf(copied)), "a copy of the definition, with its label, is not the pool's")
	disks := p.Disks(MemberOf(vm))
	require.Equal(t, "desktops-7-system", disks[0].Name)
	require.Equal(t, "desktops-7", disks[0].OwnerReferences[0].Name)
}

// The viewers in a VM's status count as use only if they are its user.
func TestUse(t *testing.T) {
	t.Parallel()
	vm := &v1.VirtualMachine{}
	vm.Spec.Pools = []string{"desktops"}
	vm.Status.Assignment = &v1.Assignment{Pool: "desktops", User: "alice"}
	say := func(is bool, message string) Member {
		meta.RemoveStatusCondition(&vm.Status.Conditions, v1.ConditionConsoleConnected)
		c := metav1.Condition{Type: v1.ConditionConsoleConnected, Status: metav1.ConditionFalse, Message: message}
		if is {
			c.Status = metav1.ConditionTrue
		}
		c.LastTransitionTime = metav1.NewTime(noon)
		vm.Status.Conditions = append(vm.Status.Conditions, c)
		return MemberOf(vm)
	}
	require.Equal(t, noon, say(true, "vnc alice").Used)
	require.True(t, say(true, "vnc alice").Viewed)
	require.Zero(t, say(true, "vnc boss; watching vnc alice").Used)
	require.Equal(t, noon, say(true, "spice 10.0.0.9:4000").Used, "who knows the password")
	require.False(t, say(true, "watching vnc boss").Viewed)
	require.True(t, say(false, "serial alice").Viewed)
	require.Equal(t, noon, say(false, "").Left)
	require.Zero(t, say(false, "").Used, "it isn't known who went")
	vm.Status.ConsoleUser = "alice"
	require.Equal(t, noon, say(false, "").Used)
	require.Equal(t, "boss", ConsoleUser(&v1.VirtualMachine{Status: v1.VirtualMachineStatus{
		Conditions: []metav1.Condition{
			{Type: v1.ConditionConsoleConnected, Status: metav1.ConditionTrue, Message: "vnc boss"},
		},
	}}))
}

// P08: no VM that is used or kept is ever given to another user, and every user has at most one VM. Users come, view,
// leave and release at random; VMs appear, start and vanish; writes based on old versions are refused.
func TestRandomWalk(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		w := newWalk(t, seed)
		for range 200 {
			w.step()
		}
	}
}

// walk is a pool with VMs and users.
type walk struct {
	t    *testing.T
	rand *rand.Rand
	p    Pool
	now  time.Time
	all  map[string]Member
	next int
}

func newWalk(t *testing.T, seed uint64) *walk {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	after := []v1.AfterRetention{"", v1.KeepAssigned, v1.ReleaseVM, v1.StopVM}[r.IntN(4)]
	w := &walk{t: t, rand: r, now: noon, all: map[string]Member{}, p: desktops(t, func(s *v1.VmPoolSpec) {
		s.AfterRetention, s.Started = after, int32(r.IntN(3))
		if r.IntN(2) == 0 {
			s.Template, s.Replicas, s.Recreate = &v1.VmPoolTemplate{}, new(int32(4)), v1.RecreateOnRelease
		}
	})}
	for range 4 {
		w.add()
	}
	return w
}

func (w *walk) add() {
	w.next++
	m := machine(fmt.Sprint("vm", w.next))
	if w.p.Spec.Template != nil {
		m.Made = w.p.UID
	}
	w.all[m.Name] = m
}

func (w *walk) members() (all []Member) {
	for _, m := range w.all {
		all = append(all, m)
	}
	return all
}

// put simulates the API server, which refuses writes based on an old version.
func (w *walk) put(m Member, change func(*Member)) {
	is, there := w.all[m.Name]
	if !there || is.Version != m.Version {
		return
	}
	change(&is)
	is.Version = fmt.Sprint(w.rand.Uint64())
	w.all[m.Name] = is
}

func (w *walk) carryOut(c Change) {
	w.put(c.Member, func(m *Member) { m.Assignment = c.To })
}

func (w *walk) step() {
	user := fmt.Sprint("user", w.rand.IntN(6))
	all := w.members()
	any := all[w.rand.IntN(len(all))]
	switch w.rand.IntN(8) {
	case 0, 1:
		w.claim(all, user)
	case 2:
		if any.Assignment != nil && any.Assignment.Released == nil {
			w.carryOut(w.p.Release(any, Released, w.now))
		}
	case 3: // the user comes or leaves
		if any.Assignment != nil && !any.Deleting {
			w.put(any, func(m *Member) { m.Viewed, m.Used = !m.Viewed, w.now })
		}
	case 4:
		w.now = w.now.Add(time.Duration(w.rand.IntN(90)) * time.Minute)
	case 5:
		w.plan(all)
	case 6:
		w.put(any, func(m *Member) { m.Wanted, m.Phase = true, v1.PhaseRunning })
	case 7: // a deletion completes
		if any.Deleting {
			delete(w.all, any.Name)
			w.add()
		}
	}
}

func (w *walk) claim(all []Member, user string) {
	one, mine := w.p.Choose(all, user, w.now)
	if one == nil {
		require.Zero(w.t, w.p.Available(all, w.now))
		return
	}
	if mine {
		require.Equal(w.t, user, one.Assignment.User)
		return
	}
	for _, m := range all {
		has := m.Assignment != nil && m.Assignment.User == user && m.Assignment.Released == nil && !m.Deleting
		require.False(w.t, has, "%s has another one", user)
	}
	require.False(w.t, one.Viewed || one.Deleting)
	if one.Assignment != nil {
		require.False(w.t, w.now.Before(w.p.KeptUntil(*one)), "it is kept for another user")
		require.False(w.t, w.p.Recreates(*one))
	}
	w.carryOut(w.p.Give(*one, user, w.now))
}

func (w *walk) plan(all []Member) {
	plan := w.p.Plan(all, w.now)
	require.GreaterOrEqual(w.t, plan.Status.Free, int32(0))
	require.LessOrEqual(w.t, plan.Status.InUse+plan.Status.Retained, plan.Status.Assigned)
	for _, c := range plan.Changes {
		if c.To == nil && c.Why == Ended {
			require.False(w.t, c.Viewed || w.now.Before(w.p.KeptUntil(c.Member)))
		}
		w.carryOut(c)
	}
	for _, m := range plan.Stop {
		require.Nil(w.t, m.Assignment)
		w.put(m, func(m *Member) { m.Wanted, m.Phase = false, v1.PhaseStopped })
	}
	for _, m := range plan.Start {
		w.put(m, runs)
	}
	for _, m := range plan.Delete {
		require.NotNil(w.t, m.Assignment.Released)
		w.put(m, func(m *Member) { m.Deleting = true })
	}
}
