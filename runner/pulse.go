package runner

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"vmop/qmp"
	"vmop/runner/status"
)

// Times by which it is known whether QEMU is there.
const (
	// beatTime is how often QEMU is asked for a sign of life when there is nothing
	// else to say. Each costs the runner about 30 context switches, most of them
	// Go's own until it is at rest again, and a runner that waits may have one a
	// second.
	beatTime = 45 * time.Second
	// overdueTime is when an answer is late: QEMU answers within milliseconds,
	// unless it has been stopped or waits for the host.
	overdueTime = 5 * time.Second
	// brokenTime is how long QEMU's end may come after that of its connection.
	brokenTime = 500 * time.Millisecond
	// againTime is how long after an attempt to connect the next follows, at
	// first and at most.
	againTime, lastAgainTime = 10 * time.Millisecond, 5 * time.Second
)

// ask sends a command; the loop calls hear with what comes back. It waits for
// the answer as long as the session lasts: a QEMU that was stopped carries out
// what it was told before, so nothing must be said twice.
func (l *live) ask(ctx context.Context, session *qmp.Session, c qmp.Command, hear func(json.RawMessage, error)) {
	pending := session.Start(c)
	go func() {
		soon, cancel := context.WithTimeout(ctx, overdueTime)
		reply, err := pending.Wait(soon)
		cancel()
		if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
			l.say(ctx, func() { hear(reply, err) })
			return
		}
		l.say(ctx, func() { l.late(1) })
		reply, err = pending.Wait(ctx)
		l.say(ctx, func() {
			l.late(-1)
			hear(reply, err)
		})
	}()
}

// say hands something to the loop. What comes after the session's end is about a
// machine that is known anew by now, and is not heard.
func (l *live) say(ctx context.Context, what func()) {
	heard := func() {
		if ctx.Err() == nil {
			what()
		}
	}
	select {
	case l.heard <- heard:
	case <-ctx.Done():
	}
}

// late counts the answers that are overdue.
func (l *live) late(more int) {
	before := l.overdue > 0
	l.overdue += more
	now := l.overdue > 0
	if before == now {
		return
	}
	l.m.tell(status.Unresponsive(now))
	if now {
		l.m.log.Error("QEMU does not answer; it is waited for", "time", overdueTime.String())
	} else {
		l.m.log.Info("QEMU answers again")
	}
}

// beat asks for a sign of life, which is what the machine does.
func (l *live) beat(ctx context.Context, session *qmp.Session) {
	if l.overdue > 0 {
		return // it has not answered the last one
	}
	l.ask(ctx, session, qmp.Command{Execute: "query-status"}, func(reply json.RawMessage, err error) {
		var state struct{ Status string }
		if err != nil || json.Unmarshal(reply, &state) != nil {
			return
		}
		l.m.tell(status.RunState(state.Status), status.Process{PID: l.m.qemu.Pid(), Version: qemuVersion(session.Version())})
		l.unsure = l.unsure && state.Status == "prelaunch"
		if l.unsure {
			// The runner that started QEMU was killed a moment before the guest ran.
			l.ask(ctx, session, qmp.Command{Execute: "cont"}, func(json.RawMessage, error) {})
		}
	})
}

// reconnect connects with a QEMU that goes on. It returns nil when QEMU has
// ended.
func (l *live) reconnect(ctx context.Context) *qmp.Session {
	first := l.m.monitor.current() == nil
	if !first {
		if l.ends(brokenTime) { // its end closes the connection before it is seen
			return nil
		}
		l.m.log.Warn("the connection with QEMU's monitor is broken; it is made anew")
	}
	for wait := againTime; ; wait = min(2*wait, lastAgainTime) {
		session, err := l.m.monitor.dial(ctx)
		if err == nil {
			if !first {
				l.serialBase += l.m.live.Facts().PasswordSerial
				l.m.live = l.m.knownAgain()
			}
			l.m.tell(status.Unresponsive(false))
			return session
		}
		if l.ends(wait) {
			return nil
		}
		if wait == againTime {
			l.m.tell(status.Unresponsive(true))
			l.m.log.Error("QEMU runs, but its monitor cannot be reached; it is tried again", "err", err)
		}
	}
}

// ends says whether QEMU ends within a time.
func (l *live) ends(within time.Duration) bool {
	late := time.After(within)
	for {
		select {
		case <-l.m.qemu.Done():
			return true
		case <-l.m.service.alive:
		case <-late:
			return false
		}
	}
}
