package control_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/netsetup"
	"vmop/qmp"
	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/test/logbook"
	"vmop/test/wait"
	"vmop/vmstatus"
	"vmop/vmtypes/plan"
)

func timeout(t *testing.T) context.Context {
	ctx, cancel := wait.Context(t.Context())
	t.Cleanup(cancel)
	return ctx
}

// backend is a VM played by the test.
type backend struct {
	mu       sync.Mutex
	asked    []string // actions and their requesters
	commands []string // complete QMP commands
	refuse   error
	run      func(context.Context, qmp.Command) (json.RawMessage, error)
	plan     *plan.Plan
}

func (b *backend) Act(_ context.Context, what control.Action, by string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = append(b.asked, string(what)+" by "+by)
	return b.refuse
}

func (b *backend) Run(ctx context.Context, c qmp.Command) (json.RawMessage, error) {
	b.mu.Lock()
	arguments, _ := json.Marshal(c.Arguments)
	b.commands = append(b.commands, c.Execute+" "+string(arguments))
	run := b.run
	b.mu.Unlock()
	if run != nil {
		return run(ctx, c)
	}
	return json.RawMessage(`{}`), nil
}

func (b *backend) Plan() *plan.Plan {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.plan
}

func (b *backend) Dropped() uint64 { return 7 }

// served is the server of a VM played by the test.
type served struct {
	*control.Server
	backend *backend
	tracker *status.Tracker
	client  *control.Client
	dir     string
	log     *logbook.Logbook
}

// serve starts a server for a running VM.
func serve(t *testing.T, change ...func(*control.Options)) *served {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctl")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	s := &served{dir: dir, log: &logbook.Logbook{}, backend: &backend{plan: &plan.Plan{
		Type: "standard",
		QEMU: plan.Process{
			Name: "qemu", Executable: "/usr/bin/qemu-system-x86_64",
			Args: []plan.Option{{Flag: "-nodefaults"}},
		},
		Sockets: []plan.Socket{
			{Role: "console", Path: filepath.Join(dir, "console.sock")},
			{Role: "vnc", Path: filepath.Join(dir, "vnc.sock")},
			{Role: "screen", Path: filepath.Join(dir, "screen.sock")},
		},
	}}}
	s.tracker = status.NewTracker(time.Now,
		status.Described{Name: "web", UUID: "6e5b", VMType: "standard", Runner: status.Runner{Version: "1.0", PID: 7}},
		status.Entered{State: vmstatus.StateBooting}, status.CPUs(2), status.RAM(1<<30))
	opts := control.Options{
		Dir: dir, Backend: s.backend, Tracker: s.tracker,
		IsNeighbor: netsetup.IsNeighbor, GuestBehind: netsetup.GuestBehind,
		Log: slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, c := range change {
		c(&opts)
	}
	s.Server, err = control.Start(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, s.Close(context.WithoutCancel(t.Context())))
		require.NoFileExists(t, s.path())
	})
	s.client, err = control.Dial(t.Context(), s.path())
	require.NoError(t, err)
	return s
}

func (s *served) path() string { return filepath.Join(s.dir, control.SocketName) }

// guest attaches a serial console and returns the guest's end.
func (s *served) guest(t *testing.T) net.Conn {
	t.Helper()
	ours, theirs := pair(t)
	s.Console().Attach(theirs)
	return ours
}

// pair returns two connected sockets.
func pair(t *testing.T) (a, b net.Conn) {
	t.Helper()
	dir, err := os.MkdirTemp("", "ctl")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	require.NoError(t, err)
	defer l.Close()
	a, err = net.Dial("unix", l.Addr().String())
	require.NoError(t, err)
	b, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// raw sends bytes and returns the complete answer.
func (s *served) raw(t *testing.T, request string) string {
	t.Helper()
	conn, err := net.Dial("unix", s.path())
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(wait.Deadline()))
	_, _ = io.WriteString(conn, request) // a server may have answered already
	answer, err := io.ReadAll(conn)
	require.NoError(t, err)
	return string(answer)
}

// http sends a handwritten request and returns the status code and the body.
func (s *served) http(t *testing.T, method, path, body string) (code, text string) {
	t.Helper()
	answer := s.raw(t, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: vm\r\nContent-Length: %d\r\n\r\n%s", method, path,
		len(body), body))
	response, err := http.ReadResponse(bufio.NewReader(strings.NewReader(answer)), nil)
	require.NoError(t, err, "%q", answer)
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err, "%q", answer)
	return strconv.Itoa(response.StatusCode), string(content)
}

// expect reads until the text arrives and returns everything read.
func expect(t *testing.T, r io.Reader, text string) string {
	t.Helper()
	if c, ok := r.(net.Conn); ok {
		require.NoError(t, c.SetReadDeadline(wait.Deadline()))
	}
	var got []byte
	buf := make([]byte, 64<<10)
	for !bytes.Contains(got, []byte(text)) {
		n, err := r.Read(buf)
		got = append(got, buf[:n]...)
		require.NoError(t, err, "waiting for %q after %d bytes", text, len(got))
	}
	return string(got)
}

func send(t *testing.T, w io.Writer, text string) {
	t.Helper()
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
}
