package fleet

import (
	"cmp"
	"slices"
	"time"
)

// An Event is something that has happened to a VM.
type Event struct {
	// At is when it happened last, Count how often.
	At    time.Time
	Count int
	// Warning: it is not as it should be.
	Warning bool
	// About is what else it is about, such as the VM's pod; "" is the VM.
	About string
	// User has requested Action; "" for all that no user of pages has requested.
	User, Action string
	// Reason is a word for programs, Text is for people, in English.
	Reason, Text string
}

// MostEvents is how many events of a VM are shown.
const MostEvents = 100

// Timeline returns what events tell, the latest first: those that differ in their times only
// are one, and of many the latest.
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
