package fleet

import (
	"context"
	"time"
)

// Pools give VMs to users. All methods may be called concurrently; errors are those of Fleet, where ErrNotFound
// means that there is no such pool.
type Pools interface {
	// Pools returns all pools, sorted by their names. They must not be changed.
	Pools() []*Pool
	// Claim gives a user a VM of a pool, the one that they have or another one, starts it, and returns its name.
	Claim(ctx context.Context, user, pool string) (vm string, err error)
	// Release makes a VM free that is a user's. user is who wants it, for records.
	Release(ctx context.Context, user, vm string) error
}

// A Pool gives VMs to users.
type Pool struct {
	Name string `json:"name"`
	// Available is how many VMs the next users can get: free ones, and those that are no longer kept.
	Available int `json:"available"`
	// VMs of the pool: Free have no user, Assigned are users', of which InUse have a viewer and
	// Retained are kept for their users.
	VMs      int `json:"vms,omitempty"`
	Free     int `json:"free,omitempty"`
	Assigned int `json:"assigned,omitempty"`
	InUse    int `json:"inUse,omitempty"`
	Retained int `json:"retained,omitempty"`
	// Message says what is not as it should be; empty if all is.
	Message string `json:"message,omitempty"`
	// Members are its VMs, sorted by their names.
	Members []PoolMember `json:"members,omitempty"`
}

// Of returns the name of the VM that a user has from the pool; "" if they have none.
func (p *Pool) Of(user string) string {
	for _, m := range p.Members {
		if m.Assigned != nil && m.Assigned.User == user && m.State != "unavailable" {
			return m.VM
		}
	}
	return ""
}

// A PoolMember is a VM of a pool.
type PoolMember struct {
	VM string `json:"vm"`
	// State is free, inUse, retained, expired, or unavailable.
	State string `json:"state"`
	// Assigned is who has it; nil: no one has.
	Assigned *Assigned `json:"assigned,omitempty"`
}

// PoolStates returns all states of a VM in a pool.
func PoolStates() []string { return []string{"free", "inUse", "retained", "expired", "unavailable"} }

// Assigned is who has a VM from a pool.
type Assigned struct {
	Pool string `json:"pool"`
	User string `json:"user"`
	// Since is when they got it, LastUsed when they last used it. Until is how long it is kept for them if they
	// don't use it.
	Since    time.Time `json:"since,omitzero"`
	LastUsed time.Time `json:"lastUsed"`
	Until    time.Time `json:"until,omitzero"`
}
