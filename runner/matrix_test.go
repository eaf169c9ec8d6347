package runner_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/control"
	"vmop/runner/machine"
	"vmop/runner/status"
	"vmop/test/guest"
	"vmop/test/invariants"
	"vmop/test/wait"
	"vmop/vmstatus"
)

// The rows of the fault matrix (test/faults) about a VM's processes and files. Package test/invariants and the methods
// here check the conditions that always hold.

// status returns the VM's status from the runner.
func (v *vm) status() status.Status {
	v.t.Helper()
	s, err := v.client().Status(v.t.Context())
	require.NoError(v.t, err)
	return s
}

// condition returns a condition of the VM: its status and its reason.
func (v *vm) condition(c vmstatus.ConditionType) string {
	v.t.Helper()
	is := v.status().Condition(c)
	return fmt.Sprintf("%s %s", is.Status, is.Reason)
}

// lives requires that the guest still runs in the same QEMU, and that the status reports this.
func (v *vm) lives(pid int) {
	v.t.Helper()
	require.Equal(v.t, pid, invariants.OneQEMU(v.t, v.dir))
	s := v.status()
	require.Equal(v.t, pid, s.QEMU.PID)
	require.Equal(v.t, "running", s.QEMU.RunState)
	require.Equal(v.t, vmstatus.True, s.Condition(vmstatus.ConditionRunning).Status)
}

// lastWord returns a function that waits for the end of the VM, and returns the last published status.
func (v *vm) lastWord() func() status.Status {
	v.t.Helper()
	events, err := v.client().Events(v.t.Context(), control.TypeStatus)
	require.NoError(v.t, err)
	v.t.Cleanup(events.Close)
	return func() (last status.Status) {
		v.t.Helper()
		for {
			e, err := events.Next()
			if errors.Is(err, io.EOF) {
				return last
			}
			require.NoError(v.t, err)
			last = *e.Status
		}
	}
}

// fails requires that the VM can't be started, that the error contains all parts, and that the attempt leaves no files
// or processes.
func (v *vm) fails(parts ...string) {
	v.t.Helper()
	v.start()
	_, err := v.wait()
	for _, part := range parts {
		require.ErrorContains(v.t, err, strings.ReplaceAll(part, "PATH", v.dir))
	}
	require.NotContains(v.t, err.Error(), "clean up")
	require.Len(v.t, v.log.find("starting"), 1, "it is tried only once")
	v.notLogged("booting")
	invariants.NothingLeft(v.t, v.dir)
}

// whole returns a VM with everything that must not be lost.
func whole(t *testing.T, more ...string) *vm {
	t.Helper()
	v := newVM(t, "standard")
	invariants.NewDisk(t, v.path("disk.qcow2"), "precious")
	v.configure("standard", nil, append([]string{
		"accelerator: tcg", "firmware: uefi-4m", "useTpm: true", "network: []",
		"drives: [{file: PATH/disk.qcow2, format: qcow2}]",
	}, more...)...)
	return v
}

// kept requires that the VM of whole has left exactly the persistent files.
func (v *vm) kept() {
	v.t.Helper()
	invariants.NothingLeft(v.t, v.dir)
	invariants.WholeDisk(v.t, v.path("disk.qcow2"), "precious")
	require.Len(v.t, invariants.Files(v.t, v.path("data")), 3)
	info, err := os.Stat(v.path("data", "fw-vars.fd"))
	require.NoError(v.t, err)
	require.EqualValues(v.t, flashSize, info.Size())
}

// flashSize is the size of the variables of uefi-4m, in bytes.
const flashSize = 540672

func TestFault04QEMUIsKilled(t *testing.T) {
	t.Parallel()
	for sig, code := range map[syscall.Signal]int{syscall.SIGKILL: 137, syscall.SIGSEGV: 139} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			v := whole(t)
			v.runs()
			require.Contains(t, v.processes(), "swtpm")
			last := v.lastWord()
			require.NoError(t, syscall.Kill(invariants.OneQEMU(t, v.dir), sig))
			outcome, err := v.wait()
			require.NoError(t, err)
			require.Equal(t, vmstatus.CauseKilled, outcome.Cause)
			require.Equal(t, code, outcome.ExitCode())
			v.logged("stopped", "outcome", fmt.Sprintf("killed, QEMU: killed by signal %d", sig))
			s := last()
			require.Equal(t, vmstatus.StateStopped, s.State)
			require.Equal(t, code, s.Outcome.ExitCode)
			require.Equal(t, vmstatus.False, s.Condition(vmstatus.ConditionRunning).Status)
			v.kept()
		})
	}
}

func TestFault05QEMURefusesItsArguments(t *testing.T) {
	t.Parallel()
	v := newVM(t, "bare", "options: {arguments: [[-device, flux-capacitor]]}")
	v.fails(
		"qemu ended while the VM was being started: exit status 1",
		"-device flux-capacitor: 'flux-capacitor' is not a valid device model name",
		"the option -device flux-capacitor\n  was made at bare.star:",
	)
}

// helperTPM replaces swtpm with a script. It returns the line for the vm section.
func (v *vm) helperTPM(script string) string {
	v.t.Helper()
	v.write("tpm", script)
	return "options: {helper: {program: /bin/sh, arguments: [PATH/tpm], tpm: true}}"
}

func TestFault07TheTPMEndsBeforeQEMU(t *testing.T) {
	t.Parallel()
	t.Run("at once", func(t *testing.T) {
		t.Parallel()
		v := newVM(t, "bare")
		v.configure("bare", nil, v.helperTPM("echo tpm: no random numbers here >&2; exit 5"))
		v.fails("qemu ended while the VM was being started: exit status 1", "helper ended, too: exit status 5",
			"tpm: no random numbers here")
	})
	t.Run("because its state is torn", func(t *testing.T) {
		t.Parallel()
		v := whole(t)
		v.runs()
		v.signal(qemuProgram, syscall.SIGKILL)
		_, err := v.wait()
		require.NoError(t, err)
		state := v.path("data", "tpm2-00.permall")
		require.NoError(t, os.Truncate(state, 100))
		before := invariants.Files(t, v.path("data"))
		v.log = newLogbook()
		v.fails("qemu ended while the VM was being started: exit status 1", "tpm-emulator: TPM result for CMD_INIT",
			"\nthe state of the TPM is damaged: replace PATH/data/tpm/tpm2-00.permall with a backup, or move it away "+
				"to create a new TPM, which contains no secrets of the old TPM")
		require.Equal(t, before, invariants.Files(t, v.path("data")), "what is damaged is left for a repair")
		v.kept()
	})
}

func TestFault09TheTPMHangs(t *testing.T) {
	t.Parallel()
	v := newVM(t, "bare")
	v.bootTime = 5 * time.Second
	v.configure("bare", nil, v.helperTPM("kill -STOP $$"))
	v.fails("QEMU did not answer within 5s; does it wait for helper (process ")
}

func TestFault17TheGuestIsDeaf(t *testing.T) {
	t.Parallel()
	t.Run("to the power button", func(t *testing.T) {
		t.Parallel()
		section := obedient(t, false)
		section[4] = "powerdownTimeout: 2"
		v := newVM(t, "standard", section...)
		c := attach(v)
		v.runs()
		c.Await(guest.ObedientSays)
		c.Type("D")
		c.Await(`^D$`)
		last := v.lastWord()
		outcome, err := v.stop()
		require.NoError(t, err)
		c.Await(guest.ObedientHears)
		require.Equal(t, machine.Outcome{Cause: vmstatus.CauseForced, Reason: "host-qmp-quit"}, outcome.Outcome)
		require.Zero(t, outcome.ExitCode())
		require.Equal(t, vmstatus.CauseForced, last().Outcome.Cause)
		v.notLogged("stopping", "method", "SIGTERM")
		v.nothingLeft()
	})
	t.Run("and QEMU to everything", func(t *testing.T) {
		t.Parallel()
		v := whole(t, "powerdownTimeout: 1")
		v.runs()
		last := v.lastWord()
		require.NoError(t, syscall.Kill(invariants.OneQEMU(t, v.dir), syscall.SIGSTOP))
		outcome, err := v.stop()
		require.NoError(t, err)
		require.Equal(t, vmstatus.CauseForced, outcome.Cause)
		require.Equal(t, syscall.SIGKILL, outcome.Exit.Signal)
		require.Equal(t, 137, outcome.ExitCode())
		for _, method := range []string{"ACPI power button", "QMP quit", "SIGTERM", "SIGKILL"} {
			v.logged("stopping", "method", method)
		}
		require.Equal(t, vmstatus.CauseForced, last().Outcome.Cause)
		v.kept()
	})
}

// smallDisk mounts a file system of some KiB at a folder of the VM.
func (v *vm) smallDisk(name, size string) {
	v.t.Helper()
	dir := v.path(name)
	require.NoError(v.t, os.Mkdir(dir, 0o700))
	require.NoError(v.t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size), "mount a tmpfs (this test needs root)")
	v.t.Cleanup(func() { require.NoError(v.t, syscall.Unmount(dir, 0)) })
}

// moved moves a directory of the VM within its folder.
func (v *vm) moved(from, to string) {
	v.t.Helper()
	text := v.read("config.yaml")
	require.Contains(v.t, text, from)
	v.write("config.yaml", strings.ReplaceAll(text, from, to))
}

func TestFault25NoSpaceLeft(t *testing.T) {
	t.Parallel()
	t.Run("for the disk of cloud-init", func(t *testing.T) {
		t.Parallel()
		v := newVM(t, "standard")
		v.smallDisk("small", "64k")
		data := []string{"cloudInit:", "  userData: {text: " + strings.Repeat("x", 100<<10) + "}"}
		v.configure("standard", data, "accelerator: tcg", "firmware: uefi-4m", "network: []")
		v.moved("runtimeDir: run", "runtimeDir: small/run")
		v.fails("PATH/small/run/cloud-init.img", "no space left on device")
		v.notLogged("output", "process", "qemu")
		require.NoDirExists(t, v.path("small", "run"))
		require.NotEmpty(t, invariants.Files(t, v.path("data"))["uuid.txt"])
	})
	t.Run("for the firmware's variables", func(t *testing.T) {
		t.Parallel()
		v := newVM(t, "standard", "accelerator: tcg", "firmware: uefi-4m", "network: []")
		v.smallDisk("small", "64k")
		v.moved("dataDir: data", "dataDir: small/data")
		v.fails("make PATH/small/data/fw-vars.fd", "no space left on device")
		require.NoFileExists(t, v.path("small", "data", "fw-vars.fd"))
		uuid := v.read("small", "data", "uuid.txt")

		require.NoError(t, syscall.Mount("tmpfs", v.path("small"), "tmpfs", syscall.MS_REMOUNT, "size=1m"))
		v.log = newLogbook()
		v.runs()
		v.ends()
		require.Equal(t, uuid, v.read("small", "data", "uuid.txt"), "with space the VM starts, and is who it was")
	})
	t.Run("for how the VM ended", func(t *testing.T) {
		t.Parallel()
		v := newVM(t, "bare")
		v.smallDisk("small", "256k")
		v.moved("dataDir: data", "dataDir: small/data")
		v.runs()
		wait.Until(t, func() bool { _, err := os.Stat(v.path("small", "data", "ended.json")); return err == nil })
		require.ErrorIs(t, os.WriteFile(v.path("small", "full"), make([]byte, 1<<20), 0o600), syscall.ENOSPC)
		require.ErrorIs(t, os.WriteFile(v.path("small", "more"), []byte("x"), 0o600), syscall.ENOSPC)
		require.NoError(t, syscall.Kill(invariants.OneQEMU(t, v.dir), syscall.SIGKILL))
		_, err := v.wait()
		require.NoError(t, err)
		require.Contains(t, v.read("small", "data", "ended.json"), `"cause":"`+string(vmstatus.CauseKilled)+`"`)
	})
	t.Run("for who the VM is", func(t *testing.T) {
		t.Parallel()
		v := newVM(t, "bare")
		v.smallDisk("small", "8k")
		require.NoError(t, os.WriteFile(v.path("small", "full"), make([]byte, 8<<10), 0o600))
		v.moved("dataDir: data", "dataDir: small/data")
		v.start()
		_, err := v.wait()
		require.ErrorIs(t, err, syscall.ENOSPC)
		v.notLogged("starting")
		v.nothingLeft()
		require.NoFileExists(t, v.path("small", "data", "uuid.txt"))
	})
}

func TestFault29TheFirmwaresVariables(t *testing.T) {
	t.Parallel()
	v := whole(t)
	v.runs()
	v.ends()
	variables := v.path("data", "fw-vars.fd")
	backup := v.read("data", "fw-vars.fd")
	for what, size := range map[string]int64{"truncated": 64 << 10, "empty": 0, "of another size": 2 * flashSize} {
		require.NoError(t, os.Truncate(variables, size), what)
		before := invariants.Files(t, v.path("data"))
		v.log = newLogbook()
		v.fails("make PATH/data/fw-vars.fd: it has "+fmt.Sprint(size)+" bytes, and its template ",
			"no file was changed")
		require.Equal(t, before, invariants.Files(t, v.path("data")))
		others, err := filepath.Glob(variables + ".*")
		require.NoError(t, err)
		require.Equal(t, []string{variables + ".kind"}, others)
		require.NoError(t, os.WriteFile(variables, []byte(backup), 0o600))
	}
	v.log = newLogbook()
	v.runs()
	v.ends()
	v.kept()
}
