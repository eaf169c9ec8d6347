package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/internal/atomicfile"
	"vmop/qmp"
	"vmop/test/invariants"
	"vmop/test/tier"
	"vmop/test/wait"
)

// allowance is the runner's memory limit. It needs 10 MB on an idle computer. On a busy computer the garbage collector
// is late, and large pages cost 3 MB more (docs/decisions/0163-large-pages-in-ci.md).
const allowance = 32 << 20

// newGroup creates a control group of a controller, "memory" or "pids", in the machine's version of control groups.
func newGroup(t *testing.T, controller string) (path string) {
	t.Helper()
	base := filepath.Join("/sys/fs/cgroup", controller) // of version 1
	if _, err := os.Stat(base); err != nil {
		base = "/sys/fs/cgroup"
	}
	path, err := os.MkdirTemp(base, "vmop-")
	require.NoError(t, err, "this test needs root, and control groups that it may write")
	t.Cleanup(func() {
		// A group can be removed when the kernel has cleaned up its last process.
		wait.Until(t, func() bool { return syscall.Rmdir(path) == nil })
	})
	return path
}

// bound sets a limit of a control group. The first of the names is for version 1.
func bound(t *testing.T, group string, value int, names ...string) {
	t.Helper()
	var err error
	for _, name := range names {
		if err = os.WriteFile(filepath.Join(group, name), []byte(strconv.Itoa(value)), 0); err == nil {
			return
		}
	}
	require.NoError(t, err)
}

// killed returns the number of a group's processes that the kernel killed because of the memory limit.
func killed(t *testing.T, group string) (n int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(group, "memory.oom_control"))
	if err != nil {
		text, err = os.ReadFile(filepath.Join(group, "memory.events"))
	}
	require.NoError(t, err)
	at := strings.Index(string(text), "oom_kill ")
	require.GreaterOrEqual(t, at, 0)
	_, err = fmt.Sscanf(string(text[at:]), "oom_kill %d", &n)
	require.NoError(t, err)
	return n
}

// The runner does everything that needs memory, and stays within its limit.
func TestFault38LittleMemory(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	ours, qemus := newGroup(t, "memory"), newGroup(t, "memory")
	bound(t, ours, allowance, "memory.limit_in_bytes", "memory.max")
	dir := folder(t, "wrapped", "accelerator: tcg", "firmware: bios", "network: []", "powerdownTimeout: 0",
		"options: {qemu: PATH/qemu, access: ["+qemus+"]}")
	inGroup(t, dir, qemus)
	p := newProgram(t, dir, nil).limited("echo $$ >" + ours + "/cgroup.procs")
	p.launch()
	p.await(`booting`)
	pid := invariants.OneQEMU(t, dir)
	client := dial(t, dir)

	var askers sync.WaitGroup
	for range 4 { // QEMU's longest answers, and its most frequent events
		askers.Go(func() {
			for range 25 {
				for _, command := range []string{"query-qmp-schema", "stop", "cont"} {
					if _, err := client.QMP(t.Context(), qmp.Command{Execute: command}); err != nil {
						t.Errorf("%s: %v", command, err)
					}
				}
			}
		})
	}
	config := filepath.Join(dir, "config.yaml")
	good, err := os.ReadFile(config)
	require.NoError(t, err)
	for _, c := range []struct{ text, says string }{
		{
			"/Runner: {vm: {name: test, options: {list: [" + strings.Repeat("[1, 2, 3], ", 5_000) + "]}}}",
			`no such option`,
		},
		{"a: &a [x, x, x, x, x, x, x, x, x]\n" + bomb(), `unknown section`},
		{strings.Repeat("x", 8<<20), `the file has 8388608 bytes`},
		{string(good) + strings.Repeat("# comment\n", 100_000), `reading the configuration again, as requested`},
	} {
		require.NoError(t, atomicfile.Write(config, []byte(c.text), 0o600, atomicfile.Volatile))
		p.signal(syscall.SIGHUP)
		p.await(c.says) // only once, because the runner may have read the file by itself
	}
	askers.Wait()
	state, err := client.Status(t.Context())
	require.NoError(t, err)
	require.Equal(t, pid, state.QEMU.PID)
	require.Zero(t, killed(t, ours), "the kernel killed the runner")
	require.Equal(t, pid, invariants.OneQEMU(t, dir))
	p.stops(dir)
}

// QEMU needs more memory than its control group allows: the runner reports that the kernel killed it.
func TestFault38QEMUOutOfMemory(t *testing.T) {
	t.Parallel()
	qemus := newGroup(t, "memory")
	bound(t, qemus, 256<<20, "memory.limit_in_bytes", "memory.max")
	dir := folder(t, "wrapped", "accelerator: tcg", "firmware: bios", "network: []",
		"options: {qemu: PATH/qemu, access: ["+qemus+"]}")
	inGroup(t, dir, qemus)
	p := booted(t, dir)
	client := dial(t, dir)
	_, err := client.QMP(t.Context(), qmp.Command{Execute: "object-add", Arguments: map[string]any{
		"qom-type": "memory-backend-ram", "id": "large", "size": 1 << 30, "prealloc": true,
	}})
	require.Error(t, err, "QEMU has what it asked for")
	require.Equal(t, 128+int(syscall.SIGKILL), p.exit())
	require.Contains(t, p.out.String(), "(SIGKILL); the kernel ended a process of the control group "+qemus+
		" because memory was short")
	invariants.NothingLeft(t, dir)
}

// bomb returns lines of YAML. Each line multiplies the size by nine.
func bomb() string {
	var s strings.Builder
	for name := 'b'; name <= 'i'; name++ {
		fmt.Fprintf(&s, "%c: &%c [%s]\n", name, name,
			strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", name-1), 9), ", "))
	}
	return s.String()
}

// inGroup writes a program PATH/qemu that runs QEMU in a control group.
func inGroup(t *testing.T, dir, group string) {
	t.Helper()
	qemu, err := exec.LookPath(invariants.QEMU)
	require.NoError(t, err, "install the Debian package qemu-system-x86")
	script := "#!/bin/sh\necho $$ >" + group + "/cgroup.procs\nexec " + qemu + " \"$@\"\n"
	syscall.ForkLock.RLock() // a file that a child process has open for writing can't be executed
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "qemu"), []byte(script), 0o700))
}

func TestFault39NothingLeftOfTheKernel(t *testing.T) {
	t.Parallel()
	t.Run("32 descriptors are enough", func(t *testing.T) {
		t.Parallel()
		dir := folder(t, "standard", "accelerator: tcg", "firmware: bios", "network: []", "useTpm: true",
			"powerdownTimeout: 0")
		p := newProgram(t, dir, nil).limited("ulimit -n 32")
		p.launch()
		p.await(`booting`)
		invariants.OneQEMU(t, dir)
		p.stops(dir)
	})
	t.Run("no descriptors", func(t *testing.T) {
		t.Parallel()
		dir := folder(t, "bare")
		p := newProgram(t, dir, nil).limited("ulimit -n 10")
		p.launch()
		require.Equal(t, exitFailed, p.exit())
		require.Regexp(t, `(?m)^vmrunner: .*too many open files$`, p.out.String())
		invariants.NothingLeft(t, dir)
	})
	t.Run("no threads for QEMU", func(t *testing.T) {
		t.Parallel()
		group := newGroup(t, "pids")
		bound(t, group, 1, "pids.max")
		dir := folder(t, "bare", "options: {qemu: PATH/qemu, access: ["+group+"]}")
		inGroup(t, dir, group)
		p := start(t, dir, nil)
		p.refuses(dir, exitFailed, "qemu ended while the VM was being started: killed by signal 6 (SIGABRT)")
		require.Contains(t, p.out.String(), "qemu: qemu_thread_create: Resource temporarily unavailable\n")
	})
	t.Run("no watches", func(t *testing.T) {
		t.Parallel()
		dir := folder(t, "bare", "powerdownTimeout: 900")
		p := newProgram(t, dir, nil).limited("echo 0 >/proc/sys/user/max_inotify_instances")
		p.cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
		p.launch()
		p.await(`booting`)
		p.await(`WRN files are polled for changes every second .*too many open files`)
		config := filepath.Join(dir, "config.yaml")
		text, err := os.ReadFile(config)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(config, []byte(strings.ReplaceAll(string(text), "900", "0")), 0o600))
		p.await(`configuration read`)
		invariants.OneQEMU(t, dir)
		p.ends()
		require.Contains(t, p.out.String(), "forced (host-qmp-quit)")
		invariants.NothingLeft(t, dir)
	})
}
