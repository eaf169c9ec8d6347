package main

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/control"
	"vmop/test/guest"
	"vmop/test/invariants"
	"vmop/test/tier"
	"vmop/test/wait"
)

// orphan starts a VM of the type bare in a folder and kills its runner. It
// returns QEMU's process number.
func orphan(t *testing.T, dir string) int {
	t.Helper()
	first := start(t, dir, nil)
	first.await(`booting`)
	first.kill()
	return invariants.OneQEMU(t, dir)
}

// The data directory has another name now: the machine is the same.
func TestMachineIsFoundByAnotherPath(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 0")
	qemu := orphan(t, dir)
	require.NoError(t, os.Symlink("data", filepath.Join(dir, "alias")))
	rewrite(t, dir, "dataDir: data", "dataDir: alias")
	second := start(t, dir, nil)
	second.await(`INF adopted`)
	require.Equal(t, qemu, invariants.OneQEMU(t, dir))
	second.signal(syscall.SIGTERM)
	require.Zero(t, second.exit())
	require.NoError(t, os.Remove(filepath.Join(dir, "alias")))
	invariants.NothingLeft(t, dir)
}

// A machine is what it was started as, whatever has become of the files that
// say what the next one is to be.
func TestMachineIsCarriedOnWithoutItsFiles(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 0")
	first := start(t, dir, nil)
	first.await(`booting`)
	before := known(t, dir)
	orphaned := invariants.OneQEMU(t, dir)
	first.kill()
	for _, name := range []string{"vmtype.txtar", "machines.txt", "uuid.txt"} {
		_ = os.Remove(filepath.Join(dir, "data", name)) // the first runner may not have come to write it
	}
	second := start(t, dir, nil)
	second.await(`INF adopted`)
	require.Equal(t, orphaned, invariants.OneQEMU(t, dir))
	require.Equal(t, before.UUID, known(t, dir).UUID)
	second.signal(syscall.SIGTERM)
	require.Zero(t, second.exit())
	invariants.NothingLeft(t, dir)
}

// Without its runtime directory and its pinned type a machine cannot be adopted; but its guest
// runs, and is not ended.
func TestMachineWithoutItsRuntimeDirectoryRunsOn(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 0")
	qemu := orphan(t, dir)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "run")))
	for _, name := range []string{"vmtype.txtar", "machines.txt"} { // they may have been kept already
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "data", name)))
	}
	second := start(t, dir, nil)
	require.Equal(t, 1, second.exit())
	require.Regexp(t, fmt.Sprintf(`the VM is running \(process %d, .*\), but cannot be adopted: its record `+
		`.*/run/machine.json is gone, and cannot be made again: the type of the VM that runs is gone, too: .*; shut the `+
		`guest down from inside, or end it \(kill %[1]d\), and start the VM again`, qemu), second.out.String())
	require.Equal(t, qemu, invariants.OneQEMU(t, dir))

	end(t, syscall.SIGTERM, qemu)
	invariants.NoProcess(t, dir)
	third := start(t, dir, nil)
	third.await(`booting`)
	third.signal(syscall.SIGTERM)
	require.Zero(t, third.exit())
	invariants.NothingLeft(t, dir)
}

// Two VMs in one runtime directory would take each other's sockets.
func TestRuntimeDirectoryOfAnotherVM(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 0")
	first := start(t, dir, nil)
	first.await(`booting`)
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
	first.signal(syscall.SIGTERM)
	require.Zero(t, first.exit())
	invariants.NothingLeft(t, dir)
}

// freeze stops QEMU until the function that is returned is called.
func freeze(t *testing.T, dir string) (thaw func()) {
	t.Helper()
	qemu, err := os.FindProcess(invariants.OneQEMU(t, dir))
	require.NoError(t, err)
	require.NoError(t, qemu.Signal(syscall.SIGSTOP))
	thaw = func() { _ = qemu.Signal(syscall.SIGCONT) } // it may have ended
	t.Cleanup(thaw)
	return thaw
}

// A guest whose QEMU stalls when it is to shut down keeps the time that it has
// for that.
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

// The word to end the VM without asking the guest outlives the runner.
func TestKillIsNotForgotten(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 3600")
	first := start(t, dir, nil)
	first.await(`booting`)
	thaw := freeze(t, dir)
	client, err := control.Dial(t.Context(), filepath.Join(dir, "run", control.SocketName))
	require.NoError(t, err)
	require.NoError(t, client.Act(t.Context(), control.Kill))
	first.kill()
	second := start(t, dir, nil)
	second.await(`stopping.*QMP quit`)
	thaw()
	require.Zero(t, second.exit())
	require.NotContains(t, second.out.String(), "ACPI")
	invariants.NothingLeft(t, dir)
}

// readOnly makes a folder read-only until the test ends, as the kernel does to a file
// system with faults.
func readOnly(t *testing.T, folder string) {
	t.Helper()
	require.NoError(t, syscall.Mount(folder, folder, "", syscall.MS_BIND, ""), "this test needs root")
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(folder, 0)) })
	require.NoError(t, syscall.Mount("", folder, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""))
}

// The file system of the data directory has become read-only: the VM that runs
// there is looked after.
func TestMachineOnAReadOnlyDataDirectory(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 0")
	qemu := orphan(t, dir)
	readOnly(t, filepath.Join(dir, "data"))
	second := start(t, dir, nil)
	second.await(`INF adopted`)
	require.Equal(t, qemu, invariants.OneQEMU(t, dir))
	third := start(t, dir, nil)
	require.Equal(t, 3, third.exit(), "the lock holds")
	second.signal(syscall.SIGTERM)
	require.Zero(t, second.exit())
	invariants.NoProcess(t, dir)
}

// A pause is the user's, not the runner's.
func TestPauseOutlivesTheRunner(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 0")
	first := start(t, dir, nil)
	first.await(`booting`)
	act := func(what control.Action) {
		client, err := control.Dial(t.Context(), filepath.Join(dir, "run", control.SocketName))
		require.NoError(t, err)
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
	second.signal(syscall.SIGTERM)
	require.Zero(t, second.exit())
	invariants.NothingLeft(t, dir)
}
