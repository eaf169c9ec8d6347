package supervisor_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/supervisor"
	"vmop/test/wait"
)

// Run reaps all children and handles signals, so each test runs it in a separate process: this program with the fake
// runner's command line in its environment.
const (
	runnerVariable = "SUPERVISOR_TEST_RUNNER"
	askedVariable  = "SUPERVISOR_TEST_ASKED" // asked to stop before it runs
	cannotRun      = 99
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "panic-once" {
		panicOnce(os.Args[2])
	}
	var args []string
	if text, found := os.LookupEnv(runnerVariable); !found {
		os.Exit(m.Run())
	} else if err := json.Unmarshal([]byte(text), &args); err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if os.Getenv(askedVariable) != "" {
		cancel()
	}
	log := slog.New(slog.NewTextHandler(os.Stdout, nil))
	code, err := supervisor.Run(ctx, supervisor.Spec{Path: args[0], Args: args, Log: log})
	if err != nil {
		fmt.Println("error:", err)
		code = cannotRun
	}
	os.Exit(code)
}

// panicOnce simulates a Go runner that panics the first time.
func panicOnce(marker string) {
	if _, err := os.Stat(marker); err == nil {
		fmt.Println("asked by", int(supervisor.AskedToStop()), "and", int(supervisor.AskedToStop()))
		os.Exit(4)
	}
	if err := os.WriteFile(marker, nil, 0o600); err != nil {
		fmt.Println(err)
	}
	panic("a fault in the runner")
}

// supervised is a process that runs Run.
type supervised struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
	said  strings.Builder
}

// sh supervises a shell that runs a script in an empty folder.
func sh(t *testing.T, script string) *supervised {
	t.Helper()
	return supervise(t, t.TempDir(), "/bin/sh", "-c", script)
}

func supervise(t *testing.T, dir string, args ...string) *supervised {
	t.Helper()
	exe, err := os.Executable()
	require.NoError(t, err)
	return launch(t, exec.CommandContext(t.Context(), exe), dir, args)
}

// launch starts a command that becomes the supervisor of a runner.
func launch(t *testing.T, cmd *exec.Cmd, dir string, args []string) *supervised {
	t.Helper()
	text, err := json.Marshal(args)
	require.NoError(t, err)
	s := &supervised{t: t, cmd: cmd}
	s.cmd.Dir = dir
	s.cmd.Env = append(os.Environ(), runnerVariable+"="+string(text), "GOTRACEBACK=none")
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { r.Close() })
	defer w.Close()
	s.cmd.Stdout, s.cmd.Stderr = w, w
	s.lines = bufio.NewScanner(r)
	if strings.HasSuffix(t.Name(), "early") {
		s.cmd.Env = append(s.cmd.Env, askedVariable+"=1")
	}
	require.NoError(t, s.cmd.Start())
	require.NoError(t, r.SetReadDeadline(wait.Deadline()))
	return s
}

// await reads up to a matching line and returns its submatches.
func (s *supervised) await(pattern string) []string {
	s.t.Helper()
	expected := regexp.MustCompile(pattern)
	for s.lines.Scan() {
		s.said.WriteString(s.lines.Text() + "\n")
		if found := expected.FindStringSubmatch(s.lines.Text()); found != nil {
			return found
		}
	}
	require.FailNow(s.t, "not in the log: "+pattern, "%v\n%s", s.lines.Err(), s.said.String())
	return nil
}

func (s *supervised) signal(sig syscall.Signal) {
	s.t.Helper()
	require.NoError(s.t, s.cmd.Process.Signal(sig))
}

// exit waits for the end and returns the exit code and the output.
func (s *supervised) exit() (code int, said string) {
	s.t.Helper()
	for s.lines.Scan() {
		s.said.WriteString(s.lines.Text() + "\n")
	}
	require.NoError(s.t, s.lines.Err())
	_ = s.cmd.Wait() // its state shows the result
	return s.cmd.ProcessState.ExitCode(), s.said.String()
}

func TestTheRunnersExitCodeIsItsOwn(t *testing.T) {
	t.Parallel()
	for _, code := range []int{0, 1, 2, 3, 143, 255} {
		got, said := sh(t, "exit "+strconv.Itoa(code)).exit()
		require.Equal(t, code, got)
		require.Empty(t, said)
	}
}

func TestAKilledRunnerIsStartedAgain(t *testing.T) {
	t.Parallel()
	s := sh(t, `echo >>count; [ $(wc -l <count) -gt 3 ] && exit 5; kill -$(wc -l <count) $$`)
	code, said := s.exit()
	require.Equal(t, 5, code)
	require.Regexp(t, `(?s)msg="runner died" pid=\d+ exit="killed by signal 1 \(SIGHUP\)" lived=\S+ again=0s\n`+
		`.*"runner started again" pid=\d+\n.*signal 2 \(SIGINT\)" lived=\S+ again=1s\n.*signal 3 \(SIGQUIT\).* `+
		`again=2s\n`, said)
}

func TestARunnerThatPanicsIsStartedAgain(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	code, said := supervise(t, dir, exe, "panic-once", filepath.Join(dir, "marker")).exit()
	require.Equal(t, 4, code)
	require.Contains(t, said, "panic: a fault in the runner")
	require.Contains(t, said, `msg="runner died"`)
	require.Contains(t, said, "(SIGABRT)")
	require.Contains(t, said, "asked by 0 and 0")
}

func TestTheRunnerLeavesNoCoreDump(t *testing.T) {
	t.Parallel()
	code, said := sh(t, "ulimit -c; exit 8").exit()
	require.Equal(t, 8, code)
	require.Equal(t, "0\n", said)
}

func TestSignalsArePassedOn(t *testing.T) {
	t.Parallel()
	s := sh(t, `for s in HUP QUIT USR1 USR2 INT; do trap "echo got $s" $s; done; trap 'echo got TERM; exit 9' TERM
		echo ready; while :; do sleep 0.01; done`)
	s.await("^ready$")
	for name, sig := range map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
		"INT": syscall.SIGINT,
	} {
		s.signal(sig)
		s.await("^got " + name + "$")
	}
	s.signal(syscall.SIGTERM)
	s.await("^got TERM$")
	code, said := s.exit()
	require.Equal(t, 9, code)
	require.NotContains(t, said, "died")
}

// asked is the script of a runner that receives a stop request in its environment, or otherwise is killed.
const asked = `if [ "$VMRUNNER_ASKED_TO_STOP" ]; then echo asked; exit $VMRUNNER_ASKED_TO_STOP; fi; `

func TestTheWishToStopIsNotLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script, after string
		signals       []syscall.Signal
		exit          syscall.Signal
	}{
		"without a runner": {
			asked + "kill -9 $$", "again=[1-9]",
			[]syscall.Signal{syscall.SIGTERM},
			syscall.SIGTERM,
		},
		"to one that is deaf": {
			asked + "echo ready; while :; do sleep 0.01; done", "^ready$",
			[]syscall.Signal{syscall.SIGINT},
			syscall.SIGINT,
		},
		"to one that is killed": {
			asked + "trap 'kill -9 $$' TERM; echo ready; while :; do sleep 0.01; done", "^ready$",
			[]syscall.Signal{syscall.SIGTERM},
			syscall.SIGTERM,
		},
		"after another signal": {
			asked + "kill -9 $$", "again=[1-9]",
			[]syscall.Signal{syscall.SIGUSR1, syscall.SIGTERM},
			syscall.SIGTERM,
		},
		"early": {asked + "kill -9 $$", "^asked$", nil, syscall.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := sh(t, c.script)
			s.await(c.after)
			for _, sig := range c.signals {
				s.signal(sig)
			}
			code, said := s.exit()
			require.Equal(t, int(c.exit), code, said)
		})
	}
}

func TestTheRunnerLearnsOnceThatItWasAsked(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	require.NoError(t, err)
	marker := filepath.Join(t.TempDir(), "marker")
	require.NoError(t, os.WriteFile(marker, nil, 0o600))
	cmd := exec.CommandContext(t.Context(), exe, "panic-once", marker)
	cmd.Env = append(os.Environ(), "VMRUNNER_ASKED_TO_STOP=2")
	out, _ := cmd.Output()
	require.Equal(t, "asked by 2 and 0\n", string(out))
}

// Orphans are reaped. Otherwise they would stay in /proc.
func TestOrphansAreCollected(t *testing.T) {
	t.Parallel()
	s := sh(t, `orphan=$(sh -c 'sleep 0.01 >&2 & echo $!'); while [ -d /proc/$orphan ]; do sleep 0.01; done; exit 6`)
	code, said := s.exit()
	require.Equal(t, 6, code)
	require.Empty(t, said)
}

// child waits until a process has a child in a state and returns the child's process id.
func (s *supervised) child(parent int, state string) (pid int) {
	s.t.Helper()
	wait.Until(s.t, func() bool {
		all, err := filepath.Glob("/proc/[0-9]*/stat")
		require.NoError(s.t, err)
		for _, path := range all {
			text, _ := os.ReadFile(path) // it may have ended
			fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
			if len(fields) > 1 && fields[0] == state && fields[1] == strconv.Itoa(parent) {
				pid, err = strconv.Atoi(filepath.Base(filepath.Dir(path)))
				return err == nil
			}
		}
		return false
	})
	return pid
}

// The next runner can read the exit status of a process left by the previous runner.
func TestHowProcessesEndedIsKeptForTheNextRunner(t *testing.T) {
	t.Parallel()
	s := sh(t, `
		if ! [ -e left ]; then
			sh -c 'while ! [ -e end ]; do sleep 0.01; done; exit 5' >/dev/null 2>&1 & echo $! >left
			kill -STOP $$
		fi
		echo ended $(cut -d ' ' -f 52 /proc/$(cat left)/stat); exit 0`)
	runner := s.child(s.cmd.Process.Pid, "T")
	require.NoError(t, os.WriteFile(filepath.Join(s.cmd.Dir, "end"), nil, 0o600))
	s.child(runner, "Z")
	require.NoError(t, syscall.Kill(runner, syscall.SIGKILL))
	s.await(`^ended 1280$`) // 5 << 8
	code, _ := s.exit()
	require.Zero(t, code)
}

// In a container the supervisor is process 1 and the parent of all orphans.
func TestTheFirstProcessOfAContainer(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	require.NoError(t, err)
	unshare, err := exec.LookPath("unshare")
	require.NoError(t, err, "install the Debian package util-linux")
	first := exec.CommandContext(t.Context(), unshare, "--pid", "--fork", "--mount-proc", exe)
	s := launch(t, first, t.TempDir(), []string{"/bin/sh", "-c", `
		if ! [ -e killed ]; then
			orphan=$(sh -c 'sleep 0.01 >&2 & echo $!'); while [ -d /proc/$orphan ]; do sleep 0.01; done
			touch killed; kill -9 $$
		fi
		sleep 1000 >/dev/null 2>&1 & echo parent $PPID; trap 'exit 9' TERM; kill -TERM 1; while :; do sleep 0.01; done`})
	s.await("runner died")
	s.await("^parent 1$")
	code, said := s.exit()
	require.Equal(t, 9, code)
	require.Regexp(t, `left without a runner" processes="\w+ \(\d+\)"`, said, "it dies with the container")
}

// left returns a script that leaves a process running. The process ends with the test.
func left(t *testing.T) (script string, end *os.File) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	fifo, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { fifo.Close() })
	return "head -n 1 <" + path + " >/dev/null 2>&1 & ", fifo
}

func TestProcessesThatAreLeftAreNamed(t *testing.T) {
	t.Parallel()
	script, end := left(t)
	code, said := sh(t, script+"exit 0").exit()
	require.Zero(t, code)
	require.Regexp(t, `level=WARN msg="processes are left without a runner" processes="\w+ \(\d+\)"`, said)
	_, err := io.WriteString(end, "\n")
	require.NoError(t, err)
}

// If a runner fails while its machine is running, it is restarted, because the machine would end with its container.
func TestARunnerThatLeavesAMachineIsStartedAgain(t *testing.T) {
	t.Parallel()
	script, end := left(t)
	s := sh(t, "[ -e tried ] && exit 4; touch tried; "+script+"exit 1")
	s.await(`msg="runner died" processes="\w+ \(\d+\)" exit="exit status 1" .* again=0s`)
	s.await(`msg="runner died" .* again=1s`)
	_, err := io.WriteString(end, "\n")
	require.NoError(t, err)
	code, said := s.exit()
	require.Equal(t, 4, code)
	require.NotContains(t, said, "left without")
}

func TestARunnerThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	code, said := supervise(t, t.TempDir(), "/no/such/runner").exit()
	require.Equal(t, cannotRun, code)
	require.Equal(t, "error: start runner /no/such/runner: no such file or directory\n", said)
}

func TestARunnerThatCannotBeStartedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "runner")
	require.NoError(t, os.Symlink("/bin/sh", path))
	script, end := left(t)
	s := supervise(t, dir, path, "-c", script+"rm runner; kill -9 $$")
	s.await(`msg="runner cannot be started" err="start runner .*/runner: no such file or directory" again=1s`)
	s.await(`msg="runner cannot be started" .* again=2s`)
	s.signal(syscall.SIGTERM)
	code, said := s.exit()
	require.Equal(t, cannotRun, code)
	require.Regexp(t, `msg="processes are left without a runner" processes="\w+ \(\d+\)"\nerror: start runner `, said)
	_, err := io.WriteString(end, "\n")
	require.NoError(t, err)
}
