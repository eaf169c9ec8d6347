package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/control"
	"vmop/test/guest"
	"vmop/test/invariants"
	"vmop/test/tier"
	"vmop/test/wait"
)

// orphan starts a VM of the type bare in a folder and kills its runner. It returns QEMU's process ID.
func orphan(t *testing.T, dir string) int {
	t.Helper()
	first := booted(t, dir)
	first.kill()
	return invariants.OneQEMU(t, dir)
}

// Without its runtime directory and its pinned type, a machine cannot be adopted. Its guest keeps running.
func TestMachineWithoutItsRuntimeDirectoryRunsOn(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 0")
	qemu := orphan(t, dir)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "run")))
	for _, name := range []string{"vmtype.txtar", "machines.txt"} { // they may already be stored
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "data", name)))
	}
	second := start(t, dir, nil)
	require.Equal(t, 1, second.exit())
	require.Regexp(t, fmt.Sprintf(`the VM is running \(process %d, .*\), but cannot be adopted: its record `+
		`.*/run/machine.json is gone, and cannot be created again: the type of the running VM is also gone: .*; shut the `+
		`guest down from inside, or end it \(kill %[1]d\), and start the VM again`, qemu), second.out.String())
	require.Equal(t, qemu, invariants.OneQEMU(t, dir))

	end(t, syscall.SIGTERM, qemu)
	invariants.NoProcess(t, dir)
	third := booted(t, dir)
	third.stops(dir)
}

// Two VMs can't share a runtime directory, because they would use the same sockets.
func TestRuntimeDirectoryOfAnotherVM(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 0")
	first := booted(t, dir)
	other := folder(t, "bare", "powerdownTimeout: 0")
	rewrite(t, other, "runtimeDir: run", "runtimeDir: "+filepath.Join(dir, "run"))
	second := start(t, other, nil)
	require.Equal(t, 1, second.exit())
	require.Contains(t, second.out.String(), filepath.Join(dir, "run")+
		" is the runtime directory of another VM, which runs, with its data in "+filepath.Join(dir, "data"))
	require.Equal(t, "running", known(t, dir).QEMU.RunState)

	require.NoError(t, os.Truncate(filepath.Join(dir, "run", "machine.json"), 0))
	third := start(t, other, nil)
	require.Equal(t, 1, third.exit())
	require.Contains(t, third.out.String(), fmt.Sprintf("%s is the runtime directory of another VM, which runs (process %d)",
		filepath.Join(dir, "run"), invariants.OneQEMU(t, dir)))
	require.Equal(t, "running", known(t, dir).QEMU.RunState)
	first.stops(dir)
}

// freeze stops QEMU until thaw is called.
func freeze(t *testing.T, dir string) (thaw func()) {
	t.Helper()
	qemu, err := os.FindProcess(invariants.OneQEMU(t, dir))
	require.NoError(t, err)
	require.NoError(t, qemu.Signal(syscall.SIGSTOP))
	thaw = func() { _ = qemu.Signal(syscall.SIGCONT) } // it may have ended
	t.Cleanup(thaw)
	return thaw
}

// If QEMU stalls during a shutdown, the guest keeps its full time to shut down.
func TestStalledQEMUIsNotEndedBeforeItsTime(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	dir := folder(t, "standard", obedient(t, false)...)
	p := start(t, dir, nil, "--console")
	p.await(guest.ObedientSays)
	thaw := freeze(t, dir)
	p.signal(syscall.SIGTERM)
	p.await(`WRN stopping.*method="ACPI power button".*no answer in time`)
	thaw()
	require.Zero(t, p.exit())
	require.NotContains(t, p.out.String(), "QMP quit")
	require.Contains(t, p.out.String(), guest.ObedientHears)
	invariants.NothingLeft(t, dir)
}

// A request to end the VM without asking the guest outlives the runner.
func TestKillIsNotForgotten(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 3600")
	first := booted(t, dir)
	thaw := freeze(t, dir)
	client := dial(t, dir)
	require.NoError(t, client.Act(t.Context(), control.Kill))
	first.kill()
	second := start(t, dir, nil)
	second.await(`stopping.*QMP quit`)
	thaw()
	require.Zero(t, second.exit())
	require.NotContains(t, second.out.String(), "ACPI")
	invariants.NothingLeft(t, dir)
}

// readOnly makes a folder read-only until the test ends, as the kernel does after file system errors.
func readOnly(t *testing.T, folder string) {
	t.Helper()
	require.NoError(t, syscall.Mount(folder, folder, "", syscall.MS_BIND, ""), "this test needs root")
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(folder, 0)) })
	require.NoError(t, syscall.Mount("", folder, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""))
}

// A machine is adopted as it was started, even if its folders or the files for its next start have changed or are
// missing. Its lock holds.
func TestAMachineIsAdoptedWhateverHasBecomeOfItsFolders(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(t *testing.T, dir string){
		"the data directory has another name": func(t *testing.T, dir string) {
			require.NoError(t, os.Symlink("data", filepath.Join(dir, "alias")))
			rewrite(t, dir, "dataDir: data", "dataDir: alias")
		},
		"files are gone": func(t *testing.T, dir string) {
			for _, name := range []string{"vmtype.txtar", "machines.txt", "uuid.txt"} {
				_ = os.Remove(filepath.Join(dir, "data", name)) // the first runner may not have written it
			}
		},
		"the data directory is read-only":    func(t *testing.T, dir string) { readOnly(t, dir+"/data") },
		"the runtime directory is read-only": func(t *testing.T, dir string) { readOnly(t, dir+"/run") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := folder(t, "bare", "powerdownTimeout: 0")
			first := booted(t, dir)
			before := known(t, dir)
			first.kill()
			change(t, dir)
			second := adopted(t, dir)
			require.Equal(t, before.QEMU.PID, invariants.OneQEMU(t, dir))
			if name != "the runtime directory is read-only" { // without the directory there is no control socket
				require.Equal(t, before.UUID, known(t, dir).UUID)
			}
			require.Equal(t, 3, start(t, dir, nil).exit())
			second.signal(syscall.SIGTERM)
			second.exit() // it can't remove a read-only directory
			invariants.NoProcess(t, dir)
			require.NotContains(t, strings.ToLower(second.out.String()), "panic")
		})
	}
}

// A paused VM stays paused when its runner is killed.
func TestPauseOutlivesTheRunner(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 0")
	first := booted(t, dir)
	act := func(what control.Action) {
		client := dial(t, dir)
		require.NoError(t, client.Act(t.Context(), what))
	}
	noted := func() string {
		text, err := os.ReadFile(filepath.Join(dir, "run", "runner.json"))
		require.NoError(t, err)
		return string(text)
	}
	act(control.Pause)
	first.kill()
	second := start(t, dir, nil)
	second.await(`configuration read|INF adopted`)
	wait.Until(t, func() bool { return known(t, dir).QEMU.RunState == "paused" })
	require.Contains(t, noted(), `"paused":true`)
	act(control.Resume)
	require.NotContains(t, noted(), "paused")
	wait.Until(t, func() bool { return known(t, dir).QEMU.RunState == "running" })
	second.stops(dir)
}
