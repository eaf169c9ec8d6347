package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/test/program"
	"vmop/test/wait"
	"vmop/vmstatus"
)

// container is the name under which this program restricts itself to the system calls that RuntimeDefault allows a
// container without capabilities, and executes its arguments.
const container = "container"

// containIfAsked is called by TestMain. It doesn't return in a container.
func containIfAsked() {
	if filepath.Base(os.Args[0]) != container {
		return
	}
	err := containCalls()
	if err == nil {
		err = unix.Exec(os.Args[1], os.Args[1:], os.Environ())
	}
	fmt.Fprintln(os.Stderr, "container:", err)
	os.Exit(1)
}

// deniedCalls returns the first and the last number of each range of x86-64 system calls that containerd's default
// profile denies with EPERM to a container without capabilities, because its allow list lacks them. They include the
// calls that create or enter namespaces, mount, trace with process_vm_readv or pidfd_getfd, and load programs.
//
// See https://github.com/containerd/containerd/blob/main/contrib/seccomp/seccomp_default.go.
func deniedCalls() []uint32 {
	return []uint32{
		103, 103, 134, 134, 136, 136, 139, 139, 153, 153, 155, 156, 161, 161, 163, 185, 212, 212, 227, 227, 236, 239,
		246, 246, 248, 250, 256, 256, 272, 272, 279, 279, 298, 298, 300, 300, 303, 304, 308, 308, 310, 313, 320, 321,
		323, 323, 329, 331, 335, 336, 428, 433, 438, 438, 440, 440, 442, 443, 450, 1 << 30,
	}
}

// containCalls denies deniedCalls, and clone(2) with a namespace, to this program and to the program that it executes.
// As in containers, clone3(2) is unknown, because a filter can't read its flags.
func containCalls() error {
	if runtime.GOARCH != "amd64" {
		return errors.New("the list of system calls is for x86-64")
	}
	const (
		load     = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal    = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		least    = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		more     = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K
		any      = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		answer   = unix.BPF_RET | unix.BPF_K
		allow    = unix.SECCOMP_RET_ALLOW
		deny     = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		unknown  = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
		argument = 16 // offset in struct seccomp_data
		spaces   = unix.CLONE_NEWNS | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC | unix.CLONE_NEWUSER | unix.CLONE_NEWPID |
			unix.CLONE_NEWNET | unix.CLONE_NEWCGROUP
	)
	filter := []unix.SockFilter{
		{Code: load, K: 0},
		{Code: equal, K: unix.SYS_CLONE3, Jf: 1},
		{Code: answer, K: unknown},
		{Code: equal, K: unix.SYS_CLONE, Jf: 4},
		{Code: load, K: argument},
		{Code: any, K: spaces, Jf: 1},
		{Code: answer, K: deny},
		{Code: answer, K: allow},
	}
	for calls := range slices.Chunk(deniedCalls(), 2) {
		filter = append(filter,
			unix.SockFilter{Code: least, K: calls[0], Jf: 2},
			unix.SockFilter{Code: more, K: calls[1], Jt: 1},
			unix.SockFilter{Code: answer, K: deny})
	}
	filter = append(filter, unix.SockFilter{Code: answer, K: allow})
	attach := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&attach)))
	runtime.KeepAlive(filter)
	return os.NewSyscallError("seccomp", nilIfZero(errno))
}

func nilIfZero(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// pod describes the privileges that the manager grants to the pod of a VM.
type pod struct {
	user         int
	capabilities []string // lower case, without "cap_"
	privileged   bool
}

// pods returns one pod for each set of privileges.
func pods() map[string]pod {
	return map[string]pod{
		"restricted":      {user: 4711},
		"with masquerade": {capabilities: []string{"net_admin", "net_bind_service"}},
		"with a tap":      {capabilities: []string{"net_admin", "net_raw"}},
		"privileged":      {privileged: true},
	}
}

// In pods with the runtime's default seccomp profile, QEMU has no separate root folder. Only one attempt succeeds: to
// connect to a Unix socket of the same user, if the pod contains one. The condition reports this.
func TestABrokenOutQEMUOfAPodGetsOneThing(t *testing.T) {
	t.Parallel()
	for kind, p := range pods() {
		if p.privileged {
			continue // see TestABrokenOutQEMUGetsNothing
		}
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			v, to := newAttackedPod(t, p)
			require.NoError(t, os.Symlink(v.path("bin", attacker), v.path("bin", container)))
			setpriv, err := exec.LookPath("setpriv")
			require.NoError(t, err, "install the Debian package util-linux")
			user := strconv.Itoa(p.user)
			args := []string{setpriv, "--no-new-privs", "--reuid", user, "--regid", user, "--clear-groups"}
			capabilities := strings.Join(append([]string{"-all"}, p.capabilities...), ",+")
			args = append(args, "--inh-caps="+capabilities, "--bounding-set="+capabilities)
			args = append(args, v.runnerArgs()...)
			v.starts(exec.CommandContext(context.WithoutCancel(t.Context()), v.path("bin", container), args...))
			v.attackedPod(to, p)
		})
	}
}

// newAttackedPod returns a VM in which the attacker replaces QEMU, and a runner that the pod's user may execute.
func newAttackedPod(t *testing.T, p pod) (*vm, targets) {
	t.Helper()
	v, to := newAttacked(t)
	v.aims(to)
	v.types = v.path("types")
	require.NoError(t, os.CopyFS(v.types, os.DirFS("testdata/vmtypes")))
	require.NoError(t, program.Build(t.Context(), v.path("bin", "vmrunner"), "vmop/cmd/vmrunner"))
	if p.user != 0 {
		v.belongsTo(to, p.user)
	}
	return v, to
}

// runnerArgs returns the command that runs the VM.
func (v *vm) runnerArgs() []string {
	return []string{v.path("bin", "vmrunner"), "run", "-c", v.path("config.yaml"), "--vmtypes", v.types}
}

// attackedPod checks the attacker's results in the VM of newAttackedPod.
func (v *vm) attackedPod(to targets, p pod) {
	t := v.t
	t.Helper()
	reason, message := vmstatus.ReasonConfined, ""
	if p.privileged {
		v.attacked(to)
	} else {
		v.attacked(to, "connect to another VM's monitor")
		reason = vmstatus.ReasonPartlyConfined
		message = `^no separate root folder \(.*not permitted\): it can connect to unix sockets of the same user$`
	}
	client, err := control.Dial(t.Context(), to.Control)
	require.NoError(t, err)
	var c status.Condition
	wait.Until(t, func() bool {
		s, err := client.Status(t.Context())
		c = s.Condition(vmstatus.ConditionConfined)
		return err == nil && s.Started != nil
	})
	require.Equal(t, reason, c.Reason)
	require.Regexp(t, message, c.Message)
}

// belongsTo changes the owner of the files of the VM and of the other VM.
func (v *vm) belongsTo(to targets, user int) {
	v.t.Helper()
	for _, dir := range []string{v.dir, filepath.Dir(to.OtherMonitor)} {
		require.NoError(v.t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			return errors.Join(err, os.Lchown(path, user, user))
		}))
	}
}

// starts starts a runner, which ends with the test, and waits until the attacker has run.
func (v *vm) starts(runner *exec.Cmd) {
	t := v.t
	t.Helper()
	runner.Env = append(os.Environ(), "HOME="+v.dir, "XDG_RUNTIME_DIR="+v.path("run"))
	var log strings.Builder
	runner.Stdout, runner.Stderr = &log, &log
	require.NoError(t, runner.Start())
	ended := make(chan error, 1)
	go func() { ended <- runner.Wait() }()
	t.Cleanup(func() {
		_ = runner.Process.Signal(unix.SIGTERM)
		if err := <-ended; t.Failed() {
			t.Log(err, log.String())
		}
	})
	wait.Until(t, func() bool {
		select {
		case err := <-ended:
			ended <- err
			require.FailNow(t, "the runner has ended before the attacker has run")
		default:
		}
		_, err := os.Stat(v.path("bin", accessesFile))
		return err == nil
	}, "the attacker has not run")
}
