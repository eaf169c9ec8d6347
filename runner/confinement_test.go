package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/internal/confine"
	"vmop/runner/control"
	"vmop/test/invariants"
	"vmop/test/program"
	"vmop/test/wait"
	"vmop/vmstatus"
)

// attacker is the name under which this program replaces QEMU: it makes the attempts of a guest that has escaped from
// QEMU, writes down the results, and becomes QEMU.
const attacker = "attacker"

// targets are the targets of the attacker.
type targets struct {
	Secret, Disk, OtherDisk, CD, Config, Password string
	Type, OtherMonitor, Abstract, Control         string
	Program                                       string // which the attacker becomes
	TPM                                           bool   // it replaces swtpm
	Port                                          int
}

const (
	targetsFile  = "targets.json"
	lateFile     = "late.json" // results of the attempts while QEMU runs
	attacksFile  = "attacks.json"
	accessesFile = "accesses.json"
)

// attackIfAsked is called by TestMain. It doesn't return in the attacker.
func attackIfAsked() {
	if filepath.Base(os.Args[0]) != attacker {
		return
	}
	dir := filepath.Dir(os.Args[0])
	var to targets
	text, err := os.ReadFile(filepath.Join(dir, targetsFile))
	if err == nil {
		err = json.Unmarshal(text, &to)
	}
	if err == nil && len(os.Args) == 2 && os.Args[1] == lateFile {
		if try(filepath.Join(dir, lateFile), map[string]func() error{"command its runner": to.commandsRunner}) != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	if err == nil {
		err = errors.Join(try(filepath.Join(dir, attacksFile), to.attacks()),
			exec.CommandContext(context.TODO(), os.Args[0], lateFile).Start(),
			try(filepath.Join(dir, accessesFile), to.accesses()))
	}
	if err == nil {
		err = unix.Exec(to.Program, append([]string{to.Program}, os.Args[1:]...), os.Environ())
	}
	fmt.Fprintln(os.Stderr, "attacker:", err)
	os.Exit(1)
}

// try writes down the errno of each attempt: 0 for success, -1 for an error without errno.
func try(file string, attempts map[string]func() error) error {
	results := map[string]int{}
	for name, attempt := range attempts {
		err := attempt()
		var errno unix.Errno
		switch {
		case err == nil:
			results[name] = 0
		case errors.As(err, &errno):
			results[name] = int(errno)
		default:
			results[name] = -1
		}
	}
	text, err := json.Marshal(results)
	if err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

func opens(path string, flags int) func() error {
	return func() error {
		f, err := os.OpenFile(path, flags, 0o600)
		if err != nil {
			return err
		}
		return f.Close()
	}
}

func dials(network, address string) func() error {
	return func() error {
		conn, err := (&net.Dialer{Timeout: time.Minute}).Dial(network, address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// accesses returns attempts that the plan permits.
func (to targets) accesses() map[string]func() error {
	if to.TPM {
		return map[string]func() error{
			"make its state": opens("made", os.O_CREATE|os.O_WRONLY),
			"replace its state": func() error {
				return errors.Join(opens("new", os.O_CREATE|os.O_WRONLY)(), os.Rename("new", "old"), os.Remove("old"))
			},
		}
	}
	return map[string]func() error{
		"read the disk":       opens(to.Disk, os.O_RDONLY),
		"write the disk":      opens(to.Disk, os.O_RDWR),
		"read the CD":         opens(to.CD, os.O_RDONLY),
		"read random bytes":   opens("/dev/urandom", os.O_RDONLY),
		"read what is QEMU's": opens("/usr/share/qemu/keymaps/en-us", os.O_RDONLY),
		"signal itself":       func() error { return unix.Kill(os.Getpid(), 0) },
	}
}

// attacks returns attempts that must be refused.
func (to targets) attacks() map[string]func() error {
	all := to.attacksOnFiles()
	if to.TPM {
		maps.Copy(all, to.attacksOnTheDataDirectory())
	}
	maps.Copy(all, to.attacksOnProcesses())
	maps.Copy(all, to.attacksOnTheKernel())
	maps.Copy(all, to.attacksOnTheNetwork())
	return all
}

func (to targets) attacksOnFiles() map[string]func() error {
	mine := mine()
	return map[string]func() error{
		"read /etc/shadow":           opens("/etc/shadow", os.O_RDONLY),
		"list /":                     func() error { _, err := os.ReadDir("/"); return err },
		"list /etc":                  func() error { _, err := os.ReadDir("/etc"); return err },
		"read the pod's token":       opens(to.Secret, os.O_RDONLY),
		"read another VM's disk":     opens(to.OtherDisk, os.O_RDONLY),
		"write another VM's disk":    opens(to.OtherDisk, os.O_WRONLY),
		"truncate another VM's disk": func() error { return os.Truncate(to.OtherDisk, 0) },
		"remove another VM's disk":   func() error { return os.Remove(to.OtherDisk) },
		"chmod another VM's disk":    func() error { return os.Chmod(to.OtherDisk, 0o777) },
		"date another VM's disk":     func() error { return os.Chtimes(to.OtherDisk, time.Now(), time.Now()) },
		"watch another VM's folder":  func() error { return watches(filepath.Dir(to.OtherMonitor)) },
		"chown another VM's disk":    func() error { return os.Chown(to.OtherDisk, 1, 1) },
		"rename another VM's disk":   func() error { return os.Rename(to.OtherDisk, mine+"1") },
		"link another VM's disk":     func() error { return os.Link(to.OtherDisk, mine+"2") },
		"read a disk by a symbolic link": func() error {
			return errors.Join(os.Symlink(to.OtherDisk, mine+"3"), opens(mine+"3", os.O_RDONLY)())
		},
		"write to the CD's image":     opens(to.CD, os.O_WRONLY),
		"truncate the CD's image":     func() error { return os.Truncate(to.CD, 0) },
		"chmod the CD's image":        func() error { return os.Chmod(to.CD, 0o777) },
		"date the CD's image":         func() error { return os.Chtimes(to.CD, time.Now(), time.Now()) },
		"read the configuration":      opens(to.Config, os.O_RDONLY),
		"write the configuration":     opens(to.Config, os.O_WRONLY),
		"read the display's password": opens(to.Password, os.O_RDONLY),
		"read the pinned type":        opens(to.Type, os.O_RDONLY),
		"replace the pinned type":     opens(to.Type, os.O_WRONLY|os.O_TRUNC),
		// The program must not be running: writing to it would then fail as busy, before it is forbidden.
		"write a program":           opens("/usr/bin/factor", os.O_WRONLY),
		"chmod a program":           func() error { return os.Chmod("/usr/bin/factor", 0o4755) },
		"make a file in /usr":       opens("/usr/lib/attacked", os.O_CREATE|os.O_WRONLY),
		"make a file in /tmp":       opens("/tmp/attacked", os.O_CREATE|os.O_WRONLY),
		"open the host's memory":    opens("/dev/mem", os.O_RDONLY),
		"open a loop device":        opens("/dev/loop-control", os.O_RDWR),
		"make a device":             func() error { return unix.Mknod(mine+"4", unix.S_IFBLK|0o600, 1<<8) },
		"open a file by its handle": byHandle,
	}
}

// attacksOnTheDataDirectory returns the attempts of a TPM, which has a folder in the data directory.
func (to targets) attacksOnTheDataDirectory() map[string]func() error {
	data := filepath.Dir(to.Type)
	in := func(name string) string { return filepath.Join(data, name) }
	return map[string]func() error{
		"list the data directory":     func() error { _, err := os.ReadDir(data); return err },
		"list it from its folder":     func() error { _, err := os.ReadDir(".."); return err },
		"make a file there":           opens(in("ended.json"), os.O_CREATE|os.O_WRONLY),
		"make a link there":           func() error { return os.Symlink("/etc", in("link")) },
		"write the uuid":              opens(in("uuid.txt"), os.O_WRONLY),
		"rename a file over the uuid": func() error { return os.Rename(mine()+"5", in("uuid.txt")) },
		"link over the pinned type":   func() error { return os.Link(mine()+"5", to.Type+"1") },
		"remove the uuid":             func() error { return os.Remove(in("uuid.txt")) },
		"rename its own folder":       func() error { return os.Rename(in("tpm"), in("tpm2")) },
		"take the machine's lock":     opens(in("lock"), os.O_RDWR),
		"read the firmware's data":    opens(in("fw-vars.fd"), os.O_RDONLY),
	}
}

// mine returns the path prefix of the files that the attacker creates.
func mine() string { return filepath.Join(filepath.Dir(os.Args[0]), "mine") }

func byHandle() error {
	handle, mount, err := unix.NameToHandleAt(unix.AT_FDCWD, os.Args[0], 0)
	if err != nil {
		return err
	}
	_ = mount
	dir, err := os.Open(filepath.Dir(os.Args[0]))
	if err != nil {
		return err
	}
	defer dir.Close()
	fd, err := unix.OpenByHandleAt(int(dir.Fd()), handle, unix.O_RDONLY)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

func (to targets) attacksOnProcesses() map[string]func() error {
	runner := os.Getppid()
	proc := func(name string) string { return filepath.Join("/proc", strconv.Itoa(runner), name) }
	return map[string]func() error{
		"signal the runner":             func() error { return unix.Kill(runner, 0) },
		"trace the runner":              func() error { return unix.PtraceAttach(runner) },
		"read the runner's memory":      func() error { return readsMemory(runner) },
		"open the runner's memory":      opens(proc("mem"), os.O_RDWR),
		"read the runner's environment": opens(proc("environ"), os.O_RDONLY),
		"read the runner's command":     opens(proc("cmdline"), os.O_RDONLY),
		"follow the runner's root":      opens(proc("root/etc/passwd"), os.O_RDONLY),
		"take the runner's descriptor":  func() error { return takesDescriptor(runner) },
		"enter the host's mounts":       opens("/proc/1/ns/mnt", os.O_RDONLY),
	}
}

func readsMemory(pid int) error {
	text := make([]byte, 1)
	local := []unix.Iovec{{Base: &text[0], Len: 1}}
	_, err := unix.ProcessVMReadv(pid, local, []unix.RemoteIovec{{Base: 0x400000, Len: 1}}, 0)
	if errors.Is(err, unix.EFAULT) {
		return nil // it was allowed
	}
	return err
}

func takesDescriptor(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	taken, err := unix.PidfdGetfd(fd, 0, 0)
	if err != nil {
		return err
	}
	return unix.Close(taken)
}

func (to targets) attacksOnTheKernel() map[string]func() error {
	mine := filepath.Dir(os.Args[0])
	return map[string]func() error{
		"load a module":            func() error { return unix.InitModule([]byte("module"), "") },
		"mount":                    func() error { return unix.Mount("none", mine, "tmpfs", 0, "") },
		"leave its mounts":         func() error { return unix.Unshare(unix.CLONE_NEWNS) },
		"change its root":          func() error { return unix.Chroot(mine) },
		"write a kernel parameter": opens("/proc/sys/kernel/core_pattern", os.O_WRONLY),
		"set the clock":            setsClock,
		"name the host":            func() error { return unix.Sethostname([]byte("attacked")) },
		"restart the host":         func() error { return unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_ON) },
		"become another user":      becomesAnother,
		"leave a core":             leavesACore,
		"raise its priority":       func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -5) },
		"get new privileges":       getsPrivileges,
	}
}

// leavesACore raises the limit of core dumps, which the runner sets after the process has started.
func leavesACore() error {
	var limit unix.Rlimit
	for begin := time.Now(); time.Since(begin) < wait.Longest; time.Sleep(time.Millisecond) {
		if err := unix.Getrlimit(unix.RLIMIT_CORE, &limit); err != nil {
			return err
		}
		if limit.Max == 0 {
			break
		}
	}
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Max: limit.Max + 1<<20})
}

func setsClock() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
		return err
	}
	return unix.ClockSettime(unix.CLOCK_REALTIME, &now)
}

// becomesAnother sets another user ID. In a user namespace, which has one user, this fails with EINVAL.
func becomesAnother() error {
	err := fails(unix.RawSyscall(unix.SYS_SETUID, 1, 0, 0))
	if errors.Is(err, unix.EINVAL) {
		return unix.EPERM
	}
	return err
}

// fails returns the errno of a system call, or nil.
func fails(_, _ uintptr, errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}

// getsPrivileges succeeds if a set-uid program would have its owner's privileges.
func getsPrivileges() error {
	forbidden, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err == nil && forbidden == 1 {
		return unix.EPERM
	}
	return err
}

func watches(folder string) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.InotifyAddWatch(fd, folder, unix.IN_ALL_EVENTS)
	return err
}

// commandsRunner succeeds if the control interface of its runner answers, which the runner opens when QEMU runs.
func (to targets) commandsRunner() error {
	var conn net.Conn
	err := error(unix.ENOENT)
	for begin := time.Now(); err != nil && time.Since(begin) < wait.Longest; time.Sleep(time.Millisecond) {
		conn, err = net.Dial("unix", to.Control)
	}
	if err != nil {
		return errors.New("the control interface was not opened")
	}
	defer conn.Close()
	_, _ = conn.Write([]byte("GET /v1/status HTTP/1.1\r\nHost: vm\r\n\r\n"))
	if n, _ := conn.Read(make([]byte, 1)); n == 0 {
		return unix.EPERM
	}
	return nil
}

func (to targets) attacksOnTheNetwork() map[string]func() error {
	return map[string]func() error{
		"connect to another VM's monitor": dials("unix", to.OtherMonitor),
		"connect to an abstract socket":   dials("unix", to.Abstract),
		"connect to a TCP port":           dials("tcp", "127.0.0.1:"+strconv.Itoa(to.Port)),
		"listen on a TCP port": func() error {
			var plain net.ListenConfig
			plain.SetMultipathTCP(false) // which Landlock does not cover
			l, err := plain.Listen(context.TODO(), "tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			return l.Close()
		},
		"open a raw socket": func() error {
			fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
			if err != nil {
				return err
			}
			return unix.Close(fd)
		},
		"administer the network": func() error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			request, err := unix.NewIfreq("lo")
			if err != nil {
				return err
			}
			request.SetUint16(unix.IFF_LOOPBACK)
			return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
		},
	}
}

// refusals are the kernel's errors for a refused attempt, an invisible file, or a missing kernel module.
var refusals = []unix.Errno{unix.EPERM, unix.EACCES, unix.ENOENT, unix.EROFS, unix.EXDEV, unix.ENOSYS}

// A program that replaces QEMU can access only the resources that the plan permits, and they are sufficient for the VM.
// The status reports the confinement, even after the runner was killed.
func TestABrokenOutQEMUGetsNothing(t *testing.T) {
	t.Parallel()
	v, to := newAttacked(t)
	v.aims(to)
	v.runs()
	v.attacked(to)
	require.NotZero(t, invariants.OneQEMU(t, v.dir))
	require.Equal(t, "True Confined", v.condition(vmstatus.ConditionConfined))
	require.Empty(t, v.status().Confinement.Lacks)
	require.True(t, v.status().Confinement.OwnRoot)
	v.ends()
}

// newAttacked returns a VM in which the attacker replaces QEMU.
func newAttacked(t *testing.T) (*vm, targets) {
	t.Helper()
	require.GreaterOrEqual(t, confine.ABI(), 6, "this kernel has no Landlock, or an old one: nothing here can be proved")
	v := newVM(t, "wrapped")
	to := v.targets()
	v.configure("wrapped", nil, "accelerator: tcg", "firmware: bios", "network: []", "maximumRam: 64 MiB",
		"drives: [{file: PATH/disks/disk.img}, {file: PATH/cds/a.iso, readOnly: true}]",
		"options: {qemu: PATH/bin/"+attacker+"}")
	return v, to
}

// This also holds for runners without CAP_SYS_ADMIN, with QEMU in a user namespace, and for a root runner with few
// capabilities.
func TestABrokenOutQEMUOfAnyRunnerGetsNothing(t *testing.T) {
	t.Parallel()
	const user = "4711"
	likeUser := []string{"--reuid", user, "--regid", user, "--clear-groups", "--inh-caps=-all"}
	var granted []string
	for name := range strings.FieldsSeq(unitLine(t, "../cmd/vmrunner/systemd/network.conf", "AmbientCapabilities=")) {
		granted = append(granted, "+"+strings.ToLower(strings.TrimPrefix(name, "CAP_")))
	}
	capabilities := strings.Join(granted, ",")
	for who, by := range map[string][]string{
		"a user":                        likeUser,
		"a user without a bounding set": append(slices.Clone(likeUser), "--bounding-set=-all"),
		"the unit with network.conf": append(slices.Clone(likeUser[:len(likeUser)-1]), "--inh-caps=-all,"+capabilities,
			"--ambient-caps=-all,"+capabilities, "--bounding-set=-all,"+capabilities),
		"root, confined": {"--bounding-set=-all,+sys_admin,+net_admin,+dac_override", "--inh-caps=-all"},
	} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			v, to := newAttacked(t)
			v.aims(to)
			v.types = v.path("types")
			require.NoError(t, os.CopyFS(v.types, os.DirFS("testdata/vmtypes")))
			require.NoError(t, program.Build(t.Context(), v.path("bin", "vmrunner"), "vmop/cmd/vmrunner"))
			if !strings.HasPrefix(who, "root") {
				v.belongsTo(to, 4711)
			}
			args := append(slices.Clone(by), "--no-new-privs", v.path("bin", "vmrunner"), "run",
				"-c", v.path("config.yaml"), "--vmtypes", v.types)
			runner := exec.CommandContext(context.WithoutCancel(t.Context()), "setpriv", args...)
			v.starts(runner)
			v.attacked(to)
			wait.Until(t, func() bool {
				client, err := control.Dial(t.Context(), to.Control)
				if err != nil {
					return false
				}
				s, err := client.Status(t.Context())
				return err == nil && s.Confinement != nil && s.Confinement.OwnRoot
			}, "it has no separate root folder")
		})
	}
}

// unitLine returns the value of a setting of a unit.
func unitLine(t *testing.T, file, setting string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	_, rest, found := strings.Cut("\n"+string(text), "\n"+setting)
	require.True(t, found)
	value, _, _ := strings.Cut(rest, "\n")
	return value
}

// A program that replaces swtpm can access its own folder, but nothing else in the data directory.
func TestABrokenOutTPMGetsItsStateOnly(t *testing.T) {
	t.Parallel()
	v := newVM(t, "wrappedtpm")
	to := v.targets()
	var err error
	to.TPM = true
	to.Program, err = exec.LookPath("swtpm")
	require.NoError(t, err, "install the Debian package swtpm")
	v.configure("wrappedtpm", nil, "accelerator: tcg", "firmware: uefi-4m", "network: []", "maximumRam: 64 MiB",
		"useTpm: true", "options: {swtpm: PATH/bin/"+attacker+"}")
	v.write("data/tpm2-00.permall", "")
	v.aims(to)
	v.runs()
	v.attacked(to)
	require.NotEmpty(t, v.read("data", "tpm", "tpm2-00.permall"), "it works there")
	v.ends()
}

// aims passes the targets to the attacker.
func (v *vm) aims(to targets) {
	v.t.Helper()
	text, err := json.Marshal(to)
	require.NoError(v.t, err)
	v.write("bin/"+targetsFile, string(text))
}

// attacked requires that all of the attacker's attempts were refused except those in but, which succeeded, and that the
// permitted attempts succeeded.
func (v *vm) attacked(to targets, but ...string) {
	t := v.t
	t.Helper()
	results, late := map[string]int{}, map[string]int{}
	require.NoError(t, json.Unmarshal([]byte(v.read("bin", attacksFile)), &results))
	if !to.TPM { // which may not access the runtime directory
		wait.Until(t, func() bool {
			text, err := os.ReadFile(v.path("bin", lateFile))
			return err == nil && json.Unmarshal(text, &late) == nil
		})
		require.Len(t, late, 1)
		maps.Copy(results, late)
	}
	require.GreaterOrEqual(t, len(results), 40)
	for name, errno := range results {
		if slices.Contains(but, name) {
			assert.Zero(t, errno, "%s: %s", name, unix.Errno(errno))
			continue
		}
		assert.True(t, slices.Contains(refusals, unix.Errno(errno)), "%s: %d (%s)", name, errno, unix.Errno(errno))
	}
	t.Logf("%d attacks refused", len(results)-len(but))
	results = map[string]int{}
	require.NoError(t, json.Unmarshal([]byte(v.read("bin", accessesFile)), &results))
	require.Len(t, results, len(to.accesses()))
	for name, errno := range results {
		require.Zero(t, errno, "%s: %s", name, unix.Errno(errno))
	}
}

// targets creates the targets and the attacker.
func (v *vm) targets() targets {
	v.t.Helper()
	for _, dir := range []string{"bin", "disks", "cds", "secrets", "data", "run"} {
		require.NoError(v.t, os.MkdirAll(v.path(dir), 0o700))
	}
	own, err := os.Executable()
	require.NoError(v.t, err)
	text, err := os.ReadFile(own)
	require.NoError(v.t, err)
	require.NoError(v.t, os.WriteFile(v.path("bin", attacker), text, 0o755))
	qemu, err := exec.LookPath(qemuProgram)
	require.NoError(v.t, err, "install the Debian package qemu-system-x86")
	other, err := os.MkdirTemp("", "r") // of another VM
	require.NoError(v.t, err)
	v.t.Cleanup(func() { require.NoError(v.t, os.RemoveAll(other)) })
	to := targets{
		Secret: v.path("secrets", "token"), Disk: v.path("disks", "disk.img"),
		OtherDisk: v.path("disks", "other.img"), CD: v.path("cds", "a.iso"), Config: v.path("config.yaml"),
		Password: v.path("display-password"), Type: v.path("data", "vmtype.txtar"),
		OtherMonitor: filepath.Join(other, "monitor.sock"), Control: v.path("run", control.SocketName),
		Abstract: "@" + filepath.Base(v.dir), Program: qemu,
	}
	for _, file := range []string{to.Secret, to.Disk, to.OtherDisk, to.CD} {
		require.NoError(v.t, os.WriteFile(file, make([]byte, 1<<20), 0o600))
	}
	v.write("display-password", "secret")
	for _, at := range [][2]string{{"unix", to.OtherMonitor}, {"unix", to.Abstract}, {"tcp", "127.0.0.1:0"}} {
		l, err := net.Listen(at[0], at[1])
		require.NoError(v.t, err)
		v.t.Cleanup(func() { l.Close() })
		if tcp, ok := l.Addr().(*net.TCPAddr); ok {
			to.Port = tcp.Port
		}
	}
	return to
}
