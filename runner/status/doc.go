// Package status holds what is known about a VM, and tells those who want to
// hear it.
//
// # What is known
//
// Status is a plain value, and its JSON form is the answer of the runner's own
// interface. It changes by updates, which are values too:
//
//	s, err := status.Fold(s, now, status.Entered{State: status.Booting}, status.CPUs(2))
//
// Fold is a pure function. It keeps the state machine (states follow each other
// in one direction, see State), forgets what a stopped VM cannot have, and
// derives the conditions from the rest: no update sets a condition, so none can
// be forgotten or contradict what it speaks of. A condition's transition time
// changes only when the condition does.
//
// # Who hears it
//
// A Tracker folds updates as they come, from any goroutine, and hands
// snapshots to subscribers. A subscriber asks for the next one when it has
// dealt with the last, and gets the newest; what came between is gone. So
// a slow subscriber delays no other, and a flood of updates needs no memory.
// A Pace says how often a subscriber wants to be bothered:
//
//	sub := tracker.Subscribe(status.DefaultPace())
//	defer sub.Close()
//	for {
//		s, err := sub.Next(ctx) // the first comes at once
//		...
//	}
//
// The final status, of state Stopped, is never held back.
package status
