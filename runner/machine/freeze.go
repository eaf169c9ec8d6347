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

// Times of a thaw.
const (
	thawTime    = 5 * time.Second // what the agent has to answer
	thawPause   = time.Second     // before it is asked again, at first
	longestThaw = 10 * time.Second
)

// freezeStep is how far a freeze has come.
type freezeStep int

const (
	isThawed   freezeStep = iota
	isFreezing            // the agent was asked to freeze
	isFrozen
	isThawing // it is asked to thaw, until it answers
)

// freeze freezes the guest's file systems for a time, by the guest agent. What may be frozen is
// thawed, whatever happens: from the moment before the agent is asked to freeze, the progress
// says so to the next runner; and only an answer of the agent to a thaw, or a reset of a guest
// that has frozen, ends that.
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
	sure    bool      // the agent has said that it is frozen
	asker   Request   // who awaits the freeze; 0: no client does
	doomed  bool      // it is to be thawed as soon as it is answered
	thawers []Request // who await the thaw
	asked   bool      // the agent was asked to thaw, and has not answered
	due     time.Time // of the next question
	pause   time.Duration
	message string // why it is not thawed
}

// begin begins with a guest that runs, which an earlier runner may have frozen.
func (f *freeze) begin(now time.Time) {
	if since := f.keep.progress.Frozen; since != nil {
		f.log(slog.LevelInfo, "thawing the guest's file systems, which an earlier runner has frozen", "since", *since)
		f.since, f.until = *since, now
		f.thaw(now)
	}
}

// cannot says why the guest can't be frozen; empty if it may be possible.
func (f *freeze) cannot() string {
	port := f.ports.find(f.role)
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

// begins freezes for a client.
func (f *freeze) begins(to Request, limit time.Duration, now time.Time) {
	if f.step != isThawed {
		f.do(Answer{To: to, Err: Refusal(fmt.Sprintf("the guest's file systems are frozen already, since %s",
			f.since.UTC().Format(time.RFC3339)))})
		return
	}
	if why := f.cannot(); why != "" {
		f.answerNotFrozen(to, why)
		return
	}
	f.step, f.asker, f.since, f.until = isFreezing, to, now, now.Add(limit)
	f.count, f.sure, f.doomed, f.message = 0, false, false, ""
	f.keep.setFrozen(now)
	f.publishState()
	f.do(FreezeGuest{f.keep.progress, limit})
}

// frozen takes in the answer to a freeze.
func (f *freeze) frozen(count int, sent bool, err error, now time.Time) {
	if f.step != isFreezing {
		return
	}
	to := f.asker
	f.asker = 0
	if err == nil && count > 0 && !f.doomed {
		f.step, f.count, f.sure = isFrozen, count, true
		f.publishState()
		f.log(slog.LevelInfo, "the guest's file systems are frozen", "fileSystems", count,
			"until", f.until.UTC().Format(time.RFC3339))
		f.reply(to, status.FreezeAnswer{Frozen: true, FileSystems: count, Until: &f.until})
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
		f.over()
	} else {
		f.thaw(now)
	}
	f.answerNotFrozen(to, why)
}

// thaw begins to thaw.
func (f *freeze) thaw(now time.Time) {
	f.step, f.asked, f.due, f.pause = isThawing, false, now, thawPause
	f.publishState()
}

// thawed takes in the answer to a thaw.
func (f *freeze) thawed(count int, err error, now time.Time) {
	if f.step != isThawing || !f.asked {
		return
	}
	f.asked = false
	if err == nil {
		f.log(slog.LevelInfo, "the guest's file systems are thawed", "fileSystems", count,
			"after", now.Sub(f.since).Round(time.Millisecond).String())
		f.count = count
		f.over()
		return
	}
	if f.message == "" {
		f.log(slog.LevelWarn, "the guest's file systems may be frozen; the guest agent is asked again until it answers",
			"err", err)
	}
	f.message = err.Error()
	f.publishState()
	f.due = now.Add(f.pause)
	f.pause = min(2*f.pause, longestThaw)
}

// over ends the freeze: nothing is frozen.
func (f *freeze) over() {
	f.step, f.asked, f.asker = isThawed, false, 0
	f.keep.setFrozen(time.Time{})
	f.keep.save()
	f.publishState()
	for _, to := range f.thawers {
		f.reply(to, status.FreezeAnswer{FileSystems: f.count})
	}
	f.thawers = nil
}

// thawFor thaws for a client.
func (f *freeze) thawFor(to Request, now time.Time) {
	f.thawers = append(f.thawers, to)
	if !f.end(now) {
		f.count = 0
		f.over()
	}
}

// end has everything thawed, and returns whether there is something to thaw.
func (f *freeze) end(now time.Time) bool {
	switch f.step {
	case isThawed:
		return false
	case isFreezing:
		f.doomed = true
		f.do(EndFreeze{})
	case isFrozen:
		f.thaw(now)
	case isThawing:
		f.due = now
	}
	return true
}

// cancel takes in that a client awaits no answer any more.
func (f *freeze) cancel(to Request, now time.Time) {
	f.thawers = slices.DeleteFunc(f.thawers, func(o Request) bool { return o == to })
	if f.step == isFreezing && f.asker == to {
		f.asker = 0
		f.end(now)
	}
}

// wasReset takes in that the guest begins anew. What was not answered may still be carried out.
func (f *freeze) wasReset() {
	if f.sure && f.step != isThawed {
		f.over()
	}
}

func (f *freeze) next(now time.Time) (wake time.Time) {
	switch {
	case f.step == isFrozen && now.Before(f.until):
		return f.until
	case f.step == isFrozen:
		f.log(slog.LevelInfo, "the guest's file systems were frozen for as long as was requested")
		f.thaw(now)
	}
	if f.step != isThawing || f.asked {
		return time.Time{}
	}
	port := f.ports.find(f.role)
	if port == nil || !port.open && port.device != "" {
		return time.Time{} // its opening is an event
	}
	if now.Before(f.due) {
		return f.due
	}
	f.asked = true
	f.do(ThawGuest{thawTime})
	return time.Time{}
}

// publishState publishes how far it has come.
func (f *freeze) publishState() {
	states := map[freezeStep]status.FreezeState{
		isFreezing: status.Freezing, isFrozen: status.FSFrozen, isThawing: status.Thawing,
	}
	if f.step == isThawed {
		f.publish(status.Froze{})
		return
	}
	f.publish(status.Froze{Frozen: &status.Frozen{
		State: states[f.step], Since: f.since, Until: f.until, FileSystems: f.count, Message: f.message,
	}})
}

// answerNotFrozen answers a request for a freeze that could not be.
func (f *freeze) answerNotFrozen(to Request, why string) {
	f.log(slog.LevelWarn, "the guest's file systems are not frozen", "why", why)
	f.reply(to, status.FreezeAnswer{Message: "not frozen: crash-consistent, because " + why})
}

func (f *freeze) reply(to Request, a status.FreezeAnswer) {
	text, err := json.Marshal(a)
	if to != 0 {
		f.do(Answer{To: to, Reply: text, Err: err})
	}
}
