package describe

import (
	"time"

	"vmop/manager/pool"
	"vmop/manager/web/fleet"
)

// Pool returns a pool and its VMs for pages. all are the VMs of the namespace that are in any pool. The counts are
// current; the leading manager writes them to the status a little later.
func Pool(p pool.Pool, all []pool.Member, now time.Time) *fleet.Pool {
	s := p.Plan(all, now).Status
	shown := &fleet.Pool{
		Name: p.Name, Available: p.Available(all, now), Message: p.Status.Message,
		VMs: int(s.VMs), Free: int(s.Free), Assigned: int(s.Assigned), InUse: int(s.InUse), Retained: int(s.Retained),
	}
	for _, m := range all {
		if m.In(p.Name) || m.Assignment != nil && m.Assignment.Pool == p.Name {
			shown.Members = append(shown.Members, fleet.PoolMember{
				VM: m.Name, State: string(p.StateOf(m, now)), Assigned: Assigned(p, m),
			})
		}
	}
	return shown
}

// Assigned returns the user of a VM from pool p; nil if this pool has not assigned it.
func Assigned(p pool.Pool, m pool.Member) *fleet.Assigned {
	a := m.Assignment
	if a == nil || a.Pool != p.Name || a.Released != nil {
		return nil
	}
	shown := &fleet.Assigned{Pool: a.Pool, User: a.User, LastUsed: a.LastUsed.Time, Until: p.KeptUntil(m)}
	if a.Since != nil {
		shown.Since = a.Since.Time
	}
	return shown
}
