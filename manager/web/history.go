package web

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"vmop/manager/access"
	"vmop/manager/web/fleet"
	"vmop/vmstatus"
)

// historyView is the history of a VM, the latest first: its events, and the conditions that describe happenings.
// Earlier entries are folded.
type historyView struct {
	words
	Latest, Earlier []entryView
}

// An entryView is a condition or an event. Class is the status of the condition, or the kind of event.
type entryView struct {
	Class, Text, About, Message string
	At                          time.Time
	Count                       string // "" means once
}

// latestEntries is how many entries are shown unfolded.
const latestEntries = 12

func (v visit) newHistoryView(vm *fleet.VM, events []fleet.Event) historyView {
	var all []entryView
	for _, c := range vm.Conditions {
		if !isHappening(c) || slices.ContainsFunc(events, func(e fleet.Event) bool { return repeatsEvent(e, c) }) {
			continue
		}
		all = append(all, entryView{
			Class: strings.ToLower(c.Status), Text: v.T("condition." + c.Type + "." + c.Status), Message: c.Message,
			At: c.Since,
		})
	}
	for _, e := range events {
		all = append(all, v.eventEntry(e))
	}
	slices.SortStableFunc(all, func(a, b entryView) int { return b.At.Compare(a.At) })
	at := min(len(all), latestEntries)
	return historyView{words: v.words, Latest: all[:at], Earlier: all[at:]}
}

// isHappening reports whether a condition belongs in a timeline: a fact that is new, or a requirement that no longer
// holds.
func isHappening(c fleet.Condition) bool {
	switch vmstatus.ConditionType(c.Type) {
	case vmstatus.ConditionRunning, vmstatus.ConditionBooted, vmstatus.ConditionUserLoggedIn,
		vmstatus.ConditionConsoleConnected, vmstatus.ConditionRestartRequired, vmstatus.ConditionTPMLost:
		return c.Status == string(vmstatus.True)
	case vmstatus.ConditionConfigApplied, vmstatus.ConditionVMTypeAccepted, vmstatus.ConditionReconciled:
		return c.Status == string(vmstatus.False)
	}
	return false
}

// repeatsEvent reports whether an event and a condition describe the same happening.
func repeatsEvent(e fleet.Event, c fleet.Condition) bool {
	return e.Reason == c.Reason && e.At.Sub(c.Since).Abs() < time.Minute
}

func (v visit) eventEntry(e fleet.Event) entryView {
	entry := entryView{
		Class: "event", Text: v.T("event." + strings.ReplaceAll(e.Reason, ".", " ")), About: e.About, Message: e.Text,
		At: e.At,
	}
	switch {
	case e.User != "":
		entry.Class, entry.Text = "event asked", v.T("did."+e.Action, e.User)
		if !v.hasText("did." + e.Action) {
			entry.Text = e.User + ": " + e.Action
		}
		if e.Text == e.Action { // a word for programs
			entry.Message = ""
		}
	case e.Warning:
		entry.Class = "event warning"
	}
	if e.Count > 1 {
		entry.Count = v.T("event.count", e.Count)
	}
	return entry
}

// listenToEvents reads the events of a VM while its page is open, if the visitor may see it.
func (v visit) listenToEvents(name string, w *watched) {
	vm, err := v.s.opts.Fleet.Get(name)
	if err != nil || v.checkVerb(access.View, vm) != nil || v.mayUse(access.PageVMs) != nil {
		return // the parts show the reason
	}
	ctx, cancel := context.WithCancel(v.ctx)
	w.end = cancel
	if w.news, err = v.s.opts.Fleet.Events(ctx, name); err != nil && !errors.Is(err, fleet.ErrNotFound) {
		v.s.opts.Log.Warn("the events of a VM can't be shown", "vm", name, "err", err)
	}
}
