package qmp_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/digitalocean/go-qemu/qmp/raw"
	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/qmp/goqemu"
	"vmop/test/tier"
	"vmop/test/wait"
)

func TestCommandsSentBeforeQEMURunsAreAnswered(t *testing.T) {
	t.Parallel()
	_, s := startQEMU(t)
	status := s.Start(qmp.Command{Execute: "query-status"})
	cpus := s.Start(qmp.Command{Execute: "query-hotpluggable-cpus"})
	ctx := timeout(t)

	reply, err := cpus.Wait(ctx)
	require.NoError(t, err)
	require.Contains(t, string(reply), "vcpus-count")
	reply, err = status.Wait(ctx)
	require.NoError(t, err)
	require.Contains(t, string(reply), `"prelaunch"`)
	require.NoError(t, s.Ready(ctx))
	require.GreaterOrEqual(t, s.Version().QEMU.Major, 7)
}

func TestErrorsOfQEMUHaveTheirClass(t *testing.T) {
	t.Parallel()
	_, s := startQEMU(t)
	for _, c := range []struct {
		command qmp.Command
		class   qmp.Class
		text    string
	}{
		{
			qmp.Command{Execute: "device_del", Arguments: map[string]string{"id": "nope"}},
			qmp.DeviceNotFound, "QMP device_del: Device 'nope' not found (DeviceNotFound)",
		},
		{
			qmp.Command{Execute: "no-such"},
			qmp.CommandNotFound, "QMP no-such: The command no-such has not been found (CommandNotFound)",
		},
		{
			qmp.Command{Execute: "balloon", Arguments: map[string]int{"value": 1}},
			qmp.DeviceNotActive, "QMP balloon: No balloon device has been activated (DeviceNotActive)",
		},
		{
			qmp.Command{Execute: "device_del", Arguments: map[string]string{}},
			qmp.GenericError, "QMP device_del: Parameter 'id' is missing",
		},
	} {
		_, err := s.Run(timeout(t), c.command)
		require.ErrorIs(t, err, c.class)
		require.ErrorContains(t, err, c.text)
		var refusal *qmp.Error
		require.ErrorAs(t, err, &refusal)
	}
}

func TestA200kBReplyIsWhole(t *testing.T) {
	t.Parallel()
	_, s := startQEMU(t)
	reply, err := s.Run(timeout(t), qmp.Command{Execute: "query-qmp-schema"})
	require.NoError(t, err)
	require.Greater(t, len(reply), 150_000)
	var entities []struct{ Name string }
	require.NoError(t, json.Unmarshal(reply, &entities))
}

func TestCommandsGoOnWhileNobodyReadsEvents(t *testing.T) {
	t.Parallel()
	_, s := startQEMU(t)
	ctx := timeout(t)
	const rounds = 500
	for range rounds {
		for _, name := range []string{"cont", "stop"} {
			_, err := s.Run(ctx, qmp.Command{Execute: name})
			require.NoError(t, err)
		}
	}
	for range rounds {
		require.Equal(t, "RESUME", nextEvent(t, s))
		require.Equal(t, "STOP", nextEvent(t, s))
	}
	require.Zero(t, s.Dropped())
}

func nextEvent(t *testing.T, s *qmp.Session) string {
	select {
	case e, open := <-s.Events():
		require.True(t, open, "more events come")
		require.False(t, e.Time.IsZero())
		return e.Name
	case <-wait.Over(t):
		t.Fatal("no event")
		return ""
	}
}

func TestTenThousandCommandsInParallel(t *testing.T) {
	t.Parallel()
	_, s := startQEMU(t)
	ctx := timeout(t)
	var wg sync.WaitGroup
	for g := range 100 {
		wg.Go(func() {
			for i := range tier.Rounds(100) {
				c := qmp.Command{Execute: "query-status"}
				wrong := (g+i)%2 == 0
				if wrong {
					c = qmp.Command{Execute: "device_del", Arguments: map[string]string{"id": "none"}}
				}
				reply, err := s.Run(ctx, c)
				if wrong && (err == nil || reply != nil) || !wrong && (err != nil || len(reply) < 20) {
					t.Errorf("%s got the reply of another: %s %v", c, reply, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestAStoppedQEMUCostsTheDeadlineOnly(t *testing.T) {
	t.Parallel()
	q, s := startQEMU(t)
	require.NoError(t, s.Ready(timeout(t)))
	require.NoError(t, q.Process.Signal(syscall.SIGSTOP))

	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.Run(short, qmp.Command{Execute: "query-name"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, s.Err(), "the session continues")

	// The command is larger than the socket's buffer. Start does not block, and a command that was not sent can be
	// withdrawn.
	big := qmp.Command{Execute: "device_del", Arguments: map[string]string{"id": strings.Repeat("x", 300<<10)}}
	s.Start(qmp.Command{Execute: "query-version"})
	s.Start(big)
	_, err = s.Run(short, big)
	require.ErrorContains(t, err, "QMP device_del: no reply: context deadline exceeded")

	require.NoError(t, q.Process.Signal(syscall.SIGCONT))
	reply, err := s.Run(timeout(t), qmp.Command{Execute: "query-status"})
	require.NoError(t, err)
	require.Contains(t, string(reply), "prelaunch")
}

func TestAKilledQEMUEndsTheSession(t *testing.T) {
	t.Parallel()
	q, s := startQEMU(t)
	require.NoError(t, s.Ready(timeout(t)))
	require.NoError(t, q.Process.Signal(syscall.SIGSTOP))
	under := s.Start(qmp.Command{Execute: "query-status"})
	require.NoError(t, q.Process.Kill())

	_, err := under.Wait(timeout(t))
	require.ErrorIs(t, err, qmp.ErrClosed)
	closed(t, s)
	_, err = s.Run(timeout(t), qmp.Command{Execute: "query-status"})
	require.ErrorIs(t, err, qmp.ErrClosed)
}

func TestAQEMUThatNeverStartedEndsTheSession(t *testing.T) {
	t.Parallel()
	q, s := startQEMU(t)
	require.NoError(t, q.Process.Kill())
	_, err := s.Run(timeout(t), qmp.Command{Execute: "query-status"})
	require.ErrorIs(t, err, qmp.ErrClosed)
}

func TestQuitDeliversItsReplyAndShutdown(t *testing.T) {
	t.Parallel()
	_, s := startQEMU(t)
	_, err := s.Run(timeout(t), qmp.Command{Execute: "quit"})
	require.NoError(t, err)
	require.ErrorContains(t, closed(t, s), "QEMU closed the connection")
	require.Equal(t, "SHUTDOWN", nextEvent(t, s))
	_, open := <-s.Events()
	require.False(t, open, "the events end with the session")
}

func TestAQEMUCanBeTakenOver(t *testing.T) {
	t.Parallel()
	q, s := startQEMU(t)
	require.NoError(t, s.Ready(timeout(t)))

	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := qmp.Dial(short, q.path)
	require.ErrorIs(t, err, context.DeadlineExceeded, "one client at a time")

	require.NoError(t, s.Close())
	next, err := qmp.Dial(timeout(t), q.path)
	require.NoError(t, err)
	defer next.Close()
	require.Equal(t, s.Version(), next.Version())
	_, err = next.Run(timeout(t), qmp.Command{Execute: "query-status"})
	require.NoError(t, err)
}

func TestGoQEMUsRawMonitorRunsOnASession(t *testing.T) {
	t.Parallel()
	_, s := startQEMU(t)
	m := goqemu.Monitor(timeout(t), s)
	require.NoError(t, m.Connect())
	events, err := m.Events(timeout(t))
	require.NoError(t, err)

	status, err := raw.NewMonitor(m).QueryStatus()
	require.NoError(t, err)
	require.False(t, status.Running)
	require.NoError(t, raw.NewMonitor(m).Cont())
	resume := <-events
	require.Equal(t, "RESUME", resume.Event)
	require.NotZero(t, resume.Timestamp.Seconds)

	reply, err := m.Run([]byte(`{"execute": "query-name", "id": "mine"}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"return": {}, "id": "mine"}`, string(reply))
	_, err = m.Run([]byte(`{"execute": "device_del", "arguments": {"id": "x"}}`))
	require.ErrorIs(t, err, qmp.DeviceNotFound)
	_, err = m.Run([]byte(`{`))
	require.ErrorContains(t, err, "read QMP command")

	require.NoError(t, m.Disconnect())
	closed(t, s)
	for range events {
	}
}
