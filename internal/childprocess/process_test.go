package childprocess_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/internal/childprocess"
	"vmop/test/wait"
)

// record is a log record.
type record struct {
	Msg, Process, Stream, Line string
}

// logbook keeps the log records.
type logbook struct {
	mu      sync.Mutex
	records []record
	bytes   int
	changed chan struct{} // holds one token
}

func newLogbook() *logbook { return &logbook{changed: make(chan struct{}, 1)} }

func (l *logbook) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(l, nil)) }

// Write stores one record. In a flood it keeps the first records.
func (l *logbook) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var r record
	if err := json.Unmarshal(text, &r); err != nil {
		return 0, err
	}
	l.bytes += len(r.Line)
	if len(l.records) < 1000 {
		l.records = append(l.records, r)
	}
	select {
	case l.changed <- struct{}{}:
	default:
	}
	return len(text), nil
}

func (l *logbook) lines(stream string) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.records {
		if r.Stream == stream {
			lines = append(lines, r.Line)
		}
	}
	return lines
}

// firstLine waits for the first line of stdout.
func (l *logbook) firstLine(t testing.TB) string {
	late := wait.Over(t)
	for {
		if lines := l.lines("stdout"); len(lines) > 0 {
			return lines[0]
		}
		select {
		case <-l.changed:
		case <-late:
			t.Fatal("the process says nothing")
		}
	}
}

// sh returns a process that runs a script.
func sh(script string, files ...*os.File) childprocess.Spec {
	return childprocess.Spec{Name: "test", Path: "/bin/sh", Args: []string{"-c", script}, Files: files}
}

func start(t testing.TB, spec childprocess.Spec) (*childprocess.Process, *logbook) {
	log := newLogbook()
	p, err := childprocess.Start(spec, log.logger())
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, p.Terminate(context.WithoutCancel(t.Context()), 0))
	})
	return p, log
}

func hasEnded(t testing.TB, p *childprocess.Process) childprocess.Exit {
	wait.Receive(t, p.Done(), "the process does not end")
	return p.Exit()
}

func TestHowProcessesEnd(t *testing.T) {
	t.Parallel()
	for script, c := range map[string]struct {
		exit childprocess.Exit
		text string
	}{
		"exit 0":       {childprocess.Exit{}, "exit status 0"},
		"exit 1":       {childprocess.Exit{Code: 1}, "exit status 1"},
		"exit 255":     {childprocess.Exit{Code: 255}, "exit status 255"},
		"kill -9 $$":   {childprocess.Exit{Code: -1, Signal: syscall.SIGKILL}, "killed by signal 9 (SIGKILL)"},
		"kill -TERM 0": {childprocess.Exit{Code: -1, Signal: syscall.SIGTERM}, "killed by signal 15 (SIGTERM)"},
		"kill -34 $$":  {childprocess.Exit{Code: -1, Signal: 34}, "killed by signal 34 (signal 34)"},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			p, _ := start(t, sh(script))
			require.Equal(t, c.exit, hasEnded(t, p))
			require.Equal(t, c.text, p.Exit().String())
		})
	}
	require.Equal(t, "killed by signal 11 (SIGSEGV), core dumped",
		childprocess.Exit{Signal: syscall.SIGSEGV, Core: true}.String())
	require.Equal(t, "exit status unknown", childprocess.Exit{Code: -1}.String())
}

func TestOutputIsLoggedLineByLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		lines  []string
	}{
		"lines":                 {`echo one; printf 'two\r\n\nthree'`, []string{"one", "two", "three"}},
		"tabs and quotes":       {`printf 'a\t"b"\n'`, []string{"a\t\"b\""}},
		"control characters":    {`printf '\033[2J\000\007\177a\rb\n'`, []string{"�[2J���a�b"}},
		"no UTF-8":              {`printf 'gr\374n gr\303\274n\n'`, []string{"gr\ufffdn grün"}},
		"writing turned around": {`printf 'a\342\200\256b\n'`, []string{"a�b"}},
		"a line of the length":  {`printf %04096d 0; echo; echo end`, []string{strings.Repeat("0", 4096), "end"}},
		"a line too long": {
			`printf %05000d 0; echo; echo end`,
			[]string{strings.Repeat("0", 4096), strings.Repeat("0", 904), "end"},
		},
		"a character across pieces": {`printf '%04095d\342\202\254\n' 0`, []string{strings.Repeat("0", 4095), "€"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, log := start(t, sh(c.script))
			require.Zero(t, hasEnded(t, p))
			require.Equal(t, c.lines, log.lines("stdout"))
			require.Empty(t, p.Tail(), "stdout has no tail")
		})
	}
	p, log := start(t, sh("echo out; echo err >&2"))
	hasEnded(t, p)
	require.ElementsMatch(t, []record{{"output", "test", "stdout", "out"}, {"output", "test", "stderr", "err"}},
		log.records)
}

func TestTheTailOfStderrIsKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ script, tail string }{
		"little":      {`printf 'a\nb\033\r\nc' >&2; echo no`, "a\nb�\nc"},
		"much":        {`seq 100000 | tail -n 2000 >&2`, "lines"},
		"one line":    {`printf %09000d 0 >&2`, strings.Repeat("0", childprocess.TailSize)},
		"in trickles": {`for i in $(seq 99000 100000); do echo $i; done >&2`, "lines"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, _ := start(t, sh(c.script))
			hasEnded(t, p)
			if c.tail != "lines" {
				require.Equal(t, c.tail, p.Tail())
				return
			}
			lines := strings.Fields(p.Tail())
			require.Greater(t, len(lines), 600)
			for i, line := range lines {
				require.Equal(t, strconv.Itoa(100_000-len(lines)+1+i), line)
			}
		})
	}
}

func TestAFloodOfOutputTakesNoMemory(t *testing.T) {
	t.Parallel()
	const size = 30_000_000
	p, log := start(t, sh(`head -c `+strconv.Itoa(size)+` /dev/zero | tr '\0' x; head -c 100000 /dev/zero >&2`))
	require.Zero(t, hasEnded(t, p))
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	require.Less(t, m.HeapAlloc, uint64(64<<20))
	require.Equal(t, size+300_000, log.bytes, "nothing is lost; a NUL becomes three bytes")
	require.LessOrEqual(t, len(p.Tail()), 3*childprocess.TailSize)
}

func TestTheProcessGetsWhatTheSpecSays(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	dir := t.TempDir()
	spec := sh(`pwd; echo "$NAME$HOME"; cat; echo written >&4; exec 2>/dev/null; true >&5 || echo closed`, r, w)
	spec.Dir, spec.Env = dir, []string{"NAME=value"}
	p, log := start(t, spec)
	require.NoError(t, w.Close())
	require.Zero(t, hasEnded(t, p))
	require.Equal(t, []string{dir, "value", "closed"}, log.lines("stdout"))
	got := make([]byte, 100)
	n, err := r.Read(got)
	require.NoError(t, err)
	require.Equal(t, "written\n", string(got[:n]))
	require.NotEqual(t, os.Getpid(), p.Pid())
	require.Equal(t, "test", p.Name())
}

func TestTheProcessHasAGroupOfItsOwnAndNoParentToDieWith(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	p, log := start(t, sh(`echo ready; read x <&3`, r))
	log.firstLine(t)
	group, err := syscall.Getpgid(p.Pid())
	require.NoError(t, err)
	require.Equal(t, p.Pid(), group)
	require.NoError(t, w.Close())
	hasEnded(t, p)
}

// Waiting for a process returns at its end, even if a grandchild keeps the output open.
func TestWhatAProcessLeavesBehind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		killed bool
	}{
		"in its group":     {`sleep 1000 & echo $!; read x <&3; echo last`, true},
		"in its own group": {`setsid sleep 1000 & echo $!; read x <&3; echo last`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, w, err := os.Pipe()
			require.NoError(t, err)
			defer r.Close()
			p, log := start(t, sh(c.script, r))
			pid, err := strconv.Atoi(log.firstLine(t))
			require.NoError(t, err)
			left, err := unix.PidfdOpen(pid, 0)
			require.NoError(t, err)
			defer unix.Close(left)
			if !c.killed {
				awaitName(t, pid, "sleep")
			}
			require.NoError(t, w.Close())
			require.Zero(t, hasEnded(t, p))
			require.Equal(t, "last", log.lines("stdout")[1])
			if !c.killed {
				require.NoError(t, unix.PidfdSendSignal(left, 0, nil, 0), "it is not ours to kill")
				require.NoError(t, unix.PidfdSendSignal(left, unix.SIGKILL, nil, 0))
			}
			polled := []unix.PollFd{{Fd: int32(left), Events: unix.POLLIN}}
			n, err := unix.Poll(polled, int(wait.Longest.Milliseconds()))
			require.NoError(t, err)
			require.Equal(t, 1, n, "it is gone")
		})
	}
}

// awaitName waits until the process executes the program.
func awaitName(t testing.TB, pid int, name string) {
	wait.Until(t, func() bool {
		comm, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
		return err == nil && strings.TrimSpace(string(comm)) == name
	})
}

func TestTerminate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		grace  time.Duration
		exit   childprocess.Exit
	}{
		"listens": {
			`trap 'exit 7' TERM; echo ready; while :; do sleep 0.01; done`, wait.Longest,
			childprocess.Exit{Code: 7},
		},
		"does not listen": {
			`trap '' TERM; echo ready; while :; do sleep 0.01; done`, time.Millisecond,
			childprocess.Exit{Code: -1, Signal: syscall.SIGKILL},
		},
		"is stopped": {`echo ready; kill -STOP $$`, wait.Longest, childprocess.Exit{Code: -1, Signal: syscall.SIGTERM}},
		"has no time left": {
			`trap '' TERM; echo ready; while :; do sleep 0.01; done`, 0,
			childprocess.Exit{Code: -1, Signal: syscall.SIGKILL},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, log := start(t, sh(c.script))
			log.firstLine(t)
			var wg sync.WaitGroup
			for range 3 { // repeated calls are harmless
				wg.Go(func() {
					if err := p.Terminate(t.Context(), c.grace); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			require.Equal(t, c.exit, p.Exit())
			require.NoError(t, p.Terminate(t.Context(), c.grace), "once more")
			err := p.Signal(syscall.SIGTERM)
			require.ErrorIs(t, err, os.ErrProcessDone)
			require.EqualError(t, err, "send SIGTERM to test: os: process already finished")
		})
	}
}

func TestTheContextsEndCutsTheGraceShort(t *testing.T) {
	t.Parallel()
	p, log := start(t, sh(`trap '' TERM; echo ready; while :; do sleep 0.01; done`))
	log.firstLine(t)
	require.Zero(t, p.Exit(), "it runs")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, p.Terminate(ctx, time.Hour))
	require.Equal(t, syscall.SIGKILL, p.Exit().Signal)
}

func TestWhatCannotBeStarted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	script := write("script", "#!/no/such/interpreter\n", 0o700)
	plain := write("plain", "text", 0o600)
	foreign := write("foreign", "\x7fELF\x02\x01\x01 of a machine that never was", 0o700)
	closed, err := os.Open(plain)
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	for text, spec := range map[string]childprocess.Spec{
		"start vm: stat /no/such/qemu: no such file or directory":       {Path: "/no/such/qemu"},
		"start vm: stat qemu-not-in-path: no such file or directory":    {Path: "qemu-not-in-path"},
		"start vm: " + dir + " is a directory: permission denied":       {Path: dir},
		"start vm: " + plain + " is not executable (mode -rw-------): ": {Path: plain},
		"start vm: " + foreign + " is not a program for this machine: ": {Path: foreign},
		"start vm: " + script + " exists, but the interpreter or ":      {Path: script},
		"start vm: working directory: stat /no/such: no such file or ":  {Path: "/bin/sh", Dir: "/no/such"},
		`start vm: argument "a\x00b" contains a NUL byte: invalid`:      {Path: "/bin/sh", Args: []string{"a\x00b"}},
		"start vm: fork/exec /bin/true: argument list too long": {
			Path: "/bin/true",
			Args: []string{strings.Repeat("x", 1<<20)},
		},
		"start vm: the file for descriptor 4 is missing: invalid ": {
			Path:  "/bin/sh",
			Files: []*os.File{os.Stdout, nil},
		},
		"start vm: the file for descriptor 3: stat " + plain + ": file al": {
			Path:  "/bin/sh",
			Files: []*os.File{closed},
		},
	} {
		spec.Name = "vm"
		_, err := childprocess.Start(spec, slog.New(slog.DiscardHandler))
		require.ErrorContains(t, err, text)
	}
	_, err = childprocess.Start(childprocess.Spec{Name: "vm", Path: "/no/such/qemu"}, slog.New(slog.DiscardHandler))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// This test is not parallel because it counts all open files of the test program.
func TestNothingStaysOpen(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(entries)
	}
	once := func(i int) {
		p, err := childprocess.Start(sh("echo $$"), slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		hasEnded(t, p)
		_, err = childprocess.Start(childprocess.Spec{Path: "/no/such"}, slog.New(slog.DiscardHandler))
		require.Error(t, err)
	}
	once(0) // the runtime opens its own files first
	before := count()
	for i := range 50 {
		once(i)
	}
	wait.Until(t, func() bool { return count() <= before })
}

// The output of a process goes to the file instead of the log, and Go's own descriptor stays open.
func TestStandardOutputCanBeAFile(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	spec := sh("echo here; echo there >&2")
	spec.Stdout = w
	p, log := start(t, spec)
	require.NoError(t, w.Close())
	said, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "here\n", string(said))
	require.Zero(t, hasEnded(t, p))
	require.Empty(t, log.lines("stdout"))
	require.Equal(t, []string{"there"}, log.lines("stderr"))
}

func TestLimits(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	spec := sh("read x <&3; ulimit -n; ulimit -t; ulimit -c", r)
	spec.Limits = []childprocess.Limit{
		{Resource: unix.RLIMIT_NOFILE, Most: 17}, {Resource: unix.RLIMIT_CPU, Most: 1000},
	}
	p, log := start(t, spec)
	require.NoError(t, w.Close())
	require.Zero(t, hasEnded(t, p))
	require.Equal(t, []string{"17", "1000", "0"}, log.lines("stdout"))
}
