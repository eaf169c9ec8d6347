package machine

import (
	"log/slog"
	"time"

	"vmop/runner/status"
)

// Timeouts that decide whether QEMU is responsive.
const (
	// overdueTime is when a reply is late. QEMU answers within milliseconds unless it has been stopped or waits
	// for the host.
	overdueTime = 5 * time.Second
	// brokenTime is how long QEMU's end may follow the end of its connection.
	brokenTime = 500 * time.Millisecond
	// redialTime and lastRedialTime are the first and the longest pause between connection attempts.
	redialTime, lastRedialTime = 10 * time.Millisecond, 5 * time.Second
)

// connection decides when to reconnect to QEMU, and detects that QEMU does not answer.
type connection struct {
	*line
	lost    bool      // a connection existed, and QEMU's end may follow
	dial    time.Time // when to connect; zero: never
	wait    time.Duration
	dialing bool
	overdue bool // a reply is overdue
}

// foundRunning starts with a QEMU that an earlier runner has left.
func (c *connection) foundRunning(now time.Time) { c.dial, c.wait = now, redialTime }

func (c *connection) noteConnected() {
	c.dial, c.dialing, c.lost, c.overdue = time.Time{}, false, false, false
	c.publishUpdates(status.Unresponsive(false))
}

// planReconnect schedules a reconnection, unless QEMU's end explains the broken connection.
func (c *connection) planReconnect(now time.Time) {
	if c.overdue {
		c.setOverdue(false)
	}
	c.lost, c.dial, c.wait = true, now.Add(brokenTime), redialTime
}

func (c *connection) dialFailed(err error, now time.Time) {
	c.dialing = false
	if c.wait == redialTime {
		c.publishUpdates(status.Unresponsive(true))
		c.addLog(slog.LevelError, "QEMU runs, but its monitor cannot be reached; trying again", "err", err)
	}
	c.dial = now.Add(c.wait)
	c.wait = min(2*c.wait, lastRedialTime)
}

func (c *connection) nextStep(now time.Time) (wake time.Time) {
	if !c.connected {
		if c.dialing || c.dial.IsZero() || c.over != nil {
			return time.Time{}
		}
		if now.Before(c.dial) {
			return c.dial
		}
		if c.lost {
			c.lost = false
			c.addLog(slog.LevelWarn, "the connection with QEMU's monitor is broken; connecting again")
		}
		c.dialing = true
		c.addAction(Dial{})
		return time.Time{}
	}
	said := c.oldestSaid()
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
	c.publishUpdates(status.Unresponsive(overdue))
	if overdue {
		c.addLog(slog.LevelError, "QEMU does not answer; waiting for it", "time", overdueTime.String())
	} else {
		c.addLog(slog.LevelInfo, "QEMU answers again")
	}
}
