package web

import (
	"slices"
	"sync"
	"time"

	"vmop/manager/web/fleet"
)

// A point is the total use of all VMs at a time.
type point struct {
	at        time.Time
	cpus, ram int64 // ram in bytes
}

// seriesLength is how long points are kept. seriesStep is the interval between points without changes.
const (
	seriesLength = 24 * time.Hour
	seriesStep   = time.Minute
)

// A series contains the CPUs and RAM in use over the last day.
type series struct {
	mutex  sync.Mutex
	points []point
}

// addPoint records the current use. It keeps at most one point per step, the latest.
func (s *series) addPoint(now time.Time, use fleet.Use) {
	p := point{now, use.CPUs, use.RAM}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if n := len(s.points); n > 1 && s.points[n-1].at.Sub(s.points[n-2].at) < seriesStep {
		s.points = s.points[:n-1]
	}
	s.points = append(s.points, p)
	old := slices.IndexFunc(s.points, func(p point) bool { return now.Sub(p.at) <= seriesLength })
	s.points = slices.Delete(s.points, 0, old)
}

// pointsSince returns the points from a time on.
func (s *series) pointsSince(from time.Time) []point {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	i := slices.IndexFunc(s.points, func(p point) bool { return !p.at.Before(from) })
	if i < 0 {
		return nil
	}
	return slices.Clone(s.points[i:])
}
