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

	"vmop/runner/control"
	"vmop/test/guest"
	"vmop/test/invariants"
	"vmop/test/wait"
)

// tick is the polling interval for changes without events.
const tick = 10 * time.Millisecond

// program is a running vmrunner.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	out   *transcript // its output, from both streams
	ended chan struct{}
}

// transcript collects output, and lets tests wait for it.
type transcript struct {
	mu      sync.Mutex
	text    bytes.Buffer
	read    int // offset after the last match
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

// next searches for a pattern after the previous match.
func (s *transcript) next(pattern *regexp.Regexp) (found bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := pattern.FindIndex(s.text.Bytes()[s.read:])
	if at != nil {
		s.read += at[1]
	}
	return at != nil, s.changed
}

// folder returns a new folder with a configuration. PATH in it is replaced by the folder.
func folder(t *testing.T, vmType string, section ...string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "v") // short, because socket paths are limited
	require.NoError(t, err)
	t.Cleanup(func() {
		// If a test failed, its QEMU may outlive the runner.
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

// start starts vmrunner with the configuration of a folder. Its input is stdin, and its output goes to a transcript.
func start(t *testing.T, dir string, stdin io.Reader, args ...string) *program {
	t.Helper()
	p := newProgram(t, dir, stdin, args...)
	p.launch()
	return p
}

// booted is start, and waits until the VM runs.
func booted(t *testing.T, dir string, args ...string) *program {
	t.Helper()
	p := start(t, dir, nil, args...)
	p.await(`INF booting`)
	return p
}

// adopted is start, and waits until the runner has adopted the running VM.
func adopted(t *testing.T, dir string, args ...string) *program {
	t.Helper()
	p := start(t, dir, nil, args...)
	p.await(`INF adopted`)
	return p
}

// newProgram prepares start without starting the process.
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

// launch starts the process, which ends with the test.
func (p *program) launch() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // its state contains the result
	}()
	p.t.Cleanup(func() {
		if p.t.Failed() {
			p.t.Logf("vmrunner's output:\n%s", p.out)
		}
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		<-p.ended
	})
}

// await waits until the program has printed a match, after the previous match.
func (p *program) await(pattern string) {
	p.t.Helper()
	expected, late := regexp.MustCompile(pattern), wait.Over(p.t)
	ended := p.ended
	for {
		found, changed := p.out.next(expected)
		if found {
			return
		}
		require.NotNil(p.t, ended, "vmrunner ended before it printed %q", pattern)
		select {
		case <-changed:
		case <-ended:
			ended = nil
		case <-late:
			require.FailNow(p.t, "not printed in time", pattern)
		}
	}
}

// exit waits for the program's end and returns its exit code, or the negative number of a signal.
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

// ends makes a runner shut its guest down.
func (p *program) ends() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	require.Zero(p.t, p.exit(), "the guest obeys the power button")
}

// stops ends a runner and its VM, and requires that the folder has no leftovers.
func (p *program) stops(dir string) {
	p.t.Helper()
	p.ends()
	invariants.NothingLeft(p.t, dir)
}

// dial connects to the runner of a folder.
func dial(t *testing.T, dir string) *control.Client {
	t.Helper()
	client, err := control.Dial(t.Context(), filepath.Join(dir, "run", control.SocketName))
	require.NoError(t, err)
	return client
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

// A line of the console that matches --poweroff-on powers the guest off and ends the program.
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
