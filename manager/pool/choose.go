package pool

import (
	"cmp"
	"slices"
	"strings"
	"time"

	v1 "vmop/api/v1"
)

// A Pool is a VmPool with what its text means.
type Pool struct {
	*v1.VmPool

	Retention Retention
}

// Of returns a pool. An error means that its spec can't be understood, which the API server should have
// refused.
func Of(p *v1.VmPool) (Pool, error) {
	retention, err := ParseRetention(p.Spec.Retention)
	return Pool{p, retention}, err
}

// KeptUntil returns until when an assigned VM is kept for its user, from when it isn't used on.
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

// State of a VM in a pool.
type State string

// The states. Each VM has one in each of its pools.
const (
	Free     State = "free"     // it can be given to a user now
	InUse    State = "inUse"    // it has a viewer
	Retained State = "retained" // it is kept for its user, who doesn't use it
	Expired  State = "expired"  // it is its user's, and can be given to another user
	// Unavailable: it is another pool's now, or is being deleted, or may not run.
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
		return Unavailable // until there is another one in its place
	case m.Viewed:
		return InUse
	case m.Assignment == nil:
		return Free
	case now.Before(p.KeptUntil(m)):
		return Retained
	}
	return Expired
}

// hasMade reports whether the pool has made a VM of its template.
func (p Pool) hasMade(m Member) bool { return m.Made == p.UID && m.Made != "" }

// Recreates reports whether a VM is to be replaced by a new one before another user gets it.
func (p Pool) Recreates(m Member) bool {
	return p.Spec.Recreate == v1.RecreateOnRelease && p.hasMade(m)
}

// Choose returns which VM of the pool a user gets: the one that they have (mine), else a free one, else the one
// whose user has not used it for the longest time. Among free ones those that run are preferred. Without any it
// returns nil.
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

// isAvailable reports whether the next user can get a VM.
func (p Pool) isAvailable(m Member, now time.Time) bool {
	state := p.StateOf(m, now)
	return m.In(p.Name) && (state == Free || state == Expired && !p.Recreates(m))
}

// Available returns how many VMs the next users can get.
func (p Pool) Available(all []Member, now time.Time) (count int) {
	for _, m := range all {
		if p.isAvailable(m, now) {
			count++
		}
	}
	return count
}

// keepsFirst reports whether a user with two VMs of a pool has a before b, and so keeps it.
func keepsFirst(a, b Member) bool {
	return cmp.Or(assignedSince(a).Compare(assignedSince(b)), strings.Compare(a.Name, b.Name)) < 0
}

func assignedSince(m Member) time.Time {
	if m.Assignment == nil || m.Assignment.Since == nil {
		return time.Time{}
	}
	return m.Assignment.Since.Time
}

// compareMembers orders VMs by which is to be given away first.
func compareMembers(a, b *Member) int {
	return cmp.Or(lastUsed(*a).Compare(lastUsed(*b)), readinessRank(*a)-readinessRank(*b),
		strings.Compare(a.Name, b.Name))
}

// lastUsed is the zero time for a VM that no user has.
func lastUsed(m Member) (at time.Time) {
	if m.Assignment != nil {
		at = m.Assignment.LastUsed.Time
		if m.Used.After(at) {
			at = m.Used
		}
	}
	return at
}

// readinessRank is smaller for a VM that a user can use sooner.
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
	return 3 // it is being stopped
}
