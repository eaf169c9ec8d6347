package fleet

import (
	"cmp"
	"slices"
	"time"
)

// An Event is something that happened to a VM.
type Event struct {
	// At is when it last happened, Count how often.
	At    time.Time
	Count int
	// Warning reports a problem.
	Warning bool
	// About is another object that the event is about, such as the VM's pod; "" means the VM.
	About string
	// User has requested Action on a page; "" if the event has another cause.
	User, Action string
	// Reason is a word for programs. Text is English for people.
	Reason, Text string
}

// MostEvents is the maximum number of events of a VM that are shown.
const MostEvents = 100

// Timeline returns events with the latest first. It merges events that differ only in their time, count or severity,
// and returns at most MostEvents.
func Timeline(events []Event) []Event {
	kinds := map[Event]int{}
	var all []Event
	for _, e := range events {
		kind := e
		kind.At, kind.Count, kind.Warning = time.Time{}, 0, false
		i, known := kinds[kind]
		if !known {
			kinds[kind] = len(all)
			all = append(all, e)
			continue
		}
		if all[i].Count += e.Count; e.At.After(all[i].At) {
			all[i].At, all[i].Warning = e.At, e.Warning
		}
	}
	slices.SortFunc(all, func(a, b Event) int {
		return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.About, b.About), cmp.Compare(a.Reason, b.Reason),
			cmp.Compare(a.Text, b.Text))
	})
	return all[:min(len(all), MostEvents)]
}
