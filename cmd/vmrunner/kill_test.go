package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/runner/status"
	"vmop/test/guest"
	"vmop/test/invariants"
	"vmop/test/tier"
	"vmop/test/wait"
	"vmop/vmstatus"
)

// kill kills the program with SIGKILL.
func (p *program) kill() {
	p.t.Helper()
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// known returns the status from the runner of a folder.
func known(t *testing.T, dir string) status.Status {
	t.Helper()
	client := dial(t, dir)
	s, err := client.Status(t.Context())
	require.NoError(t, err)
	return s
}

// Row 1 of the fault matrix: the guest doesn't notice that its runner is killed, and the next runner has the same
// information.
func TestFault01RunnerKilled(t *testing.T) {
	t.Parallel()
	dir := folder(t, "standard", append(obedient(t, true), "useTpm: true", "maximumCpus: 2", "currentCpus: 1",
		"display: {vnc: {}}")...)
	first := start(t, dir, nil, "--console")
	first.await(guest.ObedientSays)
	first.await(`(?m)^0000000a$`)
	before := known(t, dir)

	second := start(t, dir, nil)
	require.Equal(t, 3, second.exit())
	require.Contains(t, second.out.String(),
		"vmrunner: the VM runs already: "+filepath.Join(dir, "data", "runner.lock"))

	first.kill()
	said, err := exec.CommandContext(t.Context(), "vmrunner", "status", "--runtime-dir",
		filepath.Join(dir, "run")).CombinedOutput()
	require.ErrorContains(t, err, "exit status 1")
	require.Equal(t, fmt.Sprintf("vmrunner: the VM is running (QEMU is process %d) but has no runner; start one by: "+
		"vmrunner run -c %s\n",
		before.QEMU.PID, filepath.Join(dir, "config.yaml")), string(said))
	rewrite(t, dir, "currentCpus: 1", "currentCpus: 2")
	third := adopted(t, dir)
	third.await(`configuration read`)
	after := known(t, dir)
	require.Equal(t, before.QEMU.PID, after.QEMU.PID)
	require.Equal(t, before.Started, after.Started)
	require.Equal(t, before.UUID, after.UUID)
	require.Equal(t, vmstatus.ReasonRunnerRestarted, after.Reason)
	require.NotEqual(t, before.Runner.PID, after.Runner.PID)
	require.NotNil(t, before.Confinement)
	require.Equal(t, before.Confinement, after.Confinement, "QEMU keeps its rules, and the status says so")
	wait.Until(t, func() bool { s := known(t, dir); return s.CPUs == 2 && s.QEMU.RunState == "running" },
		"what was changed meanwhile is applied")
	invariants.OneQEMU(t, dir)
	continues(t, dir, 10)

	third.ends()
	require.NotContains(t, third.out.String(), "QMP quit")
	invariants.NothingLeft(t, dir)
}

// continues requires that the counting guest of a folder has not restarted since it printed a number, and returns its
// current number.
func continues(t *testing.T, dir string, from uint64) uint64 {
	t.Helper()
	s := console(t, dir)
	s.await(`(?m)^[0-9a-f]{8}\n[0-9a-f]{8}\n`)
	lines := strings.Fields(s.out.out.String())
	reached, err := strconv.ParseUint(lines[len(lines)-1], 16, 32)
	require.NoError(t, err)
	require.Greater(t, reached, from)
	return reached
}

// rewrite replaces texts in a configuration, in pairs.
func rewrite(t *testing.T, dir string, pairs ...string) {
	t.Helper()
	path := filepath.Join(dir, "config.yaml")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	changed := string(text)
	for i := 0; i < len(pairs); i += 2 {
		require.Contains(t, changed, pairs[i])
		changed = strings.Replace(changed, pairs[i], pairs[i+1], 1)
	}
	require.NoError(t, os.WriteFile(path+".new", []byte(changed), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

// The machine is found even if the configuration that started it is now invalid, or names another directory. A reset is
// not repeated.
func TestMachineIsFoundByAnotherConfiguration(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 0")
	rewrite(t, dir, "  vmType: bare\n", "  vmType: bare\n  resetCounter: 1\n")
	first := booted(t, dir, "--log-level", "debug")
	rewrite(t, dir, "resetCounter: 1", "resetCounter: 2")
	first.await(`event=RESET`)
	machine := fmt.Sprintf("process %d\n", known(t, dir).QEMU.PID)
	first.kill()

	rewrite(t, dir, "name: test", "name: [test")
	faulty := start(t, dir, nil)
	faulty.await(`the configuration cannot be used; the running VM is adopted as it is`)
	faulty.await(`INF adopted`)
	wait.Until(t, func() bool {
		s := known(t, dir)
		return s.QEMU.RunState == "running" &&
			s.Condition(vmstatus.ConditionConfigApplied).Reason == vmstatus.ReasonConfigInvalid
	})
	shown, warning := shownBy(t, dir)
	require.Contains(t, shown, machine)
	require.Regexp(t, `^vmrunner: warning: .*1 error in the configuration\n.*config\.yaml:\d+`, warning)
	faulty.kill()

	rewrite(t, dir, "name: [test", "name: test", "runtimeDir: run", "runtimeDir: elsewhere")
	second := adopted(t, dir, "--log-level", "debug")
	shown, warning = shownBy(t, dir)
	require.Contains(t, shown, machine)
	require.Empty(t, warning)
	second.await(`configuration read`)
	second.await(`QMP reply.*query-status`)
	wait.Until(t, func() bool { return known(t, dir).QEMU.RunState == "running" })
	require.NotContains(t, second.out.String(), "system_reset")
	second.stops(dir)
	require.NoDirExists(t, filepath.Join(dir, "elsewhere"))
}

// If the policy for VM types becomes unreadable, a running VM keeps its runner, no VM can start, and no VM can be
// changed.
func TestVMIsLookedAfterWithoutItsPolicy(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 0")
	policy := filepath.Join(dir, "policy.yaml")
	write := func(text string) { require.NoError(t, os.WriteFile(policy, []byte(text), 0o600)) }
	write("directories: [/**]\nrules: [{types: [/**], flags: ['-*'], devices: ['**'], backends: ['**'], programs: " +
		"[/**], write: [/**], options: ['*'], unsandboxed: true}]\n")
	first := start(t, dir, nil, "--vmtypes-policy", policy)
	first.await(`booting`)
	machine := known(t, dir).QEMU.PID
	first.kill()

	write("rules: []\n")
	second := start(t, dir, nil, "--vmtypes-policy", policy)
	second.await(`the running VM is adopted as it is.*policy\.yaml:1:.*there are no rules`)
	second.await(`INF adopted`)
	require.Equal(t, machine, known(t, dir).QEMU.PID)
	rewrite(t, dir, "powerdownTimeout: 0", "powerdownTimeout: 1")
	second.await(`the previous configuration stays active.*there are no rules`)
	second.stops(dir)

	third := start(t, dir, nil, "--vmtypes-policy", policy)
	require.Equal(t, 2, third.exit(), "none is started")
	require.Contains(t, third.out.String(), "1 error in the policy for VM types\n")
}

// shownBy returns the output of vmrunner status for the VM of a configuration.
func shownBy(t *testing.T, dir string) (shown, warning string) {
	t.Helper()
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), "vmrunner", "status", "-c", filepath.Join(dir, "config.yaml"))
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	return string(out), stderr.String()
}

// Row 3: after the runner is killed, the guest's remaining time to shut down continues with the next runner, and the
// shutdown is completed.
func TestFault03RunnerKilledDuringPowerdown(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 3600")
	first := booted(t, dir)
	first.signal(syscall.SIGTERM)
	first.await(`stopping.*ACPI`)
	first.kill()
	backdate(t, dir, 10*time.Minute)
	second := adopted(t, dir)
	second.await(`terminating.*terminated`)
	second.await(`stopping.*ACPI.*timeout=(50m0|49m5\d)s`)
	require.Equal(t, vmstatus.StateTerminating, known(t, dir).State)
	second.kill()

	backdate(t, dir, 2*time.Hour)
	third := start(t, dir, nil)
	third.await(`stopping.*QMP quit`)
	require.Zero(t, third.exit())
	require.NotContains(t, third.out.String(), "ACPI", "its time was over while there was no runner")
	invariants.NothingLeft(t, dir)
}

// backdate moves the stop request that a killed runner has received into the past.
func backdate(t *testing.T, dir string, by time.Duration) {
	t.Helper()
	path := filepath.Join(dir, "run", "runner.json")
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var ledger map[string]any
	require.NoError(t, json.Unmarshal(text, &ledger))
	word := ledger["stop"].(map[string]any)
	word["at"] = int64(word["at"].(float64)) - int64(by)
	text, err = json.Marshal(ledger)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o600))
}

// QEMU stalls and resumes: the runner waits for it, and sends no command twice.
func TestFault10StalledQEMU(t *testing.T) {
	t.Parallel()
	dir := folder(t, "standard", "accelerator: tcg", "firmware: bios", "network: []", "powerdownTimeout: 0",
		"maximumCpus: 2", "currentCpus: 1")
	p := booted(t, dir, "--log-level", "debug")
	p.await(`QMP reply.*qom-get`)
	qemu, err := os.FindProcess(invariants.OneQEMU(t, dir))
	require.NoError(t, err)
	require.NoError(t, qemu.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = qemu.Signal(syscall.SIGCONT) })
	rewrite(t, dir, "currentCpus: 1", "currentCpus: 2")
	p.await(`configuration read`)
	p.await(`QEMU does not answer`)
	ready := known(t, dir).Condition(vmstatus.ConditionReady)
	require.Equal(t, vmstatus.False, ready.Status)
	require.Equal(t, vmstatus.ReasonUnresponsive, ready.Reason)
	require.NoError(t, qemu.Signal(syscall.SIGCONT))
	p.await(`QEMU answers again`)
	wait.Until(t, func() bool { return known(t, dir).CPUs == 2 })
	require.Equal(t, vmstatus.True, known(t, dir).Condition(vmstatus.ConditionReady).Status)
	p.ends()
	require.Equal(t, 1, strings.Count(p.out.String(), `command="device_add`))
	invariants.NothingLeft(t, dir)
}

// Row 11: the monitor's connection breaks while QEMU keeps running. The runner reconnects, and repeats no command.
func TestFault11MonitorBroken(t *testing.T) {
	t.Parallel()
	dir := folder(t, "standard", "accelerator: tcg", "firmware: bios", "network: []", "powerdownTimeout: 0",
		"maximumCpus: 2", "currentCpus: 1")
	rewrite(t, dir, "  vmType: standard\n", "  vmType: standard\n  resetCounter: 1\n")
	p := booted(t, dir, "--log-level", "debug")
	p.await(`QMP reply.*qom-get`)
	rewrite(t, dir, "resetCounter: 1", "resetCounter: 2")
	p.await(`event=RESET`)
	before := known(t, dir)
	hangUp(t, before.QEMU.PID, filepath.Join(dir, "run", "monitor.sock"))
	p.await(`the connection with QEMU's monitor is broken`)
	p.await(`QMP reply.*query-status`)
	rewrite(t, dir, "currentCpus: 1", "currentCpus: 2")
	wait.Until(t, func() bool { return known(t, dir).CPUs == 2 })
	require.Equal(t, before.QEMU.PID, known(t, dir).QEMU.PID)
	p.ends()
	require.Equal(t, 1, strings.Count(p.out.String(), `DBG QMP command vm=test command=system_reset`))
	invariants.NothingLeft(t, dir)
}

// hangUp ends the connections that a process has accepted on a Unix socket.
func hangUp(t *testing.T, pid int, path string) {
	t.Helper()
	handle, err := unix.PidfdOpen(pid, 0)
	require.NoError(t, err)
	defer unix.Close(handle)
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	require.NoError(t, err)
	ended := 0
	for _, entry := range fds {
		n, err := strconv.Atoi(entry.Name())
		require.NoError(t, err)
		fd, err := unix.PidfdGetfd(handle, n, 0)
		if err != nil {
			continue // closed by now
		}
		name, err := unix.Getsockname(fd)
		at, isUnix := name.(*unix.SockaddrUnix)
		if _, noPeer := unix.Getpeername(fd); err == nil && isUnix && at.Name == path && noPeer == nil {
			require.NoError(t, unix.Shutdown(fd, unix.SHUT_RDWR))
			ended++
		}
		unix.Close(fd)
	}
	require.NotZero(t, ended, "there is a connection")
}
