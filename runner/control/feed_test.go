package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/test/wait"
	"vmop/vmstatus"
)

func event(name string, n int) qmp.Event {
	return qmp.Event{Name: name, Data: json.RawMessage(fmt.Sprintf(`{"n": %d}`, n)), Time: time.Unix(1_700_000_000, 0)}
}

func TestEventsOfALife(t *testing.T) {
	t.Parallel()
	s := serve(t)
	events, err := s.client.Events(timeout(t))
	require.NoError(t, err)
	defer events.Close()
	next := func() control.Event {
		e, err := events.Next()
		require.NoError(t, err)
		return e
	}
	first := next()
	require.Equal(t, control.TypeStatus, first.Type)
	require.Equal(t, vmstatus.StateBooting, first.Status.State, "the first tells how it is")
	s.Event(event("RESET", 1))
	got := next()
	require.Equal(t, control.Event{
		Type: control.TypeQMP, Time: time.Unix(1_700_000_000, 0).UTC(), Event: "RESET",
		Data: json.RawMessage(`{"n":1}`),
	}, got)
	require.NoError(t, s.tracker.Update(status.Entered{State: vmstatus.StateBooted}))
	require.Equal(t, vmstatus.StateBooted, next().Status.State)
	require.NoError(t, s.tracker.Update(status.Ended{Cause: "asked"}))
	last := next()
	require.Equal(t, vmstatus.CauseAsked, last.Status.Outcome.Cause)
	_, err = events.Next()
	require.ErrorIs(t, err, io.EOF)
}

func TestOnlyTheWantedTypes(t *testing.T) {
	t.Parallel()
	s := serve(t)
	events, err := s.client.Events(timeout(t), control.TypeStatus)
	require.NoError(t, err)
	defer events.Close()
	_, err = events.Next()
	require.NoError(t, err)
	s.Event(event("RESET", 1))
	require.NoError(t, s.tracker.Update(status.Ended{}))
	e, err := events.Next()
	require.NoError(t, err)
	require.Equal(t, control.TypeStatus, e.Type)
}

// A reader that doesn't read takes a bounded queue, and later receives the number of missed events and the newest
// event. The test measures the heap and therefore runs alone.
func TestASlowReaderLosesTheOldest(t *testing.T) {
	s := serve(t)
	conn, err := net.Dial("unix", s.path())
	require.NoError(t, err)
	defer conn.Close()
	send(t, conn, "GET /v1/events HTTP/1.0\r\n\r\n")
	expect(t, conn, `"status"`)
	const flood = 100_000
	before := heap()
	for i := range flood {
		s.Event(event("BALLOON_CHANGE", i))
	}
	require.Less(t, heap(), before+4<<20)
	require.NoError(t, s.tracker.Update(status.Ended{}))
	require.NoError(t, conn.SetReadDeadline(wait.Deadline()))
	rest, err := io.ReadAll(conn)
	require.NoError(t, err)
	got, dropped := 0, 0
	for line := range strings.Lines(string(rest)) {
		var e control.Event
		if json.Unmarshal([]byte(line), &e) != nil {
			continue // the rest of the first event
		}
		dropped += e.Count
		if e.Type == control.TypeQMP {
			got++
		}
	}
	require.Positive(t, dropped)
	require.Equal(t, flood, got+dropped, "what is missing is counted")
	require.Contains(t, string(rest), fmt.Sprintf(`{"n":%d}`, flood-1))
	require.Contains(t, string(rest), `"Stopped"`)
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestAReaderThatGoesIsForgotten(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ctx, cancel := context.WithCancel(timeout(t))
	events, err := s.client.Events(ctx)
	require.NoError(t, err)
	defer events.Close()
	_, err = events.Next()
	require.NoError(t, err)
	cancel()
	_, err = events.Next()
	require.ErrorIs(t, err, context.Canceled)
	require.NoError(t, s.tracker.Update(status.Ended{}))
}

// A stream without the final message counts as broken, not ended.
func TestAServerThatEndsWithoutAWord(t *testing.T) {
	t.Parallel()
	s := serve(t)
	events, err := s.client.Events(timeout(t))
	require.NoError(t, err)
	defer events.Close()
	_, err = events.Next()
	require.NoError(t, err)
	require.NoError(t, s.Close(t.Context()))
	_, err = events.Next()
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}
