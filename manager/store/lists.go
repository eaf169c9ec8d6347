package store

import "context"

// lists are channels, each of which is closed when a list is there.
type lists []<-chan struct{}

// there reports whether all lists are.
func (l lists) there() bool {
	for _, listed := range l {
		select {
		case <-listed:
		default:
			return false
		}
	}
	return true
}

// await waits until all lists are there, or ctx is done.
func (l lists) await(ctx context.Context) {
	for _, listed := range l {
		select {
		case <-listed:
		case <-ctx.Done():
			return
		}
	}
}
