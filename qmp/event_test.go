package qmp

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Events of an earlier flood that have been read don't count: a later flood drops its own events.
func TestAFloodThatIsOver(t *testing.T) {
	t.Parallel()
	q := newEventQueue(4, 1<<20)
	for range 100 {
		q.putEvent(Event{Name: "RTC_CHANGE"})
		_, ok, _ := q.popEvent()
		require.True(t, ok)
	}
	q.putEvent(Event{Name: "SHUTDOWN"})
	for range 10 {
		q.putEvent(Event{Name: "BALLOON_CHANGE"})
	}
	e, _, _ := q.popEvent()
	require.Equal(t, "SHUTDOWN", e.Name)
	require.EqualValues(t, 7, q.dropped)
}
