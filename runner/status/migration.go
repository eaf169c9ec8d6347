package status

import (
	"time"

	"vmop/vmstatus"
)

// Migration describes the move of the guest to or from another runner.
type Migration struct {
	// Direction is Leaving or Arriving.
	Direction Direction `json:"direction"`
	// Address is where the target listens.
	Address string `json:"address"`
	// Progress shows how far the migration has come.
	vmstatus.Progress
}

// Direction is the direction of a migration.
type Direction string

// The directions.
const (
	Leaving  Direction = "Leaving"
	Arriving Direction = "Arriving"
)

// Moves reports a migration; nil reports that it has ended.
type Moves struct{ *Migration }

func (u Moves) applyTo(s *Status, _ time.Time) error {
	s.Migration = nil
	if u.Migration != nil {
		m := *u.Migration
		s.Migration = &m
	}
	return nil
}
