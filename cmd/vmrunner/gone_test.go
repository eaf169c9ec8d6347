package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/control"
	"vmop/test/guest"
	"vmop/test/invariants"
	"vmop/test/wait"
)

// answers waits until the runner of a folder answers, and returns its client.
func answers(t *testing.T, dir string) *control.Client {
	t.Helper()
	var client *control.Client
	wait.Until(t, func() bool {
		var err error
		if client, err = control.Dial(t.Context(), filepath.Join(dir, "run", control.SocketName)); err != nil {
			return false
		}
		_, err = client.Status(t.Context())
		return err == nil
	}, "the runner isn't reached again")
	return client
}

// If the runtime directory of a running VM is removed, it is created again: the runner can be reached, and through it
// QEMU, including console and screen. The same holds if only its contents are removed, and for the next runner if this
// runner is killed.
func TestARemovedRuntimeDirectoryIsMadeAgain(t *testing.T) {
	t.Parallel()
	dir := folder(t, "standard", append(obedient(t, true), "display: {vnc: {}}", "useTpm: true")...)
	run := filepath.Join(dir, "run")
	p := booted(t, dir)
	qemu := known(t, dir).QEMU.PID
	for range 2 {
		require.NoError(t, os.RemoveAll(run))
		p.await(`the runtime directory was removed while the VM is running, and was created again`)
		client := answers(t, dir)
		counts(t, client)
		screen, err := client.VNC(t.Context())
		require.NoError(t, err)
		greeting := make([]byte, 3)
		_, err = screen.Read(greeting)
		require.NoError(t, err)
		require.Equal(t, "RFB", string(greeting))
		require.NoError(t, screen.Close())
		require.Empty(t, known(t, dir).Problems)
	}
	entries, err := os.ReadDir(run)
	require.NoError(t, err)
	for _, e := range entries {
		require.NoError(t, os.RemoveAll(filepath.Join(run, e.Name())))
	}
	p.await(`was created again`)
	client := answers(t, dir)
	hangUp(t, qemu, filepath.Join(run, "monitor.sock"))
	p.await(`the connection with QEMU's monitor is broken`)
	counts(t, client)

	p.kill()
	next := adopted(t, dir)
	require.Equal(t, qemu, invariants.OneQEMU(t, dir))
	next.ends()
	require.NotContains(t, next.out.String(), "QMP quit")
	invariants.NothingLeft(t, dir)
}

// If the runtime directory is removed and the runner has ended, the next runner creates the directory and adopts the
// VM. The console is lost until the VM is started again, and the status reports this.
func TestAVMIsAdoptedWithoutItsRuntimeDirectory(t *testing.T) {
	t.Parallel()
	dir := folder(t, "standard", append(obedient(t, true), "display: {vnc: {}}")...)
	first := start(t, dir, nil, "--console")
	first.await(guest.ObedientSays)
	first.await(`(?m)^0000000a$`)
	qemu := known(t, dir).QEMU.PID
	first.kill()
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "run")))
	next := adopted(t, dir)
	require.Equal(t, qemu, known(t, dir).QEMU.PID)
	wait.Until(t, func() bool { return len(known(t, dir).Problems) > 0 })
	require.Contains(t, known(t, dir).Problems[0].Message, "console.sock")
	_, err := answers(t, dir).Console(t.Context(), control.Watch)
	require.ErrorContains(t, err, "it works again when the VM has been restarted")
	_, err = answers(t, dir).VNC(t.Context())
	require.ErrorContains(t, err, "vnc.sock was removed while the VM is running")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "run")))
	next.await(`was created again`)
	answers(t, dir)
	next.kill()
	third := adopted(t, dir)
	third.stops(dir)
}

// A paused guest that was reset looks to QEMU as if it had never run. It is still adopted.
func TestAPausedGuestThatWasResetIsAdopted(t *testing.T) {
	t.Parallel()
	dir := folder(t, "standard", obedient(t, true)...)
	first := start(t, dir, nil, "--console")
	first.await(guest.ObedientSays)
	client := dial(t, dir)
	require.NoError(t, client.Act(t.Context(), control.Pause))
	require.NoError(t, client.Act(t.Context(), control.Reset))
	wait.Until(t, func() bool {
		reply, err := client.QMP(t.Context(), qmp.Command{Execute: "query-status"})
		return err == nil && strings.Contains(string(reply), "prelaunch")
	})
	qemu := known(t, dir).QEMU.PID
	first.kill()
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "run")))
	next := adopted(t, dir)
	require.Equal(t, qemu, known(t, dir).QEMU.PID)
	next.kill()
	killAll(t, dir, next)
}

// If the data directory of a running VM is removed or renamed, no second VM can start with the same configuration, with
// or without a runner.
func TestNoSecondVMWithoutTheDataDirectory(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 0")
	data := filepath.Join(dir, "data")
	first := booted(t, dir)
	require.NoError(t, os.Rename(data, data+".old"))
	for _, alive := range []bool{true, false} {
		if !alive {
			first.kill()
		}
		second := start(t, dir, nil)
		require.Equal(t, 3, second.exit())
		require.Regexp(t, `vmrunner: the VM runs already: process \d+ still runs it, but its data directory .*/data was removed`,
			second.out.String())
		invariants.OneQEMU(t, dir)
	}
	require.NoError(t, os.RemoveAll(data))
	require.NoError(t, os.Rename(data+".old", data))
	third := adopted(t, dir)
	third.stops(dir)
}

// counts requires that the counting guest of a folder continues, as its console shows.
func counts(t *testing.T, client *control.Client) {
	t.Helper()
	conn, err := client.Console(t.Context(), control.Watch)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetReadDeadline(wait.Deadline()))
	lines := bufio.NewScanner(conn)
	for range 2 {
		require.True(t, lines.Scan(), "the guest says nothing: %v", lines.Err())
	}
}

// Ctrl-C during a start ends the starting VM, even if it can't start.
func TestCtrlCEndsAStart(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "options: {helper: {program: /bin/sleep, arguments: ['1000'], ready: PATH/never}}")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "config", "vmrunner"), 0o700))
	file := filepath.Join(dir, "config", "vmrunner", "test.yaml")
	require.NoError(t, os.Rename(filepath.Join(dir, "config.yaml"), file))
	types, err := filepath.Abs("../../runner/testdata/vmtypes")
	require.NoError(t, err)
	p := &program{t: t, out: newTranscript(), ended: make(chan struct{})}
	p.cmd = exec.CommandContext(t.Context(), "vmrunner", "start", "test", "--vmtypes", types)
	own := filepath.Join(dir, "xdg") // VMs of other tests have the same name
	require.NoError(t, os.Mkdir(own, 0o700))
	p.cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+filepath.Join(dir, "config"), "XDG_RUNTIME_DIR="+own)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.launch()
	wait.Until(t, func() bool { return len(invariants.Processes(t, dir)["sleep"]) == 1 })
	p.signal(syscall.SIGINT)
	require.Equal(t, 130, p.exit())
	require.Regexp(t, `(?s)ending test again; .*vmrunner: start test: the VM was ended again: signal interrupt`, p.out.String())
	invariants.NoProcess(t, dir)
}
