package status

import "time"

// Migration tells that the guest is being moved to another runner, or from one.
type Migration struct {
	// Direction is Leaving or Arriving.
	Direction Direction `json:"direction"`
	// Stage is how far this side is; see docs/migration.md.
	Stage string `json:"stage"`
	// Address is where the target listens.
	Address string `json:"address"`
	// Transferred, Remaining and Total are bytes of the guest's memory. The source knows them.
	Transferred int64 `json:"transferred,omitempty"`
	Remaining   int64 `json:"remaining,omitempty"`
	Total       int64 `json:"total,omitempty"`
	// Throttle is by how much the guest is slowed down, in percent.
	Throttle int `json:"throttle,omitempty"`
	// DiskCopied and DiskTotal are bytes of disks that are copied. What the guest writes meanwhile is added to both.
	DiskCopied int64 `json:"diskCopied,omitempty"`
	DiskTotal  int64 `json:"diskTotal,omitempty"`
}

// Direction is that of a migration.
type Direction string

// The directions.
const (
	Leaving  Direction = "Leaving"
	Arriving Direction = "Arriving"
)

// Moves tells of a migration, or by nil that it is over.
type Moves struct{ *Migration }

func (u Moves) apply(s *Status, _ time.Time) error {
	s.Migration = nil
	if u.Migration != nil {
		m := *u.Migration
		s.Migration = &m
	}
	return nil
}
