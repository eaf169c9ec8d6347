package describe

import (
	"time"

	"vmop/manager/pool"
	"vmop/manager/web/fleet"
)

// Pool returns a pool with its VMs as it is shown. all are the VMs of the namespace that are in any pool. Its numbers
// are those of now: the manager that leads writes them into its status a little later.
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

// Assigned returns the user who has a VM from a pool; nil if it is none, or by another pool.
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
