package handover

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/test/guest"
	"vmop/test/wait"
)

// machine is a QEMU with a guest that counts.
type machine struct {
	t       testing.TB
	dir     string
	cmd     *exec.Cmd
	session *qmp.Session
	done    chan struct{}
	paused  bool

	events   chan qmp.Event
	happened chan struct{}

	// bare means that the machine has only firmware and no counting guest.
	bare bool

	mu   sync.Mutex
	said []uint64 // by the guest
	lost bool     // the guest has detected wrong memory or disk data
}

// disk creates a disk of a counting guest.
func disk(t testing.TB, busy bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.WriteFile(path, guest.Counter(busy), 0o600))
	return path
}

// blank is the name of a disk without an operating system.
const blank = "blank"

// blankDisk creates such a disk with some data on it.
func blankDisk(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), blank)
	text := append(make([]byte, 1<<20), bytes.Repeat([]byte("something "), 1<<17)...)
	require.NoError(t, os.WriteFile(path, text[:2<<20], 0o600))
	return path
}

// formatOf returns the format of a disk.
func formatOf(disk string) string {
	if filepath.Ext(disk) == ".qcow2" {
		return "qcow2"
	}
	return "raw"
}

// start starts a paused QEMU. Both sides of a migration have the same disk, which QEMU locks.
func start(t testing.TB, disk string, options ...string) *machine {
	t.Helper()
	binary, err := exec.LookPath("qemu-system-x86_64")
	require.NoError(t, err, "Debian package qemu-system-x86")
	dir, err := os.MkdirTemp("", "h")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	listener, err := qmp.Listen(filepath.Join(dir, "m"))
	require.NoError(t, err)
	defer listener.Close()
	conn, err := net.Dial("unix", filepath.Join(dir, "m"))
	require.NoError(t, err)
	m := &machine{t: t, dir: dir, session: qmp.New(conn), done: make(chan struct{})}
	m.bare = strings.HasPrefix(filepath.Base(disk), blank)
	m.events, m.happened = make(chan qmp.Event, 1000), make(chan struct{}, 1)
	go m.observe()
	t.Cleanup(func() { m.session.Close() })
	// Without KVM, QEMU 7.2 misses writes of a migrating guest unless its memory has an odd size: see
	// docs/decisions/0131-migration-stream.md.
	const ram = "65544K"
	m.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), binary, append([]string{
		"-S", "-nodefaults", "-display", "none", "-accel", "tcg", "-machine", "pc", "-cpu", "qemu64", "-m", ram,
		"-chardev", "socket,id=m,fd=3,server=on,wait=off", "-mon", "chardev=m,mode=control",
		"-chardev", "socket,id=c,server=on,wait=off,path=" + filepath.Join(dir, "c"), "-serial", "chardev:c",
		"-blockdev", "file,node-name=f,discard=unmap,filename=" + disk,
		"-blockdev", formatOf(disk) + ",node-name=r,discard=unmap,file=f",
		"-device", "virtio-blk-pci,drive=r,bootindex=1",
	}, options...)...)
	m.cmd.ExtraFiles = []*os.File{listener}
	stderr, err := os.Create(filepath.Join(dir, "stderr"))
	require.NoError(t, err)
	m.cmd.Stderr = stderr
	require.NoError(t, m.cmd.Start())
	go func() {
		defer close(m.done)
		_ = m.cmd.Wait()
		stderr.Close()
	}()
	t.Cleanup(func() {
		if t.Failed() {
			m.logState(options)
		}
		m.kill()
	})
	require.Equal(t, "", m.fault(t.Context(), "query-name")) // it listens
	console, err := net.Dial("unix", filepath.Join(dir, "c"))
	require.NoError(t, err)
	t.Cleanup(func() { console.Close() })
	go m.listen(console)
	return m
}

// logState logs QEMU's view of a guest that has failed a test.
func (m *machine) logState(options []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	m.t.Logf("QEMU %v: %s", options, m.Words())
	for _, command := range []qmp.Command{
		{Execute: "query-status"},
		{Execute: "query-migrate"},
		{Execute: "human-monitor-command", Arguments: map[string]any{"command-line": "info registers"}},
		{Execute: "human-monitor-command", Arguments: map[string]any{"command-line": "info pic"}},
	} {
		reply, err := m.Command(ctx, command)
		m.t.Logf("%s %v: %s %v", command.Execute, command.Arguments, reply, err)
	}
	m.t.Logf("the guest has counted %d times", len(m.counts()))
}

func (m *machine) kill() {
	_ = m.cmd.Process.Kill()
	<-m.done
}

func (m *machine) listen(console net.Conn) {
	for scan := bufio.NewScanner(console); scan.Scan(); {
		text := scan.Text()
		if strings.HasSuffix(text, guest.RecorderFails) {
			m.mu.Lock()
			m.lost = true
			m.mu.Unlock()
		}
		// The first line at a target may be the end of a line that began at the source.
		if n, err := strconv.ParseUint(text, 16, 32); err == nil && len(text) == guest.CounterLength {
			m.mu.Lock()
			m.said = append(m.said, n)
			m.mu.Unlock()
		}
	}
}

// counts returns the guest's output.
func (m *machine) counts() []uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]uint64{}, m.said...)
}

// moves waits until the guest has counted on.
func (m *machine) moves() {
	m.t.Helper()
	if m.bare {
		return
	}
	before := len(m.counts())
	wait.Until(m.t, func() bool { return len(m.counts()) > before+3 },
		"the guest doesn't count")
}

// state returns the run state, or "" if QEMU has ended.
func (m *machine) state() string {
	ctx, cancel := wait.Context(m.t.Context())
	defer cancel()
	reply, err := m.Command(ctx, qmp.Command{Execute: "query-status"})
	if err != nil {
		return ""
	}
	var s struct{ Status string }
	require.NoError(m.t, json.Unmarshal(reply, &s))
	return s.Status
}

// fault runs a command and returns its error.
func (m *machine) fault(ctx context.Context, execute string) string {
	ctx, cancel := wait.Context(ctx)
	defer cancel()
	if _, err := m.Command(ctx, qmp.Command{Execute: execute}); err != nil {
		return err.Error()
	}
	return ""
}

func (m *machine) Command(ctx context.Context, c qmp.Command) (json.RawMessage, error) {
	return m.session.Run(ctx, c)
}

func (m *machine) Continue(ctx context.Context, paused bool) error {
	if paused || m.state() == "running" {
		return nil
	}
	_, err := m.Command(ctx, qmp.Command{Execute: "cont"})
	return err
}

func (m *machine) Paused() bool { return m.paused }

func (m *machine) Words() string {
	text, _ := os.ReadFile(filepath.Join(m.dir, "stderr"))
	return string(text)
}

func (m *machine) Quit(ctx context.Context) error {
	_, _ = m.Command(ctx, qmp.Command{Execute: "quit"})
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return errors.New("QEMU stays")
	}
}

func (m *machine) Done() <-chan struct{} { return m.done }

func (m *machine) Happened() <-chan struct{} { return m.happened }

// observe collects events for await.
func (m *machine) observe() {
	for e := range m.session.Events() {
		if strings.HasPrefix(e.Name, "MIGRATION") {
			select {
			case m.happened <- struct{}{}:
			default:
			}
			continue
		}
		select {
		case m.events <- e:
		default: // no test waits for so many
		}
	}
}

// exactlyOne requires that the guest is running in the first machine and not in the second, which may be nil.
func exactlyOne(t testing.TB, here, there *machine) {
	t.Helper()
	wait.Until(t, func() bool { return here.state() == "running" })
	if there == nil {
		here.moves()
		return
	}
	require.NotEqual(t, "running", there.state())
	here.moves()
	quiet := len(there.counts())
	here.moves()
	require.Len(t, there.counts(), quiet, "both guests count")
}

// continues requires that a guest's output in its second machine follows its output in the first, with at most one line
// cut in two.
func continues(t testing.TB, first, second *machine) {
	t.Helper()
	before, after := first.counts(), second.counts()
	require.NotEmpty(t, before)
	require.NotEmpty(t, after)
	last := before[len(before)-1]
	require.Contains(t, []uint64{last + 1, last + 2}, after[0], "the guest has not continued where it was")
	require.IsIncreasing(t, append(before, after...))
}
