package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/internal/loopback"
	"vmop/qmp"
	"vmop/runner"
	"vmop/runner/prepare"
	"vmop/runner/status/k8s"
	"vmop/test/invariants"
	"vmop/test/wait"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/policy"
)

// TestMain hides the tests' VMs from the user's list. Most tests wait more than they compute, so it runs more in
// parallel than there are processors, unless -parallel is set; see also guest.TakePlace.
func TestMain(m *testing.M) {
	containIfAsked()
	attackIfAsked()
	evaluate.Serve(context.Background(), nil) // in an evaluation process
	loopback.Serve(nil)
	dir, err := os.MkdirTemp("", "r")
	if err == nil {
		err = errors.Join(os.Setenv("XDG_RUNTIME_DIR", dir), flag.Set("test.parallel", "8"))
	}
	code := 1
	if err == nil {
		code = m.Run()
	}
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// errEnough is the reason with which a test ends a VM.
var errEnough = errors.New("the test has seen enough")

// vm is a VM of a test, in its own folder.
type vm struct {
	t      *testing.T
	dir    string // contains config.yaml, data and run
	types  string // the folder of VM types
	policy *policy.Policy
	log    *logbook
	cancel context.CancelCauseFunc
	ended  chan struct{} // closed when outcome and err are set

	receive  *runner.Receive
	reporter *k8s.Reporter
	onPaused func(context.Context, *prepare.VM) error
	bootTime time.Duration // for runner.Options
	grace    time.Duration // for runner.Options
	secret   string        // source of the display's password

	outcome  runner.Outcome
	err      error
	observer string // line of the vm section that adds a second monitor
}

// newVM writes the configuration of a VM of a type. section contains the lines of its vm section except the name. PATH
// in the lines is replaced by the VM's folder.
func newVM(t *testing.T, vmType string, section ...string) *vm {
	t.Helper()
	dir, err := os.MkdirTemp("", "r") // short, for the paths of sockets
	require.NoError(t, err)
	v := &vm{t: t, dir: dir, types: filepath.Join("testdata", "vmtypes"), log: newLogbook()}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the runner's log:\n%s", v.log.text())
		}
		require.NoError(t, os.RemoveAll(dir))
	})
	v.configure(vmType, nil, section...)
	return v
}

// configure replaces the configuration. runnerLines are additional lines for the runner itself.
func (v *vm) configure(vmType string, runnerLines []string, section ...string) {
	v.t.Helper()
	lines := []string{`"/Runner":`, "  dataDir: data", "  runtimeDir: run", "  vmType: " + vmType}
	for _, line := range runnerLines {
		lines = append(lines, "  "+line)
	}
	lines = append(lines, "  vm:", "    name: test")
	if !slices.ContainsFunc(section, func(line string) bool { return strings.HasPrefix(line, "powerdownTimeout:") }) {
		section = append(section, "powerdownTimeout: 1") // a failed test must end as well
	}
	for _, line := range section {
		lines = append(lines, "    "+strings.ReplaceAll(line, "PATH", v.dir))
	}
	v.write("config.yaml", strings.Join(lines, "\n")+"\n")
}

func (v *vm) path(parts ...string) string { return filepath.Join(append([]string{v.dir}, parts...)...) }

func (v *vm) write(name, text string) {
	v.t.Helper()
	require.NoError(v.t, os.WriteFile(v.path(name), []byte(text), 0o600))
}

func (v *vm) read(parts ...string) string {
	v.t.Helper()
	text, err := os.ReadFile(v.path(parts...))
	require.NoError(v.t, err)
	return string(text)
}

// start runs the VM in the background. It is stopped when the test ends.
func (v *vm) start() {
	v.t.Helper()
	var ctx context.Context
	ctx, v.cancel = context.WithCancelCause(v.t.Context())
	v.ended = make(chan struct{})
	v.t.Cleanup(func() {
		v.cancel(errEnough)
		<-v.ended
	})
	go func() {
		defer close(v.ended)
		v.outcome, v.err = runner.Run(ctx, v.options())
	}()
}

func (v *vm) options() runner.Options {
	return runner.Options{
		Options: prepare.Options{
			ConfigFile: v.path("config.yaml"), VMTypes: v.types, Policy: v.policy, DisplaySecret: v.secret,
		},
		ImageCache: v.path("images"),
		Log:        v.log.logger(), BootTime: v.bootTime, GracePeriod: v.grace, OnPaused: v.onPaused,
		Receive: v.receive, Reporter: v.reporter,
	}
}

// runs starts the VM and waits until it runs.
func (v *vm) runs() {
	v.t.Helper()
	v.start()
	v.log.await(v.t, v.ended, "booting")
}

// wait waits for the VM's end.
func (v *vm) wait() (runner.Outcome, error) {
	v.t.Helper()
	wait.Receive(v.t, v.ended, "the VM does not end", v.log.text())
	return v.outcome, v.err
}

// stop makes the VM stop and waits for its end.
func (v *vm) stop() (runner.Outcome, error) {
	v.t.Helper()
	v.cancel(errEnough)
	return v.wait()
}

// nothingLeft requires that no process, socket or directory of the run is left.
func (v *vm) nothingLeft() {
	v.t.Helper()
	invariants.NothingLeft(v.t, v.dir)
}

// processes returns the processes of the VM by program name.
func (v *vm) processes() map[string]int {
	v.t.Helper()
	found := map[string]int{}
	for name, pids := range invariants.Processes(v.t, v.dir) {
		found[name] = pids[0]
	}
	return found
}

// arguments returns the command line of a process.
func arguments(pid int) []string { return invariants.Arguments(pid) }

// value returns the word that follows a flag in a command line.
func value(words []string, flag string) string {
	if i := slices.Index(words, flag); i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	return ""
}

const qemuProgram = invariants.QEMU

// qemu returns QEMU's process ID.
func (v *vm) qemu() int {
	v.t.Helper()
	pid := v.processes()[qemuProgram]
	require.NotZero(v.t, pid, "QEMU does not run")
	return pid
}

func (v *vm) signal(program string, sig syscall.Signal) {
	v.t.Helper()
	if program == qemuProgram && sig == syscall.SIGTERM {
		// QEMU 7.2 may hang when it is ended while its CPUs start; see nudge. When it has answered the query after
		// cont, they run.
		v.log.await(v.t, v.ended, "QMP reply", "command", "qom-get")
	}
	pid := v.processes()[program]
	require.NotZero(v.t, pid, "%s does not run", program)
	require.NoError(v.t, syscall.Kill(pid, sig))
}

// program writes the script PATH/bin/qemu, to replace QEMU.
func (v *vm) program(script string) {
	v.t.Helper()
	// A process that another test forks at the same time would inherit the script open for writing, and such a file
	// can't be executed.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(v.t, os.MkdirAll(v.path("bin"), 0o700))
	require.NoError(v.t, os.WriteFile(v.path("bin", "qemu"), []byte(script), 0o700))
}

// observed adds a second monitor to QEMU for the test. It returns the line for the vm section.
func (v *vm) observed() string {
	v.t.Helper()
	path, err := exec.LookPath(qemuProgram)
	require.NoError(v.t, err, "install the Debian package qemu-system-x86")
	socket := v.path("bin", "observer.sock")
	v.program("#!/bin/sh\nexec " + path + " \"$@\" -qmp unix:" + socket + ",server=on,wait=off\n")
	return "options: {qemu: " + v.path("bin", "qemu") + "}"
}

// ask runs a command in the second monitor and decodes the answer.
func (v *vm) ask(into any, command string, arguments any) {
	v.t.Helper()
	ctx, cancel := wait.Context(v.t.Context())
	defer cancel()
	session, err := qmp.Dial(ctx, v.path("bin", "observer.sock"))
	require.NoError(v.t, err)
	defer session.Close()
	reply, err := session.Run(ctx, qmp.Command{Execute: command, Arguments: arguments})
	require.NoError(v.t, err)
	require.NoError(v.t, json.Unmarshal(reply, into))
}

// logbook stores log records, at every level by default.
type logbook struct {
	mu      sync.Mutex
	lines   strings.Builder
	records []record
	changed chan struct{}
	on      func(record) // called for each record
	least   slog.Level   // minimum level of stored records
}

// record is one record of a log.
type record map[string]any

func newLogbook() *logbook { return &logbook{changed: make(chan struct{}), least: slog.LevelDebug} }

func (l *logbook) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: l.least}))
}

// Write receives one record.
func (l *logbook) Write(line []byte) (int, error) {
	var r record
	if err := json.Unmarshal(line, &r); err != nil {
		return 0, err
	}
	l.mu.Lock()
	l.lines.Write(line)
	l.records = append(l.records, r)
	close(l.changed)
	l.changed = make(chan struct{})
	on := l.on
	l.mu.Unlock()
	if on != nil {
		on(r)
	}
	return len(line), nil
}

func (l *logbook) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}

// matches reports whether a record has a message and values of keys.
func (r record) matches(message string, pairs []string) bool {
	for i := 0; i < len(pairs); i += 2 {
		if value, _ := r[pairs[i]].(string); !strings.Contains(value, pairs[i+1]) {
			return false
		}
	}
	return r["msg"] == message
}

// forget discards the records.
func (l *logbook) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.records = nil
}

// find returns the records that match.
func (l *logbook) find(message string, pairs ...string) []record {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []record
	for _, r := range l.records {
		if r.matches(message, pairs) {
			found = append(found, r)
		}
	}
	return found
}

// await waits until a matching record exists or the VM has ended.
func (l *logbook) await(t *testing.T, ended <-chan struct{}, message string, pairs ...string) record {
	t.Helper()
	late := wait.Over(t)
	for {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		over := false
		select {
		case <-ended:
			over = true
		default:
		}
		if found := l.find(message, pairs...); found != nil {
			return found[0]
		}
		require.False(t, over, "the VM ended before %q %q was logged", message, pairs)
		select {
		case <-changed:
		case <-ended:
		case <-late:
			require.FailNow(t, "not logged in time", "%q %q", message, pairs)
		}
	}
}

// logged requires that a matching record is logged, now or soon: the log may be slightly later than the status.
func (v *vm) logged(message string, pairs ...string) {
	v.t.Helper()
	v.log.await(v.t, v.ended, message, pairs...)
}

func (v *vm) notLogged(message string, pairs ...string) {
	v.t.Helper()
	require.Empty(v.t, v.log.find(message, pairs...), "%q %q is in the log", message, pairs)
}

// listenTCP uses a port of this machine until the test ends.
func listenTCP(t *testing.T, address string) int {
	t.Helper()
	l, err := net.Listen("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}
