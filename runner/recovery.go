package runner

import (
	"fmt"
	"time"

	"vmop/vmspec"
)

// Times and bounds of the way back after a disk has failed.
const (
	spacePoll    = 5 * time.Second // between two looks at the free space
	firstRetry   = 10 * time.Second
	longestRetry = 5 * time.Minute
	calmTime     = time.Minute // a machine that has run for so long has recovered

	leastReserve = 1 << 20
	mostReserve  = 64 << 20
)

// A standstill is what a machine waits for that QEMU has stopped because of a
// disk.
type standstill struct {
	drive drive
	// full says that there was no space left; otherwise cause has the reason.
	full  bool
	cause string
	space space
}

// space is that of the file system under a disk, in bytes.
type space struct {
	known      bool // it is a file system whose free space says something
	free, size int64
}

// reserve is how much must be free before the machine goes on: some, so that it
// doesn't stop again at once, and more on a large file system.
func (s space) reserve() int64 {
	return min(max(s.size/100, leastReserve), mostReserve) &^ (leastReserve - 1)
}

// recovery decides when a machine that stands still because of disks is let go
// on. Whether a disk works again is known only by trying, at growing distances;
// where it was full, its file system tells when trying is worth it.
type recovery struct {
	standing bool
	since    time.Time        // the standstill began
	tried    time.Time        // the last attempt; zero if there was none
	attempts int              // in a row
	base     map[string]int64 // free space in the beginning, by drive
}

// runs notes that the machine runs.
func (r *recovery) runs() { r.standing = false }

// tries notes an attempt.
func (r *recovery) tries(now time.Time) {
	r.standing, r.tried = false, now
	r.attempts++
}

// pause is the time between the beginning of the standstill and the next
// attempt that is only a try.
func (r *recovery) pause() time.Duration {
	pause := firstRetry
	for range r.attempts {
		pause = min(2*pause, longestRetry)
	}
	return pause
}

// next decides, for a machine that stands still. If it isn't let go on, it has
// to be asked again at wake; why has a text for each drive.
func (r *recovery) next(list []standstill, now time.Time) (goOn bool, wake time.Time, why []string) {
	if !r.standing {
		r.standing, r.since, r.base = true, now, map[string]int64{}
		if now.Sub(r.tried) > calmTime {
			r.attempts = 0
		}
		for _, s := range list {
			r.base[s.drive.name] = s.space.free
		}
	}
	retry := r.since.Add(r.pause())
	goOn, wake = true, retry
	for _, s := range list {
		ready, text := r.judge(s, retry, now)
		goOn = goOn && ready
		why = append(why, s.drive.String()+": "+text)
		if s.full && s.space.known {
			wake = earlier(wake, now.Add(spacePoll))
		}
	}
	if len(list) == 0 {
		goOn = !now.Before(retry)
		why = []string{"QEMU doesn't say which drive has failed; the VM waits until " + clock(retry)}
	}
	if !wake.After(now) {
		wake = now.Add(spacePoll)
	}
	return goOn, wake, why
}

// judge says whether going on is worth a try as far as one drive is concerned.
func (r *recovery) judge(s standstill, retry, now time.Time) (ready bool, text string) {
	if !s.full || !s.space.known {
		return !now.Before(retry), s.cause + "; the VM waits, and goes on with another try at " + clock(retry)
	}
	need := s.space.reserve()
	text = fmt.Sprintf("no space left on its file system; the VM waits, and goes on when %s more are free", vmspec.Bytes(need))
	switch {
	case s.space.free < need:
		return false, text
	case s.space.free >= r.base[s.drive.name]+need:
		return true, text
	}
	// There seems to be space, but none that this file may have.
	return !now.Before(retry), "no space left for it, though its file system has some (a quota?); the VM waits, and goes on with another try at " + clock(retry)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func clock(t time.Time) string { return t.UTC().Format(time.TimeOnly + "Z") }
