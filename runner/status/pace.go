package status

import "time"

// Pace limits how often a subscriber receives a status.
type Pace struct {
	// Every is the time between two snapshots while changes keep coming.
	Every time.Duration
	// Burst is the number of snapshots that may come before Every applies, at least 1.
	Burst int
	// RAM is the time between two snapshots that differ only in the memory, because a balloon moves for minutes.
	// Its final value is published.
	RAM time.Duration
}

// DefaultPace lets the few changes of a start through immediately. After them it allows one snapshot a second,
// and one in 15 seconds for the memory.
func DefaultPace() Pace { return Pace{Every: time.Second, Burst: 5, RAM: 15 * time.Second} }

// meter decides when the next snapshot may be handed out. Each snapshot pushes full by pace.Every into the future
// (the generic cell rate algorithm of ITU-T I.371).
type meter struct {
	pace Pace
	full time.Time // when the whole burst is available again
	ram  time.Time // when the memory was published last
}

// dueTime returns the earliest time for a snapshot. A change of the memory alone waits longer.
func (m *meter) dueTime(onlyRAM bool) time.Time {
	at := m.full.Add(-time.Duration(max(m.pace.Burst, 1)-1) * m.pace.Every)
	if next := m.ram.Add(m.pace.RAM); onlyRAM && !m.ram.IsZero() && next.After(at) {
		at = next
	}
	return at
}

// noteTold records that a snapshot was handed out.
func (m *meter) noteTold(now time.Time, ram bool) {
	if m.full.Before(now) {
		m.full = now
	}
	m.full = m.full.Add(m.pace.Every)
	if ram {
		m.ram = now
	}
}
