package handover

import (
	"fmt"
	"time"

	"vmop/diskimage"
)

// Bounds are what a user lets a migration cost.
type Bounds struct {
	// Downtime is how long the guest may be paused for the rest of its memory, at most; at least a millisecond.
	// To begin with it is tried with less.
	Downtime time.Duration `json:"downtime"`
	// Bandwidth is the most that is sent per second, in bytes; 0 is no limit.
	Bandwidth int64 `json:"bandwidth,omitempty"`
}

// DefaultBounds are those of a migration of which nothing else is said.
func DefaultBounds() Bounds { return Bounds{Downtime: 500 * time.Millisecond} }

const (
	// firstDowntime is the downtime that is tried first.
	firstDowntime = 50 * time.Millisecond
	// patientPasses are how often the memory is passed before the next step.
	patientPasses = 2
	// slowest is the throttle, in percent of the guest's time, with which QEMU can do no more.
	slowest = 99
	// lastPasses are how often the memory is passed with the most of everything before the migration is given up.
	lastPasses = 5
)

// Migration is how far QEMU is; see MigrationInfo in its QMP reference.
type Migration struct {
	Status   string `json:"status"`
	Error    string `json:"error-desc"`
	Throttle int    `json:"cpu-throttle-percentage"`
	Downtime int64  `json:"downtime"` // milliseconds, of one that is completed
	RAM      struct {
		Transferred int64   `json:"transferred"` // bytes
		Remaining   int64   `json:"remaining"`
		Total       int64   `json:"total"`
		Passes      int64   `json:"dirty-sync-count"`
		DirtyRate   int64   `json:"dirty-pages-rate"` // per second
		PageSize    int64   `json:"page-size"`
		Megabits    float64 `json:"mbps"`
	} `json:"ram"`
}

// convergence sees to it that a migration ends. A guest may write its memory faster than it can be sent: QEMU
// slows the guest down, step by step (auto-converge), and here the downtime is raised up to the bound. What helps
// neither way is given up.
type convergence struct {
	bounds   Bounds
	downtime time.Duration // that QEMU has
	passes   int64         // at the last step
}

// first is the downtime to begin with.
func (c *convergence) first() time.Duration {
	c.downtime = min(firstDowntime, c.bounds.Downtime)
	return c.downtime
}

// next returns the downtime that QEMU is to have now, 0 to leave it, or why the migration is given up.
func (c *convergence) next(m Migration) (downtime time.Duration, giveUp error) {
	if m.Status != "active" {
		return 0, nil
	}
	waited := m.RAM.Passes - c.passes
	switch {
	case c.downtime < c.bounds.Downtime && waited >= patientPasses:
		c.downtime, c.passes = min(2*c.downtime, c.bounds.Downtime), m.RAM.Passes
		return c.downtime, nil
	case c.downtime < c.bounds.Downtime, m.Throttle < slowest:
		return 0, nil
	case waited >= lastPasses:
		written, sent := m.RAM.DirtyRate*m.RAM.PageSize, int64(m.RAM.Megabits*1e6/8)
		return 0, fmt.Errorf("the guest writes its memory faster (%s/s) than it is sent (%s/s), though it was slowed down by "+
			"%d%%, and may be paused for %s; allow a longer pause or more bandwidth, or migrate it when it does less",
			diskimage.Size(written), diskimage.Size(sent), m.Throttle, c.bounds.Downtime)
	}
	return 0, nil
}
