package runner

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/status"
)

// answering returns a session with a peer that answers each command with what
// reply says, and errors with an empty reply.
func answering(t *testing.T, reply func(command string) string) *qmp.Session {
	t.Helper()
	ours, theirs := net.Pipe()
	session := qmp.New(ours)
	t.Cleanup(func() { session.Close(); theirs.Close() })
	go func() {
		fmt.Fprintln(theirs, `{"QMP": {"version": {"qemu": {"major": 7, "minor": 2, "micro": 0}, "package": ""}, "capabilities": []}}`)
		for lines := bufio.NewScanner(theirs); lines.Scan(); {
			var c struct {
				Execute string
				ID      uint64
			}
			if json.Unmarshal(lines.Bytes(), &c) != nil {
				return
			}
			text := fmt.Sprintf(`{"error": {"class": "CommandNotFound", "desc": "no %s"}, "id": %d}`, c.Execute, c.ID)
			if r := reply(c.Execute); r != "" {
				text = fmt.Sprintf(`{"return": %s, "id": %d}`, r, c.ID)
			}
			if _, err := fmt.Fprintln(theirs, text); err != nil {
				return
			}
		}
	}()
	return session
}

// Events that were lost don't matter in the end: QEMU is asked. A QEMU without
// SPICE is no reason to complain.
func TestLostEventsOfViewers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	clients := `{"host": "10.0.0.1", "service": "1"}, {"host": "10.0.0.2", "service": "2"}`
	session := answering(t, func(command string) string {
		mu.Lock()
		defer mu.Unlock()
		switch command {
		case "qmp_capabilities":
			return "{}"
		case "query-vnc-servers":
			return `[{"clients": [` + clients + `]}, {"clients": []}]`
		}
		return ""
	})
	var log strings.Builder
	m := &machine{monitor: connected(session), log: slog.New(slog.NewTextHandler(&log, nil)), tracker: status.NewTracker(time.Now, status.Entered{State: status.Booting})}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	d := newDisplays(m)
	shows := func(want string) {
		t.Helper()
		sub := m.tracker.Subscribe(status.Pace{Burst: 1})
		defer sub.Close()
		for have := "-"; have != want; {
			s, err := sub.Next(ctx)
			require.NoError(t, err)
			have = ""
			for _, c := range s.Consoles {
				have += c.Kind + " " + c.Client + " "
			}
		}
	}
	d.attached(ctx)
	shows("vnc 10.0.0.1:1 vnc 10.0.0.2:2 ")
	event := func(name, client string) {
		d.observe(ctx, qmp.Event{Name: name, Data: json.RawMessage(`{"client": ` + client + `}`)})
	}
	event("VNC_DISCONNECTED", `{"host": "10.0.0.1", "service": "1"}`)
	event("SPICE_INITIALIZED", `{"host": "::1", "port": "3", "channel-type": 1}`)
	event("SPICE_INITIALIZED", `{"host": "::1", "port": "4", "channel-type": 2}`)
	event("VNC_INITIALIZED", `"nonsense"`)
	shows("vnc 10.0.0.2:2 spice [::1]:3 ")
	mu.Lock()
	clients = `{"host": "10.0.0.3", "service": "3"}`
	mu.Unlock()
	d.attached(ctx)
	shows("spice [::1]:3 vnc 10.0.0.3:3 ")
	cancel()
	require.NotContains(t, log.String(), "WARN")
}
