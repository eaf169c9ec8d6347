package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/invariants"
)

// Removing the lock files does not allow a second runner or a second QEMU.
func TestRemovedLocksLetNoSecondMachineIn(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 0")
	remove := func() {
		for _, name := range []string{"lock", "runner.lock"} {
			require.NoError(t, os.RemoveAll(filepath.Join(dir, "data", name)))
		}
	}
	first := booted(t, dir)
	qemu := invariants.OneQEMU(t, dir)
	remove()
	second := start(t, dir, nil)
	require.Equal(t, 3, second.exit())
	require.Contains(t, second.out.String(), "vmrunner: the VM runs already: ")

	remove() // files of the second runner
	first.kill()
	third := adopted(t, dir)
	require.Equal(t, qemu, invariants.OneQEMU(t, dir))
	third.stops(dir)
}

// spoilt returns a text with an invalid version of the record of a running machine.
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
	case "stale", "stale, in another network":
		return changed(func(fields map[string]any) { fields["qemu"] = map[string]int{"pid": 1 << 22, "start": 1} })
	}
	require.Fail(t, how)
	return ""
}

// A running guest is not ended because the record of its machine is invalid: QEMU is found through the lock, and the
// record is created again.
func TestAWrongRecordIsRebuilt(t *testing.T) {
	t.Parallel()
	for _, how := range []string{
		"empty", "truncated", "garbage", "newer", "stale", "stale, in another network", "removed", "forgotten",
	} {
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
			said, err := exec.CommandContext(t.Context(), "vmrunner", "status", "--runtime-dir",
				filepath.Join(dir, "run")).CombinedOutput()
			require.Error(t, err)
			require.Contains(t, string(said), fmt.Sprintf("the VM is running (QEMU is process %d)", qemu))
			second := newProgram(t, dir, nil)
			if strings.HasSuffix(how, "network") { // the names of sockets differ
				second.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
			}
			second.launch()
			second.await(`WRN the record of the machine .*created again`)
			second.await(`INF adopted`)
			require.Equal(t, qemu, invariants.OneQEMU(t, dir))
			require.Equal(t, before["sleep"], invariants.Processes(t, dir)["sleep"])
			require.Equal(t, strings.TrimSpace(string(uuid)), known(t, dir).UUID)
			second.kill()

			third := start(t, dir, nil) // with the new record
			third.await(`INF adopted`)
			require.NotContains(t, third.out.String(), "WRN")
			third.stops(dir)
		})
	}
}

// If the record can't be created again because the configuration has changed, the guest keeps running, and the error
// suggests what to do.
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

	rewrite(t, dir, "serial=new", "serial=old") // as the error suggests
	third := adopted(t, dir)
	require.Equal(t, qemu, invariants.OneQEMU(t, dir))
	third.stops(dir)
}
