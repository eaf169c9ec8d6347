package status

import "time"

// Pace is how often a subscriber wants a status.
type Pace struct {
	// Every is the time between two snapshots when changes come without end.
	Every time.Duration
	// Burst is how many may come at once before Every holds, at least 1.
	Burst int
	// RAM is the time between two snapshots that differ in the memory only: a
	// balloon moves for minutes. The value at which it comes to rest is published.
	RAM time.Duration
}

// DefaultPace lets the few changes of a start through at once, then one a
// second, and one in 15 seconds for the memory.
func DefaultPace() Pace { return Pace{Every: time.Second, Burst: 5, RAM: 15 * time.Second} }

// meter decides when the next snapshot may be handed out. Each one pushes full
// by pace.Every into the future (the generic cell rate algorithm of ITU-T I.371).
type meter struct {
	pace Pace
	full time.Time // when the whole burst is available again
	ram  time.Time // when the memory was published last
}

// due returns the earliest time for a snapshot. Memory alone waits longer.
func (m *meter) due(onlyRAM bool) time.Time {
	at := m.full.Add(-time.Duration(max(m.pace.Burst, 1)-1) * m.pace.Every)
	if next := m.ram.Add(m.pace.RAM); onlyRAM && !m.ram.IsZero() && next.After(at) {
		at = next
	}
	return at
}

// told notes that a snapshot was handed out.
func (m *meter) told(now time.Time, ram bool) {
	if m.full.Before(now) {
		m.full = now
	}
	m.full = m.full.Add(m.pace.Every)
	if ram {
		m.ram = now
	}
}
