package soak_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/control"
	"vmop/test/guest"
	"vmop/test/program"
	"vmop/test/wait"
)

// soakVM is a VM that the real program runs.
type soakVM struct {
	t       *testing.T
	program string
	dir     string
	image   guest.Image

	cmd      *exec.Cmd
	ended    chan struct{} // closed when cmd has ended
	client   *control.Client
	boots    *atomic.Int64 // number of the guest's reports
	edits    int
	commands int // number of commands typed into the guest's console
}

func newMachine(t *testing.T) *soakVM {
	t.Helper()
	dir, err := os.MkdirTemp("", "soak") // short, because socket paths are limited
	require.NoError(t, err)
	m := &soakVM{
		t: t, program: filepath.Join(t.TempDir(), "vmrunner"), dir: dir,
		image: guest.Tiny(t).With(t, "/usr/sbin/qemu-ga"),
	}
	require.NoError(t, program.Build(t.Context(), m.program, "vmop/cmd/vmrunner"))
	for _, medium := range []string{"a.iso", "b.iso", "c.iso"} {
		require.NoError(t, os.WriteFile(m.path(medium), make([]byte, 64<<10), 0o600))
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the runner's log:\n%s", m.lastWords())
		}
		m.destroy()
		require.NoError(t, os.RemoveAll(dir))
	})
	return m
}

func (m *soakVM) path(parts ...string) string {
	return filepath.Join(append([]string{m.dir}, parts...)...)
}

// lastWords returns the last lines of the log.
func (m *soakVM) lastWords() string {
	text, _ := os.ReadFile(m.path("log")) // it may not exist
	lines := slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool {
		return strings.Contains(line, `"QMP command of a user"`) // sent by this test
	})
	return strings.Join(lines[max(0, len(lines)-80):], "\n")
}

// configure writes the configuration and the password file.
func (m *soakVM) configure(w wish, fault string, how manner) error {
	medium := ""
	if w.medium != "" {
		medium = ", file: " + w.medium
	}
	text := fmt.Sprintf(`"/Runner":
  dataDir: data
  runtimeDir: run
  vmType: standard
  vm:
    name: soak
    accelerator: tcg
    firmware: bios
    useTpm: true
    maximumCpus: 4
    currentCpus: %d
    maximumRam: 256 MiB
    currentRam: %d MiB
    bootMenu: %t
    rtcBase: %s
    powerdownTimeout: %d
    network: []
    drives: [{type: ide-cd%s}, {type: ide-cd, file: c.iso}] # so that QEMU may read that folder always
    display: {vnc: {}, loggedInUser: %q}
    kernel: {image: %q, initrd: %q, commandLine: %q}
%s`, w.cpus, w.ram/mib, w.bootMenu, w.rtcBase, w.timeout, medium, w.user, m.image.Kernel, m.image.Initrd,
		guest.CommandLine, fault)
	m.edits++
	err := how(m, "display-password", w.password)
	if err == nil {
		err = how(m, "config.yaml", text)
	}
	return err
}

// run starts the program and returns when the guest runs, or returns the program's exit code when it ends before.
func (m *soakVM) run() (exit int, err error) {
	log, err := os.OpenFile(m.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	m.cmd = exec.Command(m.program, "run", "-c", m.path("config.yaml"), "--log-format", "json")
	m.cmd.Stdout, m.cmd.Stderr = log, log
	if err := m.cmd.Start(); err != nil {
		return 0, err
	}
	m.ended = make(chan struct{})
	go func(cmd *exec.Cmd, ended chan struct{}) {
		defer close(ended)
		_ = cmd.Wait() // its state contains the result
	}(m.cmd, m.ended)
	for end := wait.Deadline(); time.Now().Before(end); {
		select {
		case <-m.ended:
			return m.exit()
		case <-time.After(10 * time.Millisecond):
		}
		ok, err := m.connect()
		if ok || err != nil {
			return 0, err
		}
	}
	return 0, errors.New("the VM does not start")
}

// connect reports whether the control interface exists and the guest is running. If so, it starts to read the guest's
// console.
func (m *soakVM) connect() (bool, error) {
	ctx, cancel := wait.Context(m.t.Context())
	defer cancel()
	var err error
	if m.client, err = control.Dial(ctx, m.path("run", control.SocketName)); err != nil {
		return false, nil
	}
	s, err := m.client.Status(ctx)
	if err != nil || !s.State.Active() || s.Runner.PID != m.cmd.Process.Pid {
		return false, nil // it is starting, or it is the end of the previous program
	}
	conn, err := m.client.Console(ctx, control.Watch)
	if err != nil {
		return false, fmt.Errorf("open the console: %w", err)
	}
	boots := new(atomic.Int64)
	m.boots = boots
	go func() {
		defer conn.Close()
		ready := regexp.MustCompile(`^TINY \S+ READY\s*$`)
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			if ready.MatchString(lines.Text()) {
				boots.Add(1)
			}
		}
	}()
	return true, nil
}

// exit returns the exit code of the program, or the negative number of a signal.
func (m *soakVM) exit() (int, error) {
	select {
	case <-m.ended:
	case <-time.After(wait.Longest):
		return 0, errors.New("vmrunner does not end")
	}
	state := m.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if state.Signaled() {
		return -int(state.Signal()), nil
	}
	return state.ExitStatus(), nil
}

// look returns the state of the VM according to the control interface, QEMU and the guest.
func (m *soakVM) look() (s seen, err error) {
	ctx, cancel := wait.Context(m.t.Context())
	defer cancel()
	if s.status, err = m.client.Status(ctx); err != nil {
		return s, err
	}
	var slots []struct {
		Path string `json:"qom-path"`
	}
	if err = m.ask(ctx, "query-hotpluggable-cpus", &slots); err != nil {
		return s, err
	}
	for _, slot := range slots {
		if slot.Path != "" {
			s.cpus++
		}
	}
	var blocks []struct {
		Qdev     string `json:"qdev"`
		TrayOpen bool   `json:"tray_open"`
		Inserted *struct{ File string }
	}
	if err = m.ask(ctx, "query-block", &blocks); err != nil {
		return s, err
	}
	for _, b := range blocks {
		if strings.Contains(b.Qdev, "cd0") && b.Inserted != nil && !b.TrayOpen {
			s.medium = filepath.Base(b.Inserted.File)
		}
	}
	s.boots = int(m.boots.Load())
	return s, nil
}

func (m *soakVM) ask(ctx context.Context, command string, into any) error {
	reply, err := m.client.QMP(ctx, qmp.Command{Execute: command})
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	return json.Unmarshal(reply, into)
}

func (m *soakVM) metrics() (string, error) {
	ctx, cancel := wait.Context(m.t.Context())
	defer cancel()
	var text bytes.Buffer
	err := m.client.Metrics(ctx, &text)
	return text.String(), err
}
