package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/invariants"
)

// Whoever removes the files that are locked gets neither a second runner nor a second
// QEMU.
func TestRemovedLocksLetNoSecondMachineIn(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 0")
	remove := func() {
		for _, name := range []string{"lock", "runner.lock"} {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "data", name)))
		}
	}
	first := start(t, dir, nil)
	first.await(`booting`)
	qemu := invariants.OneQEMU(t, dir)
	remove()
	second := start(t, dir, nil)
	require.Equal(t, 3, second.exit())
	require.Contains(t, second.out.String(), "vmrunner: the VM runs already: ")

	remove() // what the second made
	first.kill()
	third := start(t, dir, nil)
	third.await(`INF adopted`)
	require.Equal(t, qemu, invariants.OneQEMU(t, dir))
	third.signal(syscall.SIGTERM)
	require.Zero(t, third.exit())
	invariants.NothingLeft(t, dir)
}

// spoilt returns a text that stands for the record of a running machine, and is wrong.
func spoilt(t *testing.T, how, text string) string {
	t.Helper()
	changed := func(change func(fields map[string]any)) string {
		fields := map[string]any{}
		require.NoError(t, json.Unmarshal([]byte(text), &fields))
		change(fields)
		out, err := json.Marshal(fields)
		require.NoError(t, err)
		return string(out)
	}
	switch how {
	case "empty":
		return ""
	case "truncated":
		return text[:len(text)/2]
	case "garbage":
		return "\x00\xffno JSON"
	case "newer":
		return changed(func(fields map[string]any) { fields["version"], fields["more"] = 99, "unknown" })
	case "stale":
		return changed(func(fields map[string]any) { fields["qemu"] = map[string]int{"pid": 1 << 22, "start": 1} })
	}
	require.Fail(t, how)
	return ""
}

// A guest that runs is not ended because the record of its machine is wrong: QEMU is found
// by the lock and its monitor, and the record is made again.
func TestAWrongRecordIsRebuilt(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"empty", "truncated", "garbage", "newer", "stale", "removed", "forgotten"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir := folder(t, "bare", "powerdownTimeout: 0",
				"options: {helper: {program: /bin/sleep, arguments: ['1000']}}")
			qemu := orphan(t, dir)
			before := invariants.Processes(t, dir)
			uuid, err := os.ReadFile(filepath.Join(dir, "data", "uuid.txt"))
			require.NoError(t, err)
			path := filepath.Join(dir, "run", "machine.json")
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			switch how {
			case "forgotten": // as if the guest had never run
				require.NoError(t, os.Remove(filepath.Join(dir, "data", "runtime")))
				fallthrough
			case "removed":
				require.NoError(t, os.Remove(path))
			default:
				require.NoError(t, os.WriteFile(path, []byte(spoilt(t, how, string(text))), 0o600))
			}
			second := start(t, dir, nil)
			second.await(`WRN the record of the machine .*made again`)
			second.await(`INF adopted`)
			require.Equal(t, qemu, invariants.OneQEMU(t, dir))
			require.Equal(t, before["sleep"], invariants.Processes(t, dir)["sleep"])
			require.Equal(t, strings.TrimSpace(string(uuid)), known(t, dir).UUID)
			second.kill()

			third := start(t, dir, nil) // by the new record
			third.await(`INF adopted`)
			require.NotContains(t, third.out.String(), "WRN")
			third.signal(syscall.SIGTERM)
			require.Zero(t, third.exit())
			invariants.NothingLeft(t, dir)
		})
	}
}

// Where the record can't be made again, because the configuration is another now, the
// guest keeps running, and the error says what to do.
func TestAGuestThatCannotBeAdoptedKeepsRunning(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 0", "options: {arguments: [['-smbios', 'type=1,serial=old']]}")
	qemu := orphan(t, dir)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run", "machine.json"), nil, 0o600))
	rewrite(t, dir, "serial=old", "serial=new")
	second := start(t, dir, nil)
	require.Equal(t, 1, second.exit())
	require.Regexp(t, `the VM is running \(process \d+, name test, uuid [0-9a-f-]+, status running\), but cannot be `+
		`adopted: .*machine.json.*its configuration is not the one that it was started with`, second.out.String())
	require.Equal(t, qemu, invariants.OneQEMU(t, dir))

	rewrite(t, dir, "serial=new", "serial=old") // as the error says
	third := start(t, dir, nil)
	third.await(`INF adopted`)
	require.Equal(t, qemu, invariants.OneQEMU(t, dir))
	third.signal(syscall.SIGTERM)
	require.Zero(t, third.exit())
	invariants.NothingLeft(t, dir)
}

// A machine whose runtime directory has become read-only is looked after all the same.
func TestMachineOnAReadOnlyRuntimeDirectory(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 0")
	qemu := orphan(t, dir)
	run := filepath.Join(dir, "run")
	require.NoError(t, syscall.Mount(run, run, "", syscall.MS_BIND, ""), "this test needs root")
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(run, 0)) })
	require.NoError(t, syscall.Mount("", run, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""))
	second := start(t, dir, nil)
	second.await(`INF adopted`)
	require.Equal(t, qemu, invariants.OneQEMU(t, dir))
	second.signal(syscall.SIGTERM)
	second.exit()
	invariants.NoProcess(t, dir)
	require.NotContains(t, strings.ToLower(second.out.String()), "panic")
}
