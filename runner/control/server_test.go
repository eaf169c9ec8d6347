package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/test/wait"
)

func TestTheSocketIsForThisUserOnly(t *testing.T) {
	t.Parallel()
	info, err := os.Stat(serve(t).path())
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NotZero(t, info.Mode()&os.ModeSocket)
}

func TestAnOldSocketIsReplaced(t *testing.T) {
	t.Parallel()
	s := serve(t)
	second, err := control.Start(t.Context(),
		control.Options{Dir: s.dir, Backend: s.backend, Tracker: s.tracker, Log: discard()})
	require.NoError(t, err)
	_, err = s.client.Status(t.Context())
	require.NoError(t, err)
	require.NoError(t, second.Close(t.Context()))
}

func TestALongPathIsRefused(t *testing.T) {
	t.Parallel()
	_, err := control.Start(t.Context(), control.Options{Dir: "/tmp/" + strings.Repeat("x", 100)})
	require.ErrorContains(t, err, "longer than 107 bytes; choose another runtimeDir")
}

func TestStatusAndPending(t *testing.T) {
	t.Parallel()
	s := serve(t)
	pending, err := s.client.Pending(t.Context())
	require.NoError(t, err)
	require.Empty(t, pending)
	change := status.Change{Path: "vm.firmware", CurrentValue: "uefi", DesiredValue: "secure", Operation: "replace"}
	require.NoError(t, s.tracker.Update(status.Pending{Changes: []status.Change{change}}))
	pending, err = s.client.Pending(t.Context())
	require.NoError(t, err)
	require.Equal(t, []status.Change{change}, pending)
	got, err := s.client.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, s.tracker.Status(), got)
	history, err := s.client.History(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, history)
	require.Equal(t, len(s.tracker.History()), len(history))
	require.Equal(t, s.tracker.History()[0].Note, history[0].Note)
}

func TestActions(t *testing.T) {
	t.Parallel()
	s := serve(t)
	actions := []control.Action{control.Stop, control.Kill, control.Reset, control.Pause, control.Resume}
	for _, a := range actions {
		require.NoError(t, s.client.Act(t.Context(), a))
	}
	me := fmt.Sprintf(" by uid %d pid %d", os.Getuid(), os.Getpid())
	var want []string
	for _, a := range actions {
		want = append(want, string(a)+me)
	}
	require.Equal(t, want, s.backend.asked)
	require.Contains(t, s.log.String(), "command=reset")
}

// Each error results in its status code.
func TestAnswersThatAreNotGood(t *testing.T) {
	t.Parallel()
	s := serve(t)
	answers := func(code, text, method, path, body string) {
		gotCode, gotText := s.http(t, method, path, body)
		require.Equal(t, code, gotCode, "%s %s", method, path)
		require.Contains(t, gotText, text, "%s %s", method, path)
	}
	answers("404", "page not found", "GET", "/v2/status", "")
	answers("405", "Method Not Allowed", "GET", "/v1/stop", "")
	answers("400", "must be true or false", "POST", "/v1/stop?force=perhaps", "")
	answers("400", "must be text, why, argv, shell or json", "GET", "/v1/plan?form=xml", "")
	answers("400", "must be status, qmp or both", "GET", "/v1/events?types=everything", "")
	answers("400", "send the headers", "GET", "/v1/console", "")
	answers("400", "send the headers", "GET", "/v1/vnc", "")
	answers("400", "read the QMP command", "POST", "/v1/qmp", "no JSON")
	answers("400", "unknown field", "POST", "/v1/qmp", `{"execute": "stop", "fd": 3}`)
	answers("400", "data after the JSON object", "POST", "/v1/qmp", `{"execute": "stop"} {}`)
	answers("400", "must be {", "POST", "/v1/qmp", `{}`)
	answers("400", "a duration such as 30s", "POST", "/v1/qmp?timeout=soon", `{"execute": "stop"}`)
	answers("400", "too large", "POST", "/v1/qmp", `{"execute": "`+strings.Repeat("x", 1<<20)+`"}`)
	s.backend.refuse = control.Refusal("swtpm has ended: a reset would end the VM")
	answers("409", "swtpm has ended: a reset would end the VM", "POST", "/v1/reset", "")
	s.backend.refuse = errors.New("this is broken")
	answers("500", "this is broken", "POST", "/v1/pause", "")
	s.backend.refuse = context.DeadlineExceeded
	answers("504", "deadline exceeded", "POST", "/v1/resume", "")
	s.backend.plan = nil
	answers("409", "no plan yet", "GET", "/v1/plan", "")
	require.Contains(t, s.raw(t, "GET /v1/vnc HTTP/1.1\r\nHost: vm\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"),
		"409 Conflict")
}

func TestWhatTheVMHasNotGot(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, err := s.client.VNC(t.Context())
	require.ErrorContains(t, err, "vnc.sock was removed")
	s.backend.plan.Sockets = nil
	for what, open := range map[string]func() (net.Conn, error){
		"serial console (vm.serialConsole)": func() (net.Conn,
			error,
		) {
			return s.client.Console(t.Context(), control.Watch)
		},
		"VNC server (vm.display.vnc)": func() (net.Conn, error) { return s.client.VNC(t.Context()) },
	} {
		_, err := open()
		var answer *control.AnswerError
		require.ErrorAs(t, err, &answer)
		require.Equal(t, 404, answer.Code)
		require.EqualError(t, err, "the VM has no "+what)
	}
}

func TestThePlanInItsForms(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for form, want := range map[string]string{
		"text": "type standard", "why": "type standard", "json": `"type": "standard"`,
		"argv": "/usr/bin/qemu-system-x86_64\n-nodefaults\n", "shell": "exec /usr/bin/qemu-system-x86_64",
	} {
		var out bytes.Buffer
		require.NoError(t, s.client.Plan(t.Context(), &out, form))
		require.Contains(t, strings.ReplaceAll(out.String(), "\\\n", ""), strings.TrimPrefix(want, "exec "), form)
	}
}

func TestQMPPassThrough(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.backend.run = func(_ context.Context, c qmp.Command) (json.RawMessage, error) {
		if c.Execute == "device_del" {
			return nil, &qmp.Error{Class: qmp.DeviceNotFound, Desc: "Device 'x' not found"}
		}
		return json.RawMessage(`{"big": 18446744073709551615}`), nil
	}
	reply, err := s.client.QMP(t.Context(), qmp.Command{
		Execute: "set_password", Arguments: map[string]any{"protocol": "vnc", "password": "sesame"},
	})
	require.NoError(t, err)
	require.JSONEq(t, `{"big": 18446744073709551615}`, string(reply))
	require.Equal(t, []string{`set_password {"password":"sesame","protocol":"vnc"}`}, s.backend.commands)
	require.NotContains(t, s.log.String(), "sesame")
	require.Contains(t, s.log.String(), "set_password")
	_, err = s.client.QMP(t.Context(), qmp.Command{Execute: "device_del"})
	require.ErrorIs(t, err, qmp.DeviceNotFound)
}

// A thousand silent clients use only their share of connections, and after they have left the server accepts clients
// again.
func TestClientsAreBounded(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const many = 1000
	var full atomic.Int32
	var conns []net.Conn
	quiet := func() {
		conn, err := net.Dial("unix", s.path())
		require.NoError(t, err)
		conns = append(conns, conn)
		go func() {
			if text, _ := io.ReadAll(conn); strings.Contains(string(text), "503") {
				full.Add(1)
			}
		}()
	}
	for range many {
		quiet()
	}
	wait.Until(t, func() bool { return full.Load() >= many-control.MaxConnections })
	wait.Until(t, func() bool {
		_, err := s.client.Status(t.Context())
		if err == nil {
			quiet() // replaces a connection that has just been found closed
		}
		return err != nil && err.Error() == "too many clients"
	})
	for _, conn := range conns {
		conn.Close()
	}
	wait.Until(t, func() bool {
		_, err := s.client.Status(t.Context())
		return err == nil
	})
}

// With any number of open streams, the VM still answers status and stop requests.
func TestStreamsLeaveRoomForRequests(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.guest(t)
	for range control.MaxLasting - 1 {
		conn, err := s.client.Console(timeout(t), control.Watch)
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
	}
	events, err := s.client.Events(timeout(t))
	require.NoError(t, err)
	t.Cleanup(events.Close)
	for range 10 { // fewer than the limit because a connection ends after its answer
		_, err = s.client.Console(timeout(t), control.Watch)
		var refused *control.AnswerError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, http.StatusServiceUnavailable, refused.Code)
		require.Equal(t, "80 streams and commands are open, and no more are served at a time: close consoles, screens or "+
			"readers of events", refused.Message)
	}
	_, err = s.client.QMP(timeout(t), qmp.Command{Execute: "query-name"})
	require.ErrorContains(t, err, "80 streams")
	_, err = s.client.Status(timeout(t))
	require.NoError(t, err)
	require.NoError(t, s.client.Metrics(timeout(t), io.Discard))
	require.NoError(t, s.client.Act(timeout(t), control.Stop))
	events.Close()
	wait.Until(t, func() bool {
		conn, err := s.client.Console(t.Context(), control.Watch)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
}

// blocking is a log that blocks at the line of a request until it is released.
type blocking struct {
	slog.Handler
	reached, goOn chan struct{}
}

func (b blocking) Handle(ctx context.Context, r slog.Record) error {
	if r.Message == "requested by a user" {
		close(b.reached)
		<-b.goOn
	}
	return b.Handler.Handle(ctx, r)
}

// A stop request has no effect if its client disconnects before the runner handles it.
func TestARequestIsWithdrawnWithItsConnection(t *testing.T) {
	t.Parallel()
	for _, gone := range []bool{true, false} {
		log := blocking{slog.NewTextHandler(io.Discard, nil), make(chan struct{}), make(chan struct{})}
		s := serve(t, func(o *control.Options) { o.Log = slog.New(log) })
		conn, err := net.Dial("unix", s.path())
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		_, err = io.WriteString(conn, "POST /v1/stop HTTP/1.1\r\nHost: vm\r\n\r\n")
		require.NoError(t, err)
		if !gone { // nc -N closes its writing half and waits for the answer
			require.NoError(t, conn.(*net.UnixConn).CloseWrite())
		}
		<-log.reached
		if gone {
			require.NoError(t, conn.Close())
		}
		close(log.goOn)
		if !gone {
			answer, err := io.ReadAll(conn)
			require.NoError(t, err)
			require.Contains(t, string(answer), "204 No Content")
		}
		require.NoError(t, s.Close(context.WithoutCancel(t.Context())))
		require.Equal(t, !gone, len(s.backend.asked) == 1)
	}
}

func TestNobodyListens(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "ctl")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, control.SocketName)
	_, err = control.Dial(t.Context(), path)
	require.ErrorIs(t, err, control.ErrNotRunning)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
	_, err = control.Dial(t.Context(), path) // the socket of a killed runner
	require.ErrorIs(t, err, control.ErrNotRunning)
}

func TestAServerThatSaysNothing(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "ctl")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	require.NoError(t, err)
	defer l.Close()
	client, err := control.Dial(t.Context(), l.Addr().String())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = client.Status(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var out bytes.Buffer
	require.NoError(t, s.client.Metrics(t.Context(), &out))
	for _, line := range []string{
		`vmop_vm_info{name="web",uuid="6e5b",vm_type="standard",qemu_version="",runner_version="1.0"} 1`,
		`vmop_vm_state{name="web",state="Booting"} 1`,
		`vmop_vm_state{name="web",state="Stopped"} 0`,
		`vmop_vm_condition{name="web",condition="Running"} 1`,
		`vmop_vm_memory_bytes{name="web"} 1073741824`,
		`vmop_qmp_events_dropped_total{name="web"} 7`,
	} {
		require.Contains(t, out.String(), line+"\n")
	}
	require.NotContains(t, out.String(), `process="runner"} 0`)
}
