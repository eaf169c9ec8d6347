package machine

import (
	"log/slog"
	"time"

	"vmop/runner/status"
)

// Times by which it is known whether QEMU is there.
const (
	// overdueTime is when a reply is late: QEMU answers within milliseconds,
	// unless it has been stopped or waits for the host.
	overdueTime = 5 * time.Second
	// brokenTime is how long QEMU's end may come after that of its connection.
	brokenTime = 500 * time.Millisecond
	// redialTime is how long after an attempt to connect the next follows, at
	// first and at most.
	redialTime, lastRedialTime = 10 * time.Millisecond, 5 * time.Second
)

// connection decides when to connect with QEMU again, and notices that it does
// not answer.
type connection struct {
	*line
	lost    bool      // there was one, and QEMU's end may follow
	dial    time.Time // when to connect; zero: not
	wait    time.Duration
	dialing bool
	overdue bool // a reply is
}

// found begins with a QEMU that an earlier runner has left.
func (c *connection) found(now time.Time) { c.dial, c.wait = now, redialTime }

func (c *connection) made() {
	c.dial, c.dialing, c.lost, c.overdue = time.Time{}, false, false, false
	c.publish(status.Unresponsive(false))
}

// broke plans to connect again, unless QEMU's end explains it.
func (c *connection) broke(now time.Time) {
	if c.overdue {
		c.setOverdue(false)
	}
	c.lost, c.dial, c.wait = true, now.Add(brokenTime), redialTime
}

func (c *connection) dialFailed(err error, now time.Time) {
	c.dialing = false
	if c.wait == redialTime {
		c.publish(status.Unresponsive(true))
		c.log(slog.LevelError, "QEMU runs, but its monitor cannot be reached; trying again", "err", err)
	}
	c.dial = now.Add(c.wait)
	c.wait = min(2*c.wait, lastRedialTime)
}

func (c *connection) next(now time.Time) (wake time.Time) {
	if !c.connected {
		if c.dialing || c.dial.IsZero() || c.over != nil {
			return time.Time{}
		}
		if now.Before(c.dial) {
			return c.dial
		}
		if c.lost {
			c.lost = false
			c.log(slog.LevelWarn, "the connection with QEMU's monitor is broken; connecting again")
		}
		c.dialing = true
		c.do(Dial{})
		return time.Time{}
	}
	said := c.oldest()
	late := said.Add(overdueTime)
	overdue := !said.IsZero() && !now.Before(late)
	if overdue != c.overdue {
		c.setOverdue(overdue)
	}
	if said.IsZero() || overdue {
		return time.Time{}
	}
	return late
}

func (c *connection) setOverdue(overdue bool) {
	c.overdue = overdue
	c.publish(status.Unresponsive(overdue))
	if overdue {
		c.log(slog.LevelError, "QEMU does not answer; waiting for it", "time", overdueTime.String())
	} else {
		c.log(slog.LevelInfo, "QEMU answers again")
	}
}
