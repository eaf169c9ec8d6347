package runner_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/control"
	"vmop/runner/machine"
	"vmop/runner/status"
	"vmop/test/guest"
	"vmop/test/invariants"
	"vmop/test/tier"
	"vmop/test/wait"
	"vmop/vmstatus"
)

// The rows of the fault matrix about a running machine, by number. `make faults` collects TestFaultNN….

// has reports whether the status contains a problem with a reason and a text.
func has(s status.Status, reason vmstatus.Reason, text string) bool {
	for _, p := range s.Problems {
		if p.Reason == reason && strings.Contains(p.Message, text) {
			return true
		}
	}
	return false
}

// with adds arguments to QEMU's command line. It returns the line for the vm section.
func (v *vm) with(words ...string) string {
	v.t.Helper()
	path, err := exec.LookPath(qemuProgram)
	require.NoError(v.t, err, "install the Debian package qemu-system-x86")
	v.program("#!/bin/sh\nexec " + path + " \"$@\" " + strings.Join(words, " ") + "\n")
	return "options: {qemu: " + v.path("bin", "qemu") + "}"
}

// sector writes a disk with a program of the 8086 in its boot sector.
func (v *vm) sector(name string, code ...byte) {
	v.t.Helper()
	disk := make([]byte, 1<<20)
	copy(disk, code)
	disk[510], disk[511] = 0x55, 0xaa
	require.NoError(v.t, os.WriteFile(v.path(name), disk, 0o600))
}

// The TPM's process dies: the guest keeps running, a reset is refused because it would end QEMU, and the VM stops
// gracefully as usual.
func TestFault08TPMDies(t *testing.T) {
	t.Parallel()
	section := append(obedient(t, false), "useTpm: true")
	v := newVM(t, "standard", section...)
	c := attach(v)
	v.runs()
	c.Await(guest.ObedientSays)
	s := v.becomes("the TPM is there", func(s status.Status) bool { return s.TPM == status.TPMWorks })
	require.Equal(t, vmstatus.ReasonTPMPresent, s.Condition(vmstatus.ConditionTPMLost).Reason)

	v.signal("swtpm", syscall.SIGKILL)
	v.log.await(t, v.ended, "a helper ended while the VM runs", "process", "swtpm")
	err := v.client().Act(t.Context(), control.Reset)
	require.ErrorContains(t, err, "the VM cannot be reset because its TPM is lost")
	s = v.becomes("the TPM is lost", func(s status.Status) bool {
		return s.Condition(vmstatus.ConditionTPMLost).Status == vmstatus.True
	})
	require.True(t, has(s, "TPMLost", "swtpm has ended: "), s.Problems)
	require.Equal(t, vmstatus.True, s.Condition(vmstatus.ConditionReady).Status)
	v.configure("standard", []string{"resetCounter: 1"}, section...)
	v.log.await(t, v.ended, "configuration read")
	v.configure("standard", []string{"resetCounter: 2"}, section...)
	v.becomes("the reset is refused", func(s status.Status) bool {
		return len(s.Problems) > 0 && s.Problems[0].Path == "resetCounter" && strings.Contains(s.Problems[0].Message,
			"TPM is lost")
	})
	c.Type("ping")
	c.Await(`^PING`)
	v.notLogged("QMP event", "event", "RESET")

	outcome, err := v.stop()
	require.NoError(t, err)
	require.Equal(t, vmstatus.CauseAsked, outcome.Cause)
	require.Equal(t, "guest-shutdown", outcome.Reason)
	require.Zero(t, outcome.ExitCode())
	v.nothingLeft()
}

// A guest that reboots without its TPM keeps its QEMU: the runner starts another TPM process for QEMU to control, and
// restarts it when it dies. The guest prints a letter when it boots, and reboots when something is typed.
func TestFault08GuestRebootsWithoutTPM(t *testing.T) {
	t.Parallel()
	v := newVM(t, "standard")
	v.sector(
		"disk.img",
		0xba, 0xf8, 0x03, // mov dx, 0x3f8  the serial console
		0xb0, 'B', //        mov al, 'B'
		0xee,       //       out dx, al
		0xb0, '\n', //      mov al, newline
		0xee,             // out dx, al
		0xba, 0xfd, 0x03, // mov dx, 0x3fd  the state of the serial console
		0xec,       //       in al, dx
		0xa8, 0x01, //       test al, 1     something has come
		0x74, 0xfb, //       jz back to in
		0xba, 0xf9, 0x0c, // mov dx, 0xcf9  the chip set's reset
		0xb0, 0x06, //       mov al, 6
		0xee,       //       out dx, al
		0xf4,       //       hlt
		0xeb, 0xfd, //       jmp back to it
	)
	v.configure("standard", nil, "accelerator: tcg", "firmware: bios", "network: []", "maximumRam: 64 MiB",
		"useTpm: true", "powerdownTimeout: 1",
		"drives: [{file: disk.img, bootindex: 1}]")
	c := attach(v)
	v.runs()
	c.Await(`B$`)
	qemu := invariants.OneQEMU(t, v.dir)
	for i := range 2 {
		v.signal("swtpm", syscall.SIGKILL)
		wait.Until(t, func() bool {
			return len(v.log.find("the TPM's process was started again: the guest has no TPM, but may reboot")) == i+1
		})
		c.Type("x")
		c.Await(`B$`)
	}
	require.Equal(t, qemu, invariants.OneQEMU(t, v.dir))
	v.becomes("the TPM stays lost", func(s status.Status) bool {
		return s.Condition(vmstatus.ConditionTPMLost).Status == vmstatus.True
	})
	outcome, err := v.stop()
	require.NoError(t, err)
	require.Equal(t, vmstatus.CauseForced, outcome.Cause)
	v.nothingLeft()
}

// A guest's panic is reported, independent of the reaction to it.
func TestFault20Panic(t *testing.T) {
	t.Parallel()
	v := newVM(t, "standard", append(obedient(t, false), "options: {panic: pause}")...)
	c := attach(v)
	v.runs()
	c.Await(guest.ObedientSays)
	c.Type("K")
	s := v.becomes("the panic", func(s status.Status) bool {
		return s.QEMU.RunState == "guest-panicked" && len(s.Problems) > 0
	})
	require.True(t, has(s, vmstatus.ReasonGuestPanicked,
		"the guest has panicked; it is paused until it is resumed or reset"), s.Problems)
	require.Equal(t, vmstatus.ReasonGuestPanicked, s.Condition(vmstatus.ConditionReady).Reason)
	require.Equal(t, vmstatus.False, s.Condition(vmstatus.ConditionReady).Status)
	v.logged("the guest has panicked; it is paused until it is resumed or reset")

	require.NoError(t, v.client().Act(t.Context(), control.Reset))
	v.log.await(t, v.ended, "QMP event", "event", "RESET")
	require.NoError(t, v.client().Act(t.Context(), control.Resume))
	c.Await(guest.ObedientSays)
	s = v.becomes("no panic", func(s status.Status) bool { return len(s.Problems) == 0 })
	require.Equal(t, vmstatus.True, s.Condition(vmstatus.ConditionReady).Status)

	_, err := v.client().QMP(t.Context(),
		qmp.Command{Execute: "set-action", Arguments: map[string]string{"panic": "shutdown"}})
	require.NoError(t, err)
	c.Type("K")
	outcome, err := v.wait()
	require.NoError(t, err)
	require.Equal(t, vmstatus.CausePanic, outcome.Cause)
	require.Equal(t, 1, outcome.ExitCode())
	v.nothingLeft()
}

// A guest that reboots repeatedly boots each time, and its shutdown ends the VM.
func TestFault20RebootsAndShutdown(t *testing.T) {
	t.Parallel()
	v := newVM(t, "standard", obedient(t, false)...)
	c := attach(v)
	v.runs()
	c.Await(guest.ObedientSays)
	last := v.lastWord()
	for _, letter := range []string{"R", "X"} { // the machine's reset, and a triple fault
		v.log.forget()
		c.Type(letter)
		c.Await(guest.ObedientSays)
		v.logged("QMP event", "event", "RESET", "data", "guest-reset")
		require.Equal(t, "True VmReset", v.condition(vmstatus.ConditionRunning))
	}
	c.Type("P")
	outcome, err := v.wait()
	require.NoError(t, err)
	require.Equal(t, machine.Outcome{Cause: vmstatus.CauseGuest, Reason: "guest-shutdown"}, outcome.Outcome)
	require.Zero(t, outcome.ExitCode())
	require.Equal(t, vmstatus.CauseGuest, last().Outcome.Cause)
	v.notLogged("terminating")
	v.nothingLeft()
}

// The status shows the events of a watchdog and of a crash kernel. The guest here is a boot sector.
func TestWatchdogAndCrashKernel(t *testing.T) {
	t.Parallel()
	v := newVM(t, "wrapped")
	v.sector("disk.img",
		0xba, 0x05, 0x05, // mov dx, 0x505  the ISA device of pvpanic
		0xb0, 0x02, //       mov al, 2      PVPANIC_CRASHLOADED
		0xee,             // out dx, al
		0xba, 0x43, 0x04, // mov dx, 0x443  the timer of the IB700
		0xb0, 0x0f, //       mov al, 15     0 seconds
		0xee,       //       out dx, al
		0xf4,       //       hlt
		0xeb, 0xfd, //       jmp back to it
	)
	v.configure("wrapped", nil, "accelerator: tcg", "firmware: bios", "network: []", "maximumRam: 64 MiB",
		"powerdownTimeout: 0",
		"drives: [{file: disk.img, bootindex: 1}]", v.with("-device ib700 -action watchdog=pause"))
	v.runs()
	s := v.becomes("the watchdog", func(s status.Status) bool {
		return s.QEMU.RunState == "watchdog" && len(s.Problems) == 2
	})
	require.True(t, has(s, vmstatus.ReasonWatchdogExpired, "the guest's watchdog has expired; it is paused"),
		s.Problems)
	require.True(t, has(s, vmstatus.ReasonGuestPanicked, "is saving its memory"), s.Problems)
	require.Equal(t, vmstatus.ReasonMachineHeld, s.Condition(vmstatus.ConditionReady).Reason)
	v.logged("the guest's watchdog has expired; it is paused until it is resumed or reset")
	v.ends()
}

// alone reports whether the test runs in a separate process, with its own mounts, which end with it. If not, it runs
// the test again in such a process.
func alone(t *testing.T) bool {
	t.Helper()
	const variable = "VMOP_TEST_ALONE"
	if os.Getenv(variable) == t.Name() {
		return true
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v",
		"-test.timeout="+wait.Longest.String())
	cmd.Env = append(os.Environ(), variable+"="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGQUIT) }
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "alone, in a mount namespace (this test needs root): %s", output)
	t.Logf("%s", output)
	return false
}

// The file system of a disk is full: the guest is paused, and resumes unaffected when there is space.
func TestFault26DiskFull(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	if !alone(t) {
		return
	}
	v := newVM(t, "standard")
	full := v.path("full")
	require.NoError(t, os.Mkdir(full, 0o700))
	require.NoError(t, syscall.Mount("tmpfs", full, "tmpfs", 0, "size=32m"))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(full, 0)) })
	disk, ballast := v.path("full", "disk.img"), v.path("full", "ballast")
	require.NoError(t, os.WriteFile(disk, guest.Recorder()[:512], 0o600))
	require.NoError(t, os.Truncate(disk, guest.RecorderSize))
	require.NoError(t, os.WriteFile(ballast, make([]byte, 30<<20), 0o600))
	v.configure("standard", nil, bootsDisk("full/disk.img")...)
	c := attach(v)
	v.runs()
	c.Await(`^00000001$`)
	name := "vm.drives[0], " + disk + ": "
	s := v.becomes("the disk is full", func(s status.Status) bool {
		return has(s, vmstatus.ReasonIOError, name+"no space left on its file system")
	})
	require.Equal(t, "io-error", s.QEMU.RunState)
	require.Equal(t, vmstatus.ReasonIOError, s.Condition(vmstatus.ConditionReady).Reason)
	require.Contains(t, s.Condition(vmstatus.ConditionReady).Message, name)
	require.Equal(t, vmstatus.True, s.Condition(vmstatus.ConditionRunning).Status)
	v.logged("QEMU has stopped the VM because of a disk", "err", name)

	// A guest that a user pauses now stays paused even when there is space.
	require.NoError(t, v.client().Act(t.Context(), control.Pause))
	v.becomes("it is paused, too", func(s status.Status) bool {
		return has(s, vmstatus.ReasonIOError, "A user has paused it, too")
	})
	require.NoError(t, os.Remove(ballast))
	looks := len(v.log.find("QMP command", "command", "query-block"))
	wait.Until(t, func() bool {
		return len(v.log.find("QMP command", "command", "query-block")) >= looks+2
	})
	v.notLogged("resuming the VM after a failure of a disk")
	require.NoError(t, os.WriteFile(ballast, make([]byte, 30<<20), 0o600), "full again")
	require.NoError(t, v.client().Act(t.Context(), control.Resume)) // which is too early
	v.becomes("full again", func(s status.Status) bool {
		return has(s, vmstatus.ReasonIOError, name+"no space left") &&
			!has(s, vmstatus.ReasonIOError, "A user has paused")
	})

	unwritten := v.lastRecord(disk) + 1
	require.NoError(t, os.Remove(ballast))
	c.Await(fmt.Sprintf(`^%08x$`, unwritten))
	v.logged("resuming the VM after a failure of a disk", "cause", name)
	v.isWell()
	c.Await(fmt.Sprintf(`^%08x$`, unwritten+10))
	outcome, err := v.stop()
	require.NoError(t, err)
	require.Equal(t, "guest-shutdown", outcome.Reason)
	require.GreaterOrEqual(t, v.lastRecord(disk), unwritten+10)
	require.NotContains(t, c.Text(), guest.RecorderFails)
	v.nothingLeft()
}

// lastRecord returns the last record on the disk of a guest.Recorder that is not writing. It requires that all earlier
// records are on the disk.
func (v *vm) lastRecord(disk string) uint32 {
	v.t.Helper()
	text, err := os.ReadFile(disk)
	require.NoError(v.t, err)
	last := guest.LastRecord(text)
	require.NoError(v.t, guest.CheckRecords(text, last))
	return last
}

// isWell waits until the machine runs without problems.
func (v *vm) isWell() {
	v.t.Helper()
	v.becomes("all is well", func(s status.Status) bool {
		return s.Condition(vmstatus.ConditionReady).Status == vmstatus.True && len(s.Problems) == 0
	})
}

// The storage fails twice: the guest is paused, and resumes when an attempt succeeds.
func TestFault27DiskErrors(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	v := newVM(t, "wrapped")
	disk := v.path("disk.img")
	require.NoError(t, os.WriteFile(disk, guest.Recorder(), 0o600))
	broken := "node-name=disk0-file,driver=blkdebug,image.driver=file,image.filename=" + disk
	for i := range 2 {
		broken += fmt.Sprintf(",inject-error.%d.event=none,inject-error.%d.iotype=write,inject-error.%d.errno=5,inject-error.%d.once=on", i, i, i, i)
	}
	v.configure("wrapped", nil, append(bootsDisk("disk.img"), v.exchanging("node-name=disk0-file", broken))...)
	c := attach(v)
	v.runs()
	name := "vm.drives[0], " + disk + ": write failed: Input/output error; the VM is paused; next attempt at "
	v.becomes("the disk has failed", func(s status.Status) bool {
		return has(s, vmstatus.ReasonIOError, name) && s.QEMU.RunState == "io-error" &&
			strings.HasPrefix(s.Condition(vmstatus.ConditionReady).Message, name)
	})
	c.Await(`^00000001$`)
	v.isWell()
	attempts := v.log.find("resuming the VM after a failure of a disk", "cause", name)
	require.Len(t, attempts, 2)
	require.Equal(t, 2.0, attempts[1]["attempt"])
	require.Len(t, v.log.find("QEMU has stopped the VM because of a disk", "err", name), 2)
	outcome, err := v.stop()
	require.NoError(t, err)
	require.Equal(t, "guest-shutdown", outcome.Reason)
	require.Positive(t, v.lastRecord(disk))
	require.NotContains(t, c.Text(), guest.RecorderFails)
	v.nothingLeft()
}

// exchanging replaces each of QEMU's arguments that contains a text. It returns the line for the vm section.
func (v *vm) exchanging(text, word string) string {
	v.t.Helper()
	path, err := exec.LookPath(qemuProgram)
	require.NoError(v.t, err, "install the Debian package qemu-system-x86")
	v.program(`#!/bin/sh
for word; do
	shift
	case $word in *` + text + `*) word=` + word + `;; esac
	set -- "$@" "$word"
done
exec ` + path + ` "$@"
`)
	return "options: {qemu: " + v.path("bin", "qemu") + "}"
}

// A disk error for which the machine does not pause is reported to the guest, and also in the status. Here the firmware
// reads a CD.
func TestAnErrorThatTheGuestIsToldOf(t *testing.T) {
	t.Parallel()
	v := newVM(t, "wrapped")
	v.sector("a.iso")
	broken := "id=cd0-medium,if=none,media=cdrom,readonly=on,format=raw,file.driver=blkdebug,file.image.driver=file,file.image.filename=" + v.path("a.iso") +
		",file.inject-error.0.event=none,file.inject-error.0.iotype=read,file.inject-error.0.errno=5"
	v.configure("wrapped", nil, "accelerator: tcg", "firmware: bios", "network: []", "powerdownTimeout: 0",
		"drives: [{type: ide-cd, file: a.iso, bootindex: 1}]", v.exchanging("id=cd0-medium,if=none", broken))
	v.runs()
	s := v.becomes("the error", func(s status.Status) bool {
		return has(s, vmstatus.ReasonIOError, "vm.drives[0]: read failed: Input/output error; the guest got the error")
	})
	require.Equal(t, vmstatus.True, s.Condition(vmstatus.ConditionReady).Status, "the machine runs")
	v.ends()
}
