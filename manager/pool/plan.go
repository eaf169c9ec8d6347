package pool

import (
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// A Change is one of who has a VM.
type Change struct {
	Member
	// To is the new assignment; nil: no one has it.
	To *v1.Assignment
	// Why is the reason of the event about it; "" is none, as no user gets or loses the VM.
	Why string
}

// Why a VM is a user's, or no longer, as reasons of events.
const (
	Assigned  = "PoolAssigned"
	Released  = "PoolReleased"       // by the user, or an administrator
	Ended     = "PoolRetentionEnded" // by spec.afterRetention
	Left      = "PoolLeft"           // the VM is no longer in the pool, or the pool is gone
	Duplicate = "PoolAssignedTwice"  // the user has got two at once
)

// A Plan is what is to be done with the VMs of a pool without a user.
type Plan struct {
	// Changes of assignments.
	Changes []Change
	// Start, Stop and Delete are VMs of which that is to be done. Those that are deleted are released before, which no
	// claim of a user can cross.
	Start, Stop, Delete []Member
	// Make is how many VMs are to be made of the template.
	Make int
	// Status counts the VMs as they are. The rest of it is as it was.
	Status v1.VmPoolStatus
	// Again is when to look again, without a change; zero: not at all.
	Again time.Time
}

// mostMade is how many VMs are made or deleted at once: the API server has other clients.
const mostMade = 10

// Plan returns what is to be done. all are the VMs of the namespace that are in any pool.
func (p Pool) Plan(all []Member, now time.Time) (plan Plan) {
	plan.Status = p.Status
	plan.Status.ObservedGeneration = p.Generation
	plan.countMembers(p, all, now)
	keeps := map[string]Member{} // by user
	for _, m := range all {
		if m.isAssignedBy(p.Name) && !m.Deleting && !m.isReleased() {
			if other, has := keeps[m.Assignment.User]; !has || keepsFirst(m, other) {
				keeps[m.Assignment.User] = m
			}
		}
	}
	for _, m := range all {
		if m.isAssignedBy(p.Name) && !m.Deleting {
			plan.keepMember(p, m, keeps[m.Assignment.User], now)
		}
	}
	plan.planRuns(p, all, now)
	plan.planMembers(p, all, now)
	return plan
}

// keepMember decides what becomes of a VM that a user has; kept is the one of the pool that the user keeps.
func (plan *Plan) keepMember(p Pool, m, kept Member, now time.Time) {
	release := func(why string) { plan.Changes = append(plan.Changes, p.Release(m, why, now)) }
	state := p.StateOf(m, now)
	switch {
	case m.isReleased() && p.hasMade(m):
		plan.Delete = append(plan.Delete, m)
	case m.isReleased():
		plan.Changes = append(plan.Changes, Change{Member: m})
	case !m.In(p.Name):
		release(Left)
	case kept.Name != m.Name && !m.Viewed:
		release(Duplicate)
	case m.Used.After(m.Assignment.LastUsed.Time):
		to := *m.Assignment
		to.LastUsed = metav1.NewTime(m.Used)
		plan.Changes = append(plan.Changes, Change{Member: m, To: &to})
	case state == Expired && (p.releasesVMs() || p.Recreates(m)):
		release(Ended)
	case state == Retained:
		plan.LookAt(p.KeptUntil(m))
	}
}

// releasesVMs reports whether VMs that are no longer kept for their users become free.
func (p Pool) releasesVMs() bool {
	return p.Spec.AfterRetention == v1.ReleaseVM || p.Spec.AfterRetention == v1.StopVM
}

// Release returns the change by which a VM is no longer its user's.
func (p Pool) Release(m Member, why string, now time.Time) Change {
	c := Change{Member: m, Why: why}
	if p.Recreates(m) && m.In(p.Name) {
		to := *m.Assignment
		to.Released = new(metav1.NewTime(now))
		c.To = &to
	}
	return c
}

// Give returns the change by which a user gets a VM.
func (p Pool) Give(m Member, user string, now time.Time) Change {
	at := metav1.NewTime(now.Truncate(time.Second))
	return Change{
		Member: m, Why: Assigned, To: &v1.Assignment{Pool: p.Name, User: user, LastUsed: at, Since: &at},
	}
}

// planRuns decides which free VMs are started, and which are stopped.
func (plan *Plan) planRuns(p Pool, all []Member, now time.Time) {
	var off, on []*Member
	for i := range all {
		m := &all[i]
		switch {
		case !m.In(p.Name) || p.StateOf(*m, now) != Free:
		case m.Wanted && m.Phase != v1.PhaseFailed:
			on = append(on, m)
		case !m.Fixed:
			off = append(off, m)
		}
	}
	slices.SortFunc(off, compareMembers)
	for _, m := range off[:min(len(off), max(0, int(p.Spec.Started)-len(on)))] {
		if m.Phase == v1.PhaseStopped || m.Phase == v1.PhasePending {
			plan.Start = append(plan.Start, *m)
		}
	}
	if p.Spec.AfterRetention != v1.StopVM {
		return
	}
	slices.SortFunc(on, compareMembers)
	for _, m := range on[min(len(on), int(p.Spec.Started)):] {
		if !m.Fixed {
			plan.Stop = append(plan.Stop, *m)
		}
	}
}

// planMembers decides how many VMs are made of the template, and which are too many.
func (plan *Plan) planMembers(p Pool, all []Member, now time.Time) {
	want := 0
	if p.Spec.Template != nil && p.Spec.Replicas != nil {
		want = int(*p.Spec.Replicas)
	}
	var have int
	var free []*Member
	for i := range all {
		m := &all[i]
		if !p.hasMade(*m) || m.Deleting || m.isReleased() {
			continue
		}
		have++
		if p.StateOf(*m, now) == Free {
			free = append(free, m)
		}
	}
	plan.Make = min(mostMade, max(0, want-have))
	slices.SortFunc(free, compareMembers)
	slices.Reverse(free)
	for _, m := range free[:min(len(free), mostMade, max(0, have-want))] {
		at := metav1.NewTime(now) // from then on no user gets it, and it can be deleted
		to := &v1.Assignment{Pool: p.Name, LastUsed: at, Released: &at}
		plan.Changes = append(plan.Changes, Change{Member: *m, To: to})
	}
}

// countMembers fills in the status.
func (plan *Plan) countMembers(p Pool, all []Member, now time.Time) {
	s := &plan.Status
	s.VMs, s.Free, s.Assigned, s.Retained, s.InUse = 0, 0, 0, 0, 0
	for _, m := range all {
		if m.Deleting || !m.In(p.Name) && !m.isAssignedBy(p.Name) {
			continue
		}
		s.VMs++
		state := p.StateOf(m, now)
		if m.isAssignedBy(p.Name) && !m.isReleased() {
			s.Assigned++
		}
		switch {
		case state == Free:
			s.Free++
		case state == Retained:
			s.Retained++
		case state == InUse && m.isAssignedBy(p.Name):
			s.InUse++
		}
	}
}

// LookAt makes it be looked again at a time, if that isn't zero.
func (plan *Plan) LookAt(at time.Time) {
	if !at.IsZero() && (plan.Again.IsZero() || at.Before(plan.Again)) {
		plan.Again = at
	}
}

// Orphans returns the changes of VMs that pools have assigned which don't exist.
func Orphans(all []Member, exists func(pool string) bool) (changes []Change) {
	for _, m := range all {
		if m.Assignment != nil && !exists(m.Assignment.Pool) {
			changes = append(changes, Change{Member: m, Why: Left})
		}
	}
	return changes
}

// Patch returns the change as a merge patch of the VM's status. The API server refuses it if the VM has changed
// since it was decided.
func (c Change) Patch() ([]byte, error) {
	var to any
	if c.To != nil {
		to = map[string]any{
			"pool": c.To.Pool, "user": c.To.User,
			"lastUsed": c.To.LastUsed, "since": c.To.Since, "released": c.To.Released,
		}
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": c.UID, "resourceVersion": c.Version},
		"status":   map[string]any{"assignment": to},
	})
}
