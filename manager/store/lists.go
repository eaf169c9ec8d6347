package store

import "context"

// lists are channels, each of which is closed once its kind has been listed.
type lists []<-chan struct{}

// areComplete reports whether all kinds have been listed.
func (l lists) areComplete() bool {
	for _, listed := range l {
		select {
		case <-listed:
		default:
			return false
		}
	}
	return true
}

// awaitLists waits until all kinds have been listed, or ctx is done.
func (l lists) awaitLists(ctx context.Context) {
	for _, listed := range l {
		select {
		case <-listed:
		case <-ctx.Done():
			return
		}
	}
}
