package pool

import (
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// A Change is a new assignment of a VM.
type Change struct {
	Member
	// To is the new assignment; nil to remove it.
	To *v1.Assignment
	// Why is the reason for the event; "" for no event, when the VM's user stays the same.
	Why string
}

// Reasons for events about assignments.
const (
	Assigned  = "PoolAssigned"
	Released  = "PoolReleased"       // by the user or an administrator
	Ended     = "PoolRetentionEnded" // by spec.afterRetention
	Left      = "PoolLeft"           // the VM left the pool, or the pool was deleted
	Duplicate = "PoolAssignedTwice"  // the user got two VMs at the same time
)

// A Plan contains the next actions for the VMs of a pool.
type Plan struct {
	// Changes are the assignments to write.
	Changes []Change
	// Start, Stop and Delete list the VMs to start, stop and delete. A VM in Delete has been released in an earlier
	// round, so no claim can interfere.
	Start, Stop, Delete []Member
	// Make is how many VMs to create from the template.
	Make int
	// Status is the new status of the pool: the old status with current counts.
	Status v1.VmPoolStatus
	// Again is when to look again without a change; zero means never.
	Again time.Time
}

// mostMade limits how many VMs are created or deleted per round, to spare the API server.
const mostMade = 10

// Plan returns the next actions. all are the VMs of the namespace that are in any pool.
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

// keepMember plans changes for an assigned VM. kept is the VM of the pool that the user keeps.
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

// releasesVMs reports whether VMs become free when their retention ends.
func (p Pool) releasesVMs() bool {
	return p.Spec.AfterRetention == v1.ReleaseVM || p.Spec.AfterRetention == v1.StopVM
}

// Release returns the change that takes a VM from its user.
func (p Pool) Release(m Member, why string, now time.Time) Change {
	c := Change{Member: m, Why: why}
	if p.Recreates(m) && m.In(p.Name) {
		to := *m.Assignment
		to.Released = new(metav1.NewTime(now))
		c.To = &to
	}
	return c
}

// Give returns the change that assigns a VM to a user.
func (p Pool) Give(m Member, user string, now time.Time) Change {
	at := metav1.NewTime(now.Truncate(time.Second))
	return Change{
		Member: m, Why: Assigned, To: &v1.Assignment{Pool: p.Name, User: user, LastUsed: at, Since: &at},
	}
}

// planRuns decides which free VMs to start and stop.
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

// planMembers decides how many VMs to create from the template, and which surplus VMs to release.
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
		at := metav1.NewTime(now) // no user gets it from now on, so it can be deleted
		to := &v1.Assignment{Pool: p.Name, LastUsed: at, Released: &at}
		plan.Changes = append(plan.Changes, Change{Member: *m, To: to})
	}
}

// countMembers updates the counts in the status.
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

// LookAt schedules another look, unless the time is zero or an earlier look is scheduled.
func (plan *Plan) LookAt(at time.Time) {
	if !at.IsZero() && (plan.Again.IsZero() || at.Before(plan.Again)) {
		plan.Again = at
	}
}

// Orphans returns the changes that release VMs assigned by pools that no longer exist.
func Orphans(all []Member, exists func(pool string) bool) (changes []Change) {
	for _, m := range all {
		if m.Assignment != nil && !exists(m.Assignment.Pool) {
			changes = append(changes, Change{Member: m, Why: Left})
		}
	}
	return changes
}

// Patch returns the change as a merge patch for the VM's status. The API server refuses it if the VM has changed since
// it was read.
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
