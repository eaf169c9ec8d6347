package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/test/guest"
	"vmop/test/invariants"
	"vmop/test/wait"
)

// tick is how often what makes no event is looked at.
const tick = 10 * time.Millisecond

// program is a running vmrunner.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	out   *transcript // what it says, on both streams
	ended chan struct{}
}

// transcript collects output, and lets tests wait for it.
type transcript struct {
	mu      sync.Mutex
	text    bytes.Buffer
	read    int // what was awaited
	changed chan struct{}
}

func newTranscript() *transcript { return &transcript{changed: make(chan struct{})} }

// Write adds to the transcript.
func (s *transcript) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(text)
	close(s.changed)
	s.changed = make(chan struct{})
	return len(text), nil
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// next looks for a pattern behind what was found before.
func (s *transcript) next(pattern *regexp.Regexp) (found bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := pattern.FindIndex(s.text.Bytes()[s.read:])
	if at != nil {
		s.read += at[1]
	}
	return at != nil, s.changed
}

// folder returns a new folder with a configuration; PATH in it is the folder.
func folder(t *testing.T, vmType string, section ...string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "v") // short, for the paths of sockets
	require.NoError(t, err)
	t.Cleanup(func() {
		// The runner of a test that went wrong may be gone, and QEMU still be there.
		for _, pids := range invariants.Processes(t, dir) {
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
		}
		require.NoError(t, os.RemoveAll(dir))
	})
	text := "\"/Runner\":\n  dataDir: data\n  runtimeDir: run\n  vmType: " + vmType + "\n  vm:\n    name: test\n"
	for _, line := range section {
		text += "    " + line + "\n"
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(strings.ReplaceAll(text, "PATH", dir)),
		0o600))
	return dir
}

// start starts vmrunner with the configuration of a folder. Its input is stdin;
// what it says goes to a transcript.
func start(t *testing.T, dir string, stdin io.Reader, args ...string) *program {
	t.Helper()
	p := newProgram(t, dir, stdin, args...)
	p.launch()
	return p
}

// newProgram makes everything of start but the process.
func newProgram(t *testing.T, dir string, stdin io.Reader, args ...string) *program {
	t.Helper()
	args = append([]string{
		"run", "-c", filepath.Join(dir, "config.yaml"), "--vmtypes",
		"../../runner/testdata/vmtypes", "--log-format", "text",
	}, args...)
	p := &program{
		t: t, cmd: exec.CommandContext(t.Context(), "vmrunner", args...), out: newTranscript(),
		ended: make(chan struct{}),
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdin, p.out, p.out
	return p
}

// launch starts the process; it ends with the test.
func (p *program) launch() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // its state tells
	}()
	p.t.Cleanup(func() {
		if p.t.Failed() {
			p.t.Logf("vmrunner said:\n%s", p.out)
		}
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		<-p.ended
	})
}

// await waits until the program has said something, behind what was awaited
// before.
func (p *program) await(pattern string) {
	p.t.Helper()
	expected, late := regexp.MustCompile(pattern), wait.Over(p.t)
	ended := p.ended
	for {
		found, changed := p.out.next(expected)
		if found {
			return
		}
		require.NotNil(p.t, ended, "vmrunner ended before it said %q", pattern)
		select {
		case <-changed:
		case <-ended:
			ended = nil
		case <-late:
			require.FailNow(p.t, "not said in time", pattern)
		}
	}
}

// exit waits for the program's end and returns its exit code, or the negative
// number of a signal.
func (p *program) exit() int {
	p.t.Helper()
	wait.Receive(p.t, p.ended, "vmrunner does not end")
	status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return -int(status.Signal())
	}
	return status.ExitStatus()
}

func (p *program) signal(sig syscall.Signal) {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(sig))
}

// tiny takes a place for the tiny guest, and returns the lines of a vm section that boot it.
func tiny(t *testing.T, commandLine string) []string {
	t.Helper()
	image := guest.Tiny(t)
	guest.TakePlace(t)
	return []string{
		"accelerator: tcg", "firmware: bios", "network: []", "maximumRam: 256 MiB", "powerdownTimeout: 60",
		"kernel: {image: " + image.Kernel + ", initrd: " + image.Initrd +
			", commandLine: " + guest.CommandLine + " " + commandLine + "}",
	}
}

// obedient returns the lines of a vm section that boot guest.Obedient.
func obedient(t *testing.T, counts bool) []string {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, os.WriteFile(disk, guest.Obedient(counts), 0o600))
	return []string{
		"accelerator: tcg", "firmware: bios", "network: []", "maximumRam: 64 MiB", "powerdownTimeout: 60",
		"drives: [{file: " + disk + ", bootindex: 1}]",
	}
}

// The first signal asks the guest; more of them change nothing.
func TestSecondSignalDoesNoHarm(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 2")
	p := start(t, dir, nil)
	p.await(`booting`)
	p.signal(syscall.SIGTERM)
	p.await(`terminating`)
	p.signal(syscall.SIGINT)
	p.await(`ACPI power button`)
	p.signal(syscall.SIGTERM)
	p.await(`QMP quit`)
	require.Zero(t, p.exit())
	require.Contains(t, p.out.String(), "forced (host-qmp-quit)")
	require.NoDirExists(t, filepath.Join(dir, "run"))
}

// A signal before the guest runs is the reason for the end, and its exit code.
func TestSignalBeforeTheGuestRuns(t *testing.T) {
	t.Parallel()
	for sig, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
		dir := folder(t, "bare", "options: {helper: {program: /bin/sleep, arguments: ['1000'], ready: PATH/never}}")
		p := start(t, dir, nil)
		p.await(`starting`)
		p.signal(sig)
		require.Equal(t, code, p.exit())
		require.Regexp(t, `(?m)^vmrunner: stopped while the VM was being started: signal `, p.out.String())
		require.NoDirExists(t, filepath.Join(dir, "run"))
	}
}

// Without a terminal, the guest's report ends it; the report must come.
func TestPowerOffOn(t *testing.T) {
	t.Parallel()
	dir := folder(t, "standard", obedient(t, true)...)
	p := start(t, dir, nil, "--poweroff-on", `^0+a$`)
	p.await(guest.ObedientSays)
	p.await(`(?m)^0000000a$`)
	require.Zero(t, p.exit())
	require.Contains(t, p.out.String(), "a line of the console matched --poweroff-on")
	require.Contains(t, p.out.String(), guest.ObedientHears+"\r\n"+guest.ObedientLeaves+"\r\n",
		"the rest of the output is shown, too")
	require.NoDirExists(t, filepath.Join(dir, "run"))
}

func TestPowerOffOnWhatIsNeverSaid(t *testing.T) {
	t.Parallel()
	dir := folder(t, "standard", "accelerator: tcg", "firmware: bios", "network: []", "powerdownTimeout: 0")
	p := start(t, dir, nil, "--poweroff-on", `never said`)
	p.await(`booting`)
	p.signal(syscall.SIGTERM)
	require.Equal(t, 1, p.exit())
	require.Contains(t, p.out.String(), `vmrunner: the VM ended, but no line of its console matched "never said"`)
}

func TestConsoleThatIsNotThere(t *testing.T) {
	t.Parallel()
	p := start(t, folder(t, "bare"), nil, "--console")
	require.Equal(t, 1, p.exit())
	require.Contains(t, p.out.String(),
		"vmrunner: the VM has no serial console: its type has none, or serialConsole.enabled is false")
}
