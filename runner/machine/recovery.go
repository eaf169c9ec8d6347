package machine

import (
	"fmt"
	"time"

	"vmop/vmspec"
)

// Times and bounds of the recovery after a disk has failed.
const (
	spacePoll    = 5 * time.Second // between two measurements of the free space
	firstRetry   = 10 * time.Second
	longestRetry = 5 * time.Minute
	calmTime     = time.Minute // a VM that has run for so long has recovered

	leastReserve = 1 << 20
	mostReserve  = 64 << 20
)

// A failedDisk is one of the reasons why QEMU has stopped the VM with an I/O
// error.
type failedDisk struct {
	drive drive
	// full says that there was no space left; otherwise cause has the reason.
	full  bool
	cause string
	space Space
}

// Space is that of the file system under a disk, in bytes.
type Space struct {
	// Known says that the disk is a file, so that the free space says something.
	Known      bool
	Free, Size int64
}

// reserve is how much must be free before the VM resumes: some, so that it does
// not stop again at once, and more on a large file system.
func (s Space) reserve() int64 {
	return min(max(s.Size/100, leastReserve), mostReserve) &^ (leastReserve - 1)
}

// recovery decides when a VM that QEMU has stopped because of disks is resumed.
// Whether a disk works again is known only by trying, at growing intervals;
// where it was full, its file system shows when trying is worthwhile.
type recovery struct {
	stopped  bool
	since    time.Time        // QEMU stopped the VM
	tried    time.Time        // the last attempt; zero if there was none
	attempts int              // in a row
	base     map[string]int64 // free space in the beginning, by drive
}

// runs records that the VM runs.
func (r *recovery) runs() { r.stopped = false }

// tries records an attempt.
func (r *recovery) tries(now time.Time) {
	r.stopped, r.tried = false, now
	r.attempts++
}

// pause is the time from the stop to the next attempt that is only a try.
func (r *recovery) pause() time.Duration {
	pause := firstRetry
	for range r.attempts {
		pause = min(2*pause, longestRetry)
	}
	return pause
}

// next decides, for a stopped VM, whether to resume it. If not, it has to be
// called again at wake; why has a text for each disk.
func (r *recovery) next(list []failedDisk, now time.Time) (resume bool, wake time.Time, why []string) {
	if !r.stopped {
		r.stopped, r.since, r.base = true, now, map[string]int64{}
		if now.Sub(r.tried) > calmTime {
			r.attempts = 0
		}
		for _, d := range list {
			r.base[d.drive.name] = d.space.Free
		}
	}
	retry := r.since.Add(r.pause())
	resume, wake = true, retry
	for _, d := range list {
		ready, text := r.ready(d, retry, now)
		resume = resume && ready
		why = append(why, d.drive.String()+": "+text)
		if d.full && d.space.Known {
			wake = soonest(wake, now.Add(spacePoll))
		}
	}
	if len(list) == 0 {
		resume = !now.Before(retry)
		why = []string{"QEMU does not say which drive has failed; the VM is paused until " + clock(retry)}
	}
	if !wake.After(now) {
		wake = now.Add(spacePoll)
	}
	return resume, wake, why
}

// ready reports whether resuming is worth a try as far as one disk is concerned.
func (r *recovery) ready(d failedDisk, retry, now time.Time) (ready bool, text string) {
	next := "; the VM is paused; next attempt at " + clock(retry)
	if !d.full || !d.space.Known {
		return !now.Before(retry), d.cause + next
	}
	need := d.space.reserve()
	text = fmt.Sprintf("no space left on its file system; the VM is paused until %s more are free", vmspec.Bytes(need))
	switch {
	case d.space.Free < need:
		return false, text
	case d.space.Free >= r.base[d.drive.name]+need:
		return true, text
	}
	// There seems to be space, but this file may not have it.
	return !now.Before(retry), "no space left for it, though its file system has some (a quota?)" + next
}

func clock(t time.Time) string { return t.UTC().Format(time.TimeOnly + "Z") }
