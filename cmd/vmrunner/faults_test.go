package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/internal/atomicfile"
	"vmop/runner/control"
	"vmop/test/invariants"
	"vmop/test/wait"
)

// The rows of the fault matrix (test/faults) about the program: the effects of signals, limits and other users, and its
// exit codes.

// limited runs shell commands before the shell becomes vmrunner.
func (p *program) limited(commands string) *program {
	p.t.Helper()
	shell, err := exec.LookPath("sh")
	require.NoError(p.t, err)
	p.cmd.Args = append([]string{shell, "-c", commands + `; exec "$0" "$@"`, p.cmd.Path}, p.cmd.Args[1:]...)
	p.cmd.Path = shell
	return p
}

// nobody is an unprivileged user.
const nobody = 65534

// unprivileged runs vmrunner as nobody, who becomes the owner of the folder.
func (p *program) unprivileged(dir string) *program {
	p.t.Helper()
	ours, err := os.ReadFile(p.cmd.Path)
	require.NoError(p.t, err)
	program := filepath.Join(dir, "bin", "vmrunner")
	require.NoError(p.t, os.Mkdir(filepath.Dir(program), 0o755))
	types := slices.Index(p.cmd.Args, "--vmtypes") + 1
	require.NoError(p.t, os.CopyFS(filepath.Join(dir, "types"), os.DirFS(p.cmd.Args[types])))
	p.cmd.Args[types] = filepath.Join(dir, "types")
	syscall.ForkLock.RLock() // no child process may inherit the file while it is open for writing
	defer syscall.ForkLock.RUnlock()
	require.NoError(p.t, os.WriteFile(program, ours, 0o755))
	require.NoError(p.t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, nobody, nobody)
	}), "this test needs root")
	p.cmd.Path = program
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	return p
}

// refuses requires that a VM does not start, that the reason is printed, and that the attempt leaves no files or
// processes.
func (p *program) refuses(dir string, code int, reason string, more ...string) {
	p.t.Helper()
	require.Equal(p.t, code, p.exit())
	for _, part := range append(more, "vmrunner: "+strings.ReplaceAll(reason, "PATH", dir)) {
		require.Contains(p.t, p.out.String(), part)
	}
	invariants.NothingLeft(p.t, dir)
}

func TestFault06NoProgramForQEMU(t *testing.T) {
	t.Parallel()
	tests := []struct{ what, section, reason string }{
		{"not there", "options: {qemu: PATH/absent}", "start qemu: stat PATH/absent: no such file or directory\n"},
		{
			"not executable", "options: {qemu: PATH/config.yaml}",
			"start qemu: PATH/config.yaml is not executable (mode -rw-------): permission denied\n",
		},
		{"a folder", "options: {qemu: PATH}", "start qemu: PATH is a directory: permission denied\n"},
		{
			"of another machine", "options: {qemu: PATH/foreign}",
			"start qemu: PATH/foreign is not a program for this machine: exec format error\n",
		},
		{
			"without its interpreter", "options: {qemu: PATH/script}",
			"start qemu: PATH/script exists, but the interpreter or loader that it names does not: no such file or " +
				"directory\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			dir := folder(t, "bare", tt.section)
			p := newProgram(t, dir, nil)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "foreign"), foreign(t), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "script"), []byte("#!/absent/interpreter\n"), 0o700))
			p.launch()
			p.refuses(dir, exitFailed, tt.reason)
		})
	}
}

// foreign returns a program for IBM mainframes: the header of one of our programs with another machine type.
func foreign(t *testing.T) []byte {
	t.Helper()
	self, err := os.Open(os.Args[0])
	require.NoError(t, err)
	defer self.Close()
	head := make([]byte, 4096)
	_, err = io.ReadFull(self, head)
	require.NoError(t, err)
	const machine, s390 = 18, 22 // offsets in the ELF header
	head[machine], head[machine+1] = s390, 0
	return head
}

func TestFault16TermInTheFirmware(t *testing.T) {
	t.Parallel()
	dir := folder(t, "standard", "accelerator: tcg", "firmware: uefi-4m", "useTpm: true", "network: []",
		"powerdownTimeout: 1", "drives: [{file: PATH/disk.qcow2, format: qcow2}]")
	disk := filepath.Join(dir, "disk.qcow2")
	invariants.NewDisk(t, disk, "precious")
	p := booted(t, dir)
	invariants.OneQEMU(t, dir)
	p.signal(syscall.SIGTERM)
	p.await(`event=POWERDOWN`)
	p.await(`QMP quit`)
	require.Zero(t, p.exit())
	require.Contains(t, p.out.String(), "forced (host-qmp-quit)")
	invariants.NothingLeft(t, dir)
	invariants.WholeDisk(t, disk, "precious")
	require.Len(t, invariants.Files(t, filepath.Join(dir, "data")), 3)
}

func TestFault18MoreSignals(t *testing.T) {
	t.Parallel()
	dir := folder(t, "bare", "powerdownTimeout: 900")
	p := booted(t, dir)
	qemu := invariants.OneQEMU(t, dir)

	p.signal(syscall.SIGHUP)
	p.await(`reading the configuration again, as requested`)
	config := filepath.Join(dir, "config.yaml")
	good, err := os.ReadFile(config)
	require.NoError(t, err)
	require.NoError(t, atomicfile.Write(config, []byte("a: 1\n"), 0o600, atomicfile.Volatile))
	p.await(`cannot be used.*unknown section`)
	p.signal(syscall.SIGHUP) // a reported error is reported again
	p.await(`cannot be used.*unknown section`)
	require.NoError(t, atomicfile.Write(config, good, 0o600, atomicfile.Volatile))
	p.await(`configuration read`)
	changed := unseen(t, config, "powerdownTimeout: 900", "powerdownTimeout:   1")
	p.signal(syscall.SIGHUP)
	p.await(`configuration read`)
	require.Equal(t, qemu, invariants.OneQEMU(t, dir))

	p.signal(syscall.SIGTERM)
	p.await(`terminating`)
	p.await(`ACPI power button.* timeout=1s`)
	for _, again := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM} {
		p.signal(again)
	}
	require.Zero(t, p.exit())
	require.Equal(t, 1, strings.Count(p.out.String(), "terminating"))
	require.Equal(t, 1, strings.Count(p.out.String(), "QMP quit"))
	require.Contains(t, p.out.String(), "forced (host-qmp-quit)")
	require.NoError(t, changed.Close())
	invariants.NothingLeft(t, dir)
}

// unseen changes a file through memory, without an inotify(7) event. Closing a file that was open for writing causes an
// event, so the file is returned open.
func unseen(t *testing.T, path, from, to string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() }) // if the test fails earlier
	info, err := f.Stat()
	require.NoError(t, err)
	text, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	at := strings.Index(string(text), from)
	require.GreaterOrEqual(t, at, 0)
	require.Len(t, to, len(from))
	copy(text[at:], to)
	require.NoError(t, unix.Munmap(text))
	return f
}

func TestFault19TermBetweenHelperAndQEMU(t *testing.T) {
	t.Parallel()
	swtpm, err := exec.LookPath("swtpm")
	require.NoError(t, err, "install the Debian package swtpm")
	dir := folder(t, "bare", "options: {helper: {program: "+swtpm+", ready: PATH/never, arguments:"+
		" [socket, --tpm2, --tpmstate, 'dir=PATH', --ctrl, 'type=unixio,path=PATH/ctrl']}}")
	p := start(t, dir, nil)
	p.await(`starting`)
	wait.Until(t, func() bool { return len(invariants.Processes(t, dir)["swtpm"]) == 1 })
	p.signal(syscall.SIGTERM)
	p.refuses(dir, 143, "stopped while the VM was being started: signal terminated\n")
	require.NotContains(t, p.out.String(), "process=qemu")
}

func TestFault28DataDirectory(t *testing.T) {
	t.Parallel()
	t.Run("is on a read-only file system", func(t *testing.T) {
		t.Parallel()
		dir := folder(t, "bare")
		data := t.TempDir() // outside of dir, where a mount would count as a leftover
		require.NoError(t, syscall.Mount("tmpfs", data, "tmpfs", syscall.MS_RDONLY, "size=64k"), "this test needs root")
		t.Cleanup(func() { require.NoError(t, syscall.Unmount(data, 0)) })
		require.NoError(t, os.Symlink(data, filepath.Join(dir, "data")))
		p := start(t, dir, nil)
		p.refuses(dir, exitFailed, "open lock of the VM: open PATH/data/", "lock: read-only file system\n")
	})
	t.Run("is another user's", func(t *testing.T) {
		t.Parallel()
		dir := folder(t, "bare")
		p := newProgram(t, dir, nil).unprivileged(dir)
		require.NoError(t, os.Mkdir(filepath.Join(dir, "data"), 0o700))
		p.launch()
		p.refuses(dir, exitFailed, "open lock of the VM: open PATH/data/", "lock: permission denied\n")
	})
	t.Run("can't be made", func(t *testing.T) {
		t.Parallel()
		dir := folder(t, "bare")
		p := newProgram(t, dir, nil).unprivileged(dir)
		require.NoError(t, os.Chmod(dir, 0o555))
		p.launch()
		p.refuses(dir, exitFailed, "make data directory: mkdir PATH/data: permission denied\n")
	})
}

func TestFault30TheDiskOrTheVMIsTaken(t *testing.T) {
	t.Parallel()
	dir := folder(t, "standard", "accelerator: tcg", "firmware: bios", "network: []", "powerdownTimeout: 0",
		"drives: [{file: PATH/disk.qcow2, format: qcow2}]")
	disk := filepath.Join(dir, "disk.qcow2")
	invariants.NewDisk(t, disk, "precious")
	first := booted(t, dir)
	qemu := invariants.OneQEMU(t, dir)

	second := start(t, dir, nil)
	require.Equal(t, exitLocked, second.exit())
	require.Contains(t, second.out.String(), "vmrunner: the VM runs already: "+filepath.Join(dir, "data"))

	other := folder(t, "standard", "accelerator: tcg", "firmware: bios", "network: []",
		"drives: [{file: "+disk+", format: qcow2}]")
	third := start(t, other, nil)
	third.refuses(other, exitFailed, "qemu ended while the VM was being started: exit status 1\n")
	require.Contains(t, third.out.String(), `Failed to get "write" lock`)
	require.Equal(t, 1, strings.Count(third.out.String(), "starting"), "it is not tried again and again")

	require.Equal(t, qemu, invariants.OneQEMU(t, dir))
	first.stops(dir)
	invariants.WholeDisk(t, disk, "precious")
}

// killAll kills all processes of a VM, like a power failure of the node. (Written data stays in the kernel's memory,
// however.) It kills the runner first, which would otherwise restart helpers.
func killAll(t *testing.T, dir string, p *program) {
	t.Helper()
	p.kill()
	var all []int
	for _, pids := range invariants.Processes(t, dir) {
		all = append(all, pids...)
	}
	end(t, unix.SIGKILL, all...)
	invariants.NoProcess(t, dir)
}

// end sends a signal to processes and waits until they have ended. An ending process may have lost the arguments by
// which it is found, but still hold its locks.
func end(t *testing.T, signal syscall.Signal, pids ...int) {
	t.Helper()
	var told []unix.PollFd
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue // it has ended by itself
		}
		require.NoError(t, err)
		defer unix.Close(fd)
		told = append(told, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	for i := range told {
		err := unix.PidfdSendSignal(int(told[i].Fd), signal, nil, 0)
		require.True(t, err == nil || errors.Is(err, unix.ESRCH), err)
	}
	for i := range told {
		wait.Until(t, func() bool {
			n, _ := unix.Poll(told[i:i+1], 0)
			return n == 1
		})
	}
}

// serial is the guest's serial console.
type serial struct {
	conn net.Conn
	out  *program // the guest's output
}

// console opens the serial console of a running VM.
func console(t *testing.T, dir string) *serial {
	t.Helper()
	client := dial(t, dir)
	conn, err := client.Console(t.Context(), control.Type)
	require.NoError(t, err)
	s := &serial{conn: conn, out: &program{t: t, out: newTranscript(), ended: make(chan struct{})}}
	go func() {
		defer close(s.out.ended)
		lines := bufio.NewScanner(conn)
		for lines.Scan() {
			_, _ = s.out.out.Write(append(lines.Bytes(), '\n'))
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-s.out.ended
		if t.Failed() {
			t.Logf("the guest's output:\n%s", s.out.out)
		}
	})
	return s
}

func (s *serial) await(pattern string) {
	s.out.t.Helper()
	s.out.await(pattern)
}

func (s *serial) typeLine(line string) {
	s.out.t.Helper()
	_, err := io.WriteString(s.conn, line+"\n")
	require.NoError(s.out.t, err)
}

// does runs a command in the tiny guest that must succeed.
func (s *serial) does(command string) {
	s.out.t.Helper()
	s.typeLine("sh " + command)
	s.await(`(?m)^rc=0`)
}
