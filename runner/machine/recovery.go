package machine

import (
	"fmt"
	"time"

	"vmop/vmspec"
)

// Timing and limits of the recovery after a disk failure.
const (
	spacePoll    = 5 * time.Second // between two measurements of the free space
	firstRetry   = 10 * time.Second
	longestRetry = 5 * time.Minute
	calmTime     = time.Minute // a VM that has run this long has recovered

	leastReserve = 1 << 20
	mostReserve  = 64 << 20
)

// A failedDisk is one of the reasons why QEMU has stopped the VM with an I/O error.
type failedDisk struct {
	drive drive
	// full reports that no space was left. Otherwise cause contains the reason.
	full  bool
	cause string
	space Space
}

// Space is the free space of the file system that contains a disk, in bytes.
type Space struct {
	// Known reports whether the disk is a file, so that the free space is meaningful.
	Known      bool
	Free, Size int64
}

// reserveBytes returns how much space must be free before the VM resumes: enough that it does not stop again soon, and
// more on a large file system.
func (s Space) reserveBytes() int64 {
	return min(max(s.Size/100, leastReserve), mostReserve) &^ (leastReserve - 1)
}

// recovery decides when to resume a VM that QEMU has stopped because of disks. Whether a disk works again can
// only be found out by trying, at growing intervals. If the disk was full, its file system shows when trying is
// worthwhile.
type recovery struct {
	stopped  bool
	since    time.Time        // when QEMU stopped the VM
	tried    time.Time        // time of the last attempt; zero if there was none
	attempts int              // consecutive attempts
	base     map[string]int64 // free space at the stop, by drive
}

// noteRunning records that the VM runs.
func (r *recovery) noteRunning() { r.stopped = false }

// noteAttempt records an attempt.
func (r *recovery) noteAttempt(now time.Time) {
	r.stopped, r.tried = false, now
	r.attempts++
}

// pauseBeforeTry returns the time from the stop until the next blind attempt.
func (r *recovery) pauseBeforeTry() time.Duration {
	pause := firstRetry
	for range r.attempts {
		pause = min(2*pause, longestRetry)
	}
	return pause
}

// decideResume decides whether to resume a stopped VM. If not, it must be called again at wake. why contains a text for
// each disk.
func (r *recovery) decideResume(list []failedDisk, now time.Time) (resume bool, wake time.Time, why []string) {
	if !r.stopped {
		r.stopped, r.since, r.base = true, now, map[string]int64{}
		if now.Sub(r.tried) > calmTime {
			r.attempts = 0
		}
		for _, d := range list {
			r.base[d.drive.name] = d.space.Free
		}
	}
	retry := r.since.Add(r.pauseBeforeTry())
	resume, wake = true, retry
	for _, d := range list {
		ready, text := r.isReady(d, retry, now)
		resume = resume && ready
		why = append(why, d.drive.String()+": "+text)
		if d.full && d.space.Known {
			wake = soonestOf(wake, now.Add(spacePoll))
		}
	}
	if len(list) == 0 {
		resume = !now.Before(retry)
		why = []string{"QEMU does not report which drive has failed; the VM is paused until " + clockTime(retry)}
	}
	if !wake.After(now) {
		wake = now.Add(spacePoll)
	}
	return resume, wake, why
}

// isReady reports whether resuming is worthwhile with respect to one disk.
func (r *recovery) isReady(d failedDisk, retry, now time.Time) (ready bool, text string) {
	next := "; the VM is paused; next attempt at " + clockTime(retry)
	if !d.full || !d.space.Known {
		return !now.Before(retry), d.cause + next
	}
	need := d.space.reserveBytes()
	text = fmt.Sprintf("no space left on its file system; the VM is paused until %s more are free", vmspec.Bytes(need))
	switch {
	case d.space.Free < need:
		return false, text
	case d.space.Free >= r.base[d.drive.name]+need:
		return true, text
	}
	// There seems to be space, but this file may not be able to use it.
	return !now.Before(retry), "no space left for it, though its file system has some (a quota?)" + next
}

func clockTime(t time.Time) string { return t.UTC().Format(time.TimeOnly + "Z") }
