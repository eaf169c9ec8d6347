package handover

import (
	"fmt"
	"time"

	"vmop/diskimage"
)

// Bounds limit the cost of a migration.
type Bounds struct {
	// Downtime is the maximum pause of the guest while the rest of its memory is sent, at least a millisecond.
	// The migration starts with a shorter limit.
	Downtime time.Duration `json:"downtime"`
	// Bandwidth is the maximum number of bytes sent per second; 0 means unlimited.
	Bandwidth int64 `json:"bandwidth,omitempty"`
}

// DefaultBounds returns the bounds if the user has set none.
func DefaultBounds() Bounds { return Bounds{Downtime: 500 * time.Millisecond} }

const (
	// firstDowntime is the initial downtime limit.
	firstDowntime = 50 * time.Millisecond
	// patientPasses is the number of passes over the memory before the next step.
	patientPasses = 2
	// slowest is QEMU's strongest throttle, in percent of the guest's time.
	slowest = 99
	// lastPasses is the number of passes with the highest downtime and throttle before the migration is given up.
	lastPasses = 5
)

// Migration is QEMU's migration progress; see MigrationInfo in its QMP reference.
type Migration struct {
	Status   string `json:"status"`
	Error    string `json:"error-desc"`
	Throttle int    `json:"cpu-throttle-percentage"`
	Downtime int64  `json:"downtime"` // milliseconds, of a completed migration
	RAM      struct {
		Transferred int64   `json:"transferred"` // bytes
		Remaining   int64   `json:"remaining"`
		Total       int64   `json:"total"`
		Passes      int64   `json:"dirty-sync-count"`
		DirtyRate   int64   `json:"dirty-pages-rate"` // pages per second
		PageSize    int64   `json:"page-size"`
		Megabits    float64 `json:"mbps"`
	} `json:"ram"`
}

// convergence ensures that a migration ends. A guest may write its memory faster than it can be sent. QEMU then
// slows the guest down step by step (auto-converge), and convergence raises the downtime limit up to the bound.
// If both do not help, it gives the migration up.
type convergence struct {
	bounds   Bounds
	downtime time.Duration // QEMU's current limit
	passes   int64         // at the last step
}

// firstDowntime returns the initial downtime limit.
func (c *convergence) firstDowntime() time.Duration {
	c.downtime = min(firstDowntime, c.bounds.Downtime)
	return c.downtime
}

// nextDowntime returns QEMU's new downtime limit, or 0 to keep the current limit. giveUp is the reason to give the
// migration up.
func (c *convergence) nextDowntime(m Migration) (downtime time.Duration, giveUp error) {
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
