package pool

import (
	"cmp"
	"slices"
	"strings"
	"time"

	v1 "vmop/api/v1"
)

// A Pool is a VmPool with its parsed retention.
type Pool struct {
	*v1.VmPool

	Retention Retention
}

// Of returns a pool. It returns an error for an invalid spec.retention, which the API server should have refused.
func Of(p *v1.VmPool) (Pool, error) {
	retention, err := ParseRetention(p.Spec.Retention)
	return Pool{p, retention}, err
}

// KeptUntil returns until when an assigned VM is kept for its user if it is not used again; zero if it is unassigned.
func (p Pool) KeptUntil(m Member) time.Time {
	if m.Assignment == nil {
		return time.Time{}
	}
	last := m.Assignment.LastUsed.Time
	for _, at := range []time.Time{m.Used, m.Left} {
		if at.After(last) {
			last = at
		}
	}
	return p.Retention.End(last)
}

// State is the state of a VM in a pool.
type State string

// The states of a VM. A VM has one state in each of its pools.
const (
	Free     State = "free"     // ready to be given to a user
	InUse    State = "inUse"    // someone is viewing it
	Retained State = "retained" // kept for its user, who isn't using it
	Expired  State = "expired"  // still its user's, but can be given to another user
	// Unavailable: another pool has assigned it, it is being deleted, or it is not allowed to run.
	Unavailable State = "unavailable"
)

// States returns all states.
func States() []State { return []State{Free, InUse, Retained, Expired, Unavailable} }

// StateOf returns the state of a VM in the pool.
func (p Pool) StateOf(m Member, now time.Time) State {
	switch {
	case m.Deleting, m.Fixed && !m.Wanted, m.Assignment != nil && !m.isAssignedBy(p.Name):
		return Unavailable
	case m.isReleased():
		return Unavailable // until its replacement exists
	case m.Viewed:
		return InUse
	case m.Assignment == nil:
		return Free
	case now.Before(p.KeptUntil(m)):
		return Retained
	}
	return Expired
}

// hasMade reports whether the pool created the VM from its template.
func (p Pool) hasMade(m Member) bool { return m.Made == p.UID && m.Made != "" }

// Recreates reports whether a VM is replaced by a new VM before the next user gets it.
func (p Pool) Recreates(m Member) bool {
	return p.Spec.Recreate == v1.RecreateOnRelease && p.hasMade(m)
}

// Choose returns the VM of the pool to give to a user. It prefers, in this order: the VM that the user already has
// (mine is then true), a free VM, and the expired VM that has been unused for the longest time. Running VMs come first
// among the free ones. It returns nil if no VM is available.
func (p Pool) Choose(all []Member, user string, now time.Time) (one *Member, mine bool) {
	var candidates []*Member
	for i := range all {
		m := &all[i]
		if m.isAssignedBy(p.Name) && m.Assignment.User == user && !m.Deleting && !m.isReleased() {
			if one == nil || keepsFirst(*m, *one) {
				one = m
			}
			continue
		}
		if p.isAvailable(*m, now) {
			candidates = append(candidates, m)
		}
	}
	if one != nil {
		return one, true
	}
	if len(candidates) == 0 {
		return nil, false
	}
	return slices.MinFunc(candidates, compareMembers), false
}

// isAvailable reports whether the VM can be given to the next user.
func (p Pool) isAvailable(m Member, now time.Time) bool {
	state := p.StateOf(m, now)
	return m.In(p.Name) && (state == Free || state == Expired && !p.Recreates(m))
}

// Available returns how many VMs can be given to the next users.
func (p Pool) Available(all []Member, now time.Time) (count int) {
	for _, m := range all {
		if p.isAvailable(m, now) {
			count++
		}
	}
	return count
}

// keepsFirst reports whether a user with both VMs of a pool got a before b, and so keeps a.
func keepsFirst(a, b Member) bool {
	return cmp.Or(assignedSince(a).Compare(assignedSince(b)), strings.Compare(a.Name, b.Name)) < 0
}

func assignedSince(m Member) time.Time {
	if m.Assignment == nil || m.Assignment.Since == nil {
		return time.Time{}
	}
	return m.Assignment.Since.Time
}

// compareMembers sorts VMs so that the first is given away first.
func compareMembers(a, b *Member) int {
	return cmp.Or(lastUsed(*a).Compare(lastUsed(*b)), readinessRank(*a)-readinessRank(*b),
		strings.Compare(a.Name, b.Name))
}

// lastUsed returns when a VM was last used; zero if it is unassigned.
func lastUsed(m Member) (at time.Time) {
	if m.Assignment != nil {
		at = m.Assignment.LastUsed.Time
		if m.Used.After(at) {
			at = m.Used
		}
	}
	return at
}

// readinessRank is lower the sooner a user can use the VM.
func readinessRank(m Member) int {
	switch {
	case m.isRunning():
		return 0
	case m.Phase == v1.PhaseFailed:
		return 4
	case m.Wanted:
		return 1
	case m.Phase == v1.PhaseStopped:
		return 2
	}
	return 3 // it is stopping
}
