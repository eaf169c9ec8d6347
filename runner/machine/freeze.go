package machine

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"vmop/qmp"
	"vmop/runner/status"
)

// Timing of a thaw.
const (
	thawTime    = 5 * time.Second // for the agent's answer
	thawPause   = time.Second     // first pause before the agent is asked again
	longestThaw = 10 * time.Second
)

// freezeStep is the progress of a freeze.
type freezeStep int

const (
	isThawed   freezeStep = iota
	isFreezing            // the agent was asked to freeze
	isFrozen
	isThawing // the agent is asked to thaw, until it answers
)

// freeze freezes the guest's file systems for a limited time, through the guest agent. It ensures that everything
// that may be frozen is thawed in every case. Before the agent is asked to freeze, the progress records the
// freeze for the next runner. The record is removed only when the agent has answered a thaw, when it certainly
// did not carry out the freeze, or when a guest that was certainly frozen is reset.
//
// See docs/decisions/0114-freeze.md.
type freeze struct {
	*line
	keep  *keeper
	ports *ports
	run   *runState
	role  string // of the guest agent

	step    freezeStep
	since   time.Time
	until   time.Time
	count   int
	sure    bool      // the agent has confirmed the freeze
	asker   Request   // who waits for the freeze; 0: no client
	doomed  bool      // thaw as soon as the freeze is answered
	thawers []Request // who wait for the thaw
	asked   bool      // the agent was asked to thaw, and has not answered
	due     time.Time // when to ask again
	pause   time.Duration
	message string // why the file systems are not thawed yet
}

// beginFrom starts with a running guest, which an earlier runner may have frozen.
func (f *freeze) beginFrom(now time.Time) {
	if since := f.keep.progress.Frozen; since != nil {
		f.addLog(slog.LevelInfo, "thawing the guest's file systems, which an earlier runner has frozen", "since", *since)
		f.since, f.until = *since, now
		f.beginThaw(now)
	}
}

// whyImpossible returns why the guest can't be frozen, or "" if it may be possible.
func (f *freeze) whyImpossible() string {
	port := f.ports.findPort(f.role)
	switch {
	case port == nil:
		return "the VM has no port for a guest agent"
	case f.keep.progress.Paused || f.run.last == "paused":
		return "the VM is paused, so its guest agent cannot answer"
	case !port.open:
		return "no guest agent is connected; install qemu-guest-agent in the guest"
	}
	return ""
}

// beginFor starts a freeze for a client.
func (f *freeze) beginFor(to Request, limit time.Duration, now time.Time) {
	if f.step != isThawed {
		f.addAction(Answer{To: to, Err: Refusal(fmt.Sprintf("the guest's file systems are frozen already, since %s",
			f.since.UTC().Format(time.RFC3339)))})
		return
	}
	if why := f.whyImpossible(); why != "" {
		f.answerNotFrozen(to, why)
		return
	}
	f.step, f.asker, f.since, f.until = isFreezing, to, now, now.Add(limit)
	f.count, f.sure, f.doomed, f.message = 0, false, false, ""
	f.keep.setFrozen(now)
	f.publishState()
	f.addAction(FreezeGuest{f.keep.progress, limit})
}

// noteFrozen processes the answer to a freeze.
func (f *freeze) noteFrozen(count int, sent bool, err error, now time.Time) {
	if f.step != isFreezing {
		return
	}
	to := f.asker
	f.asker = 0
	if err == nil && count > 0 && !f.doomed {
		f.step, f.count, f.sure = isFrozen, count, true
		f.publishState()
		f.addLog(slog.LevelInfo, "the guest's file systems are frozen", "fileSystems", count,
			"until", f.until.UTC().Format(time.RFC3339))
		f.replyTo(to, status.FreezeAnswer{Frozen: true, FileSystems: count, Until: &f.until})
		return
	}
	why := "the guest has no file systems that can be frozen"
	if err != nil {
		why = err.Error()
	} else if count > 0 {
		why, f.sure, f.count = "a thaw was requested meanwhile", true, count
	}
	var refusal *qmp.Error
	if err != nil && (!sent || errors.As(err, &refusal) && refusal.Class == qmp.CommandNotFound) {
		f.endFreeze()
	} else {
		f.beginThaw(now)
	}
	f.answerNotFrozen(to, why)
}

// beginThaw starts to thaw.
func (f *freeze) beginThaw(now time.Time) {
	f.step, f.asked, f.due, f.pause = isThawing, false, now, thawPause
	f.publishState()
}

// noteThawed processes the answer to a thaw.
func (f *freeze) noteThawed(count int, err error, now time.Time) {
	if f.step != isThawing || !f.asked {
		return
	}
	f.asked = false
	if err == nil {
		f.addLog(slog.LevelInfo, "the guest's file systems are thawed", "fileSystems", count,
			"after", now.Sub(f.since).Round(time.Millisecond).String())
		f.count = count
		f.endFreeze()
		return
	}
	if f.message == "" {
		f.addLog(slog.LevelWarn, "the guest's file systems may be frozen; the guest agent is asked again until it answers",
			"err", err)
	}
	f.message = err.Error()
	f.publishState()
	f.due = now.Add(f.pause)
	f.pause = min(2*f.pause, longestThaw)
}

// endFreeze ends the freeze after everything is thawed.
func (f *freeze) endFreeze() {
	f.step, f.asked, f.asker = isThawed, false, 0
	f.keep.setFrozen(time.Time{})
	f.keep.saveProgress()
	f.publishState()
	for _, to := range f.thawers {
		f.replyTo(to, status.FreezeAnswer{FileSystems: f.count})
	}
	f.thawers = nil
}

// thawFor thaws for a client.
func (f *freeze) thawFor(to Request, now time.Time) {
	f.thawers = append(f.thawers, to)
	if !f.thawAll(now) {
		f.count = 0
		f.endFreeze()
	}
}

// thawAll thaws everything, and reports whether there is anything to thaw.
func (f *freeze) thawAll(now time.Time) bool {
	switch f.step {
	case isThawed:
		return false
	case isFreezing:
		f.doomed = true
		f.addAction(EndFreeze{})
	case isFrozen:
		f.beginThaw(now)
	case isThawing:
		f.due = now
	}
	return true
}

// cancelFor records that a client no longer waits for an answer.
func (f *freeze) cancelFor(to Request, now time.Time) {
	f.thawers = slices.DeleteFunc(f.thawers, func(o Request) bool { return o == to })
	if f.step == isFreezing && f.asker == to {
		f.asker = 0
		f.thawAll(now)
	}
}

// wasReset records that the guest has restarted. The agent may still carry out an unanswered request.
func (f *freeze) wasReset() {
	if f.sure && f.step != isThawed {
		f.endFreeze()
	}
}

func (f *freeze) nextStep(now time.Time) (wake time.Time) {
	switch {
	case f.step == isFrozen && now.Before(f.until):
		return f.until
	case f.step == isFrozen:
		f.addLog(slog.LevelInfo, "the guest's file systems were frozen for as long as was requested")
		f.beginThaw(now)
	}
	if f.step != isThawing || f.asked {
		return time.Time{}
	}
	port := f.ports.findPort(f.role)
	if port == nil || !port.open && port.device != "" {
		return time.Time{} // the opening of the port is an event
	}
	if now.Before(f.due) {
		return f.due
	}
	f.asked = true
	f.addAction(ThawGuest{thawTime})
	return time.Time{}
}

// publishState publishes the state of the freeze.
func (f *freeze) publishState() {
	states := map[freezeStep]status.FreezeState{
		isFreezing: status.Freezing, isFrozen: status.FSFrozen, isThawing: status.Thawing,
	}
	if f.step == isThawed {
		f.publishUpdates(status.Froze{})
		return
	}
	f.publishUpdates(status.Froze{Frozen: &status.Frozen{
		State: states[f.step], Since: f.since, Until: f.until, FileSystems: f.count, Message: f.message,
	}})
}

// answerNotFrozen answers a freeze request that failed.
func (f *freeze) answerNotFrozen(to Request, why string) {
	f.addLog(slog.LevelWarn, "the guest's file systems are not frozen", "why", why)
	f.replyTo(to, status.FreezeAnswer{Message: "not frozen: crash-consistent, because " + why})
}

func (f *freeze) replyTo(to Request, a status.FreezeAnswer) {
	text, err := json.Marshal(a)
	if to != 0 {
		f.addAction(Answer{To: to, Reply: text, Err: err})
	}
}
