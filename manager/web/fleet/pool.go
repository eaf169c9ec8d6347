package fleet

import (
	"context"
	"time"
)

// Pools assigns VMs to users. All methods are safe for concurrent use. Errors are those that Fleet describes;
// ErrNotFound means that the pool doesn't exist.
type Pools interface {
	// Pools returns all pools, sorted by name. Don't modify them.
	Pools() []*Pool
	// Claim assigns a VM of a pool to a user, starts the VM, and returns its name. It prefers the VM that the user
	// already has.
	Claim(ctx context.Context, user, pool string) (vm string, err error)
	// Release makes an assigned VM available again. user is the requesting user, for records.
	Release(ctx context.Context, user, vm string) error
}

// A Pool is a pool of VMs for users.
type Pool struct {
	Name string `json:"name"`
	// Available is how many VMs the next users can get: free VMs, and VMs with an expired retention.
	Available int `json:"available"`
	// VMs is the number of VMs in the pool. Free counts VMs without a user, and Assigned VMs with a user. InUse counts
	// assigned VMs with a viewer, and Retained VMs that are kept for their users.
	VMs      int `json:"vms,omitempty"`
	Free     int `json:"free,omitempty"`
	Assigned int `json:"assigned,omitempty"`
	InUse    int `json:"inUse,omitempty"`
	Retained int `json:"retained,omitempty"`
	// Message is a problem of the pool; empty if there is none.
	Message string `json:"message,omitempty"`
	// Members are its VMs, sorted by name.
	Members []PoolMember `json:"members,omitempty"`
}

// Of returns the name of the VM that a user has from the pool; "" if there is none.
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
	// Assigned is the VM's user; nil if it has none.
	Assigned *Assigned `json:"assigned,omitempty"`
}

// PoolStates returns all states of a VM in a pool.
func PoolStates() []string { return []string{"free", "inUse", "retained", "expired", "unavailable"} }

// Assigned is the assignment of a VM from a pool to a user.
type Assigned struct {
	Pool string `json:"pool"`
	User string `json:"user"`
	// Since is when the user got the VM, LastUsed is when the user last used it. Until is how long it is kept if it
	// isn't used again.
	Since    time.Time `json:"since,omitzero"`
	LastUsed time.Time `json:"lastUsed"`
	Until    time.Time `json:"until,omitzero"`
}
