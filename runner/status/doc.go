// Package status holds what is known about a VM, and delivers it to subscribers.
//
// # What is known
//
// Status is a plain value. Its JSON form is the answer of the runner's own interface. Updates change it, and are
// values too:
//
//	s, err := status.Fold(s, now, status.Entered{State: vmstatus.StateBooting}, status.CPUs(2))
//
// Fold is a pure function. It does three things:
//
//   - It keeps the state machine: states follow each other in one direction, see State.
//   - It clears the fields that a stopped VM cannot have.
//   - It derives the conditions from the rest. Updates never set a condition, so a condition cannot be forgotten,
//     and cannot contradict the status. Its transition time changes only when the condition does.
//
// # Subscribers
//
// A Tracker folds updates from any goroutine, and hands snapshots to subscribers. A subscriber asks for the next
// snapshot when it has processed the last, and receives the newest; snapshots in between are dropped. A slow
// subscriber therefore delays no other, and a flood of updates needs no memory. A Pace limits how often a
// subscriber is woken:
//
//	sub := tracker.Subscribe(status.DefaultPace())
//	defer sub.Close()
//	for {
//		s, err := sub.Next(ctx) // returns the first immediately
//		...
//	}
//
// The final status, of state Stopped, is never held back.
package status
