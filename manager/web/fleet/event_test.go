package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Repeated events are merged with their last time. The latest come first, and the number is limited.
func TestTimeline(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Unix(int64(60*minute), 0) }
	require.Equal(t, []Event{
		{At: at(9), Count: 6, Reason: "BackOff", About: "pod web-0", Warning: true},
		{At: at(8), Count: 1, Reason: "BackOff"},
		{At: at(7), Count: 1, User: "alice", Action: "Start"},
		{At: at(6), Count: 1, User: "bob", Action: "Start"},
	}, Timeline([]Event{
		{At: at(3), Count: 5, Reason: "BackOff", About: "pod web-0"},
		{At: at(8), Count: 1, Reason: "BackOff"},
		{At: at(6), Count: 1, User: "bob", Action: "Start"},
		{At: at(9), Count: 1, Reason: "BackOff", About: "pod web-0", Warning: true},
		{At: at(7), Count: 1, User: "alice", Action: "Start"},
	}))
	var many []Event
	for i := range 3 * MostEvents {
		many = append(many, Event{At: at(i), Text: fmt.Sprint(i)})
	}
	few := Timeline(many)
	require.Len(t, few, MostEvents)
	require.Equal(t, at(3*MostEvents-1), few[0].At)
}
