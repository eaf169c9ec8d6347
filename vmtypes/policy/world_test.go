package policy_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/vmtypes/plan"
	"vmop/vmtypes/policy"
)

// A world contains the files and addresses that QEMU can touch in a test. The policy allows some of them. The others
// detect access.
type world struct {
	dir    string
	policy *policy.Policy
	// closed is the port of a server that no plan may reach; opened is an allowed port for listening.
	closed, opened int
	callers        atomic.Int32 // calls of the servers that no plan may reach
	watch          int          // inotify
	canary         *os.File     // shares its flags with the descriptor 3 that QEMU inherits
	inherited      *os.File
	once           sync.Mutex // one QEMU at a time, to attribute its actions
}

// openTo is the policy of a world: it allows every option and, on the host, W/open, W/read and one port.
const openTo = `directories: [W/run]
rules:
  - types: [/types]
    flags: [stock, -fw_cfg, -smbios, -fsdev]
    devices: [stock]
    backends: [stock, "chardev *", "object *", "blockdev *", "netdev *", "fsdev local"]
    read: [stock, W/read/**]
    write: [W/open/**]
    programs: [stock]
    networks: [stock]
    listen: ["127.0.0.1:PORT"]
`

func newWorld(t testing.TB) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "w")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	w := &world{dir: dir}
	for _, folder := range []string{"open", "read", "secret", "run"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, folder), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, folder, "f"), make([]byte, 65536), 0o600))
	}
	require.NoError(t, os.WriteFile(dir+"/read/k", multiboot(), 0o600))
	var lc net.ListenConfig
	for _, address := range [][2]string{{"tcp", "127.0.0.1:0"}, {"unix", dir + "/secret/s"}} {
		l, err := lc.Listen(t.Context(), address[0], address[1])
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
		go w.count(l)
		if tcp, is := l.Addr().(*net.TCPAddr); is {
			w.closed = tcp.Port
		}
	}
	free, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w.opened = free.Addr().(*net.TCPAddr).Port
	require.NoError(t, free.Close())
	w.policy, err = policy.Read("p.yaml", []byte(strings.NewReplacer(
		"W/", dir+"/", "PORT", fmt.Sprint(w.opened)).Replace(openTo)))
	require.NoError(t, err)
	w.watch, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(w.watch) })
	const changes = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_DELETE
	for folder, event := range map[string]uint32{"secret": unix.IN_OPEN, "read": unix.IN_CLOSE_WRITE} {
		_, err = unix.InotifyAddWatch(w.watch, filepath.Join(dir, folder), event|changes)
		require.NoError(t, err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	w.inherited, w.canary = os.NewFile(uintptr(pair[0]), "inherited"), os.NewFile(uintptr(pair[1]), "peer")
	t.Cleanup(func() { _, _ = w.inherited.Close(), w.canary.Close() })
	return w
}

// multiboot returns a kernel that QEMU loads because of its header (Multiboot 0.6.96, 3.1), with files as modules.
func multiboot() []byte {
	const magic, flags, address = 0x1badb002, 1 << 16, 1 << 20
	kernel := make([]byte, 4096)
	for i, word := range []uint32{
		magic, flags, -(magic + flags) & 0xffffffff, address, address, address + 4096, address + 4096, address + 32,
	} {
		binary.LittleEndian.PutUint32(kernel[4*i:], word)
	}
	return kernel
}

func (w *world) count(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		w.callers.Add(1)
		_ = c.Close()
	}
}

// plan returns the plan of a machine with options. It adds a sandbox unless the options contain one.
func (w *world) plan(machine string, options ...plan.Option) *plan.Plan {
	p := &plan.Plan{Type: "fuzz", QEMU: plan.Process{Name: "qemu", Executable: "/usr/bin/qemu-system-x86_64"}}
	p.QEMU.Args = append(p.QEMU.Args, plan.Option{Flag: "-nodefaults"},
		plan.Option{Flag: "-machine", Value: machine, List: true}, plan.Option{Flag: "-display", Value: "none"})
	if !slices.ContainsFunc(options, func(o plan.Option) bool { return o.Flag == "-sandbox" }) {
		p.QEMU.Args = append(p.QEMU.Args, plan.Option{
			Flag: "-sandbox", Value: "on", List: true,
			Properties: []plan.Property{{Key: "elevateprivileges", Value: "deny"}, {Key: "spawn", Value: "deny"}},
		})
	}
	p.QEMU.Args = append(p.QEMU.Args, options...)
	return p
}

// allows reports whether the plan is valid and the policy allows it.
func (w *world) allows(p *plan.Plan) bool {
	subject := policy.Subject{Folder: "/types", DataDir: w.dir + "/run", RuntimeDir: w.dir + "/run"}
	return len(p.Check()) == 0 && w.policy.Check(p, subject) == nil
}

// A deed contains the actions of QEMU on the host.
type deed struct {
	ran       bool     // QEMU has started its monitor
	sandboxed bool     // by seccomp
	listens   []string // TCP addresses and unix sockets
	forbidden []string // things that no plan may touch, but QEMU touched
	stderr    string
}

// runs runs a plan's QEMU until its monitor starts, and returns its actions.
func (w *world) runs(t testing.TB, p *plan.Plan) (d deed) {
	t.Helper()
	w.once.Lock()
	defer w.once.Unlock()
	w.touched() // ignore earlier actions
	w.callers.Store(0)
	require.NoError(t, unix.SetNonblock(int(w.inherited.Fd()), false))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, p.QEMU.Executable, append([]string{"-S", "-qmp", "stdio"}, p.QEMU.Argv()...)...)
	cmd.Dir, cmd.ExtraFiles = w.dir+"/run", []*os.File{w.inherited}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, _ = io.WriteString(in, `{"execute":"qmp_capabilities"}`) // it may already have ended
	for lines := bufio.NewScanner(out); !d.ran && lines.Scan(); {
		d.ran = strings.Contains(lines.Text(), "return") // the greeting comes first
	}
	if d.ran {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		require.NoError(t, err)
		d.sandboxed = strings.Contains(string(status), "Seccomp:\t2\n")
		d.listens = append(listening(t, cmd.Process.Pid), w.sockets(t)...)
		_, err = io.WriteString(in, `{"execute":"quit"}`)
		require.NoError(t, err)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait()
	d.forbidden, d.stderr = w.touched(), stderr.String()
	if n := w.callers.Load(); n > 0 {
		d.forbidden = append(d.forbidden, "a server that no plan may reach")
	}
	flags, err := unix.FcntlInt(w.inherited.Fd(), unix.F_GETFL, 0)
	require.NoError(t, err)
	if flags&unix.O_NONBLOCK != 0 {
		d.forbidden = append(d.forbidden, "the descriptor 3")
	}
	return d
}

// touched returns the names of the files in the watched folders that were touched since the last call.
func (w *world) touched() (names []string) {
	buffer := make([]byte, 65536)
	for {
		n, err := unix.Read(w.watch, buffer)
		if errors.Is(err, syscall.EAGAIN) || n <= 0 {
			return names
		}
		for at := 0; at < n; {
			size := int(binary.NativeEndian.Uint32(buffer[at+12:]))
			mask := binary.NativeEndian.Uint32(buffer[at+4:])
			name := strings.TrimRight(string(buffer[at+16:at+16+size]), "\x00")
			names = append(names, fmt.Sprintf("%s (inotify %#x)", name, mask))
			at += 16 + size
		}
	}
}

// sockets returns the unix sockets in the allowed folder, and removes them.
func (w *world) sockets(t testing.TB) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(w.dir + "/open")
	require.NoError(t, err)
	for _, e := range entries {
		if e.Type() == os.ModeSocket {
			list = append(list, filepath.Join(w.dir, "open", e.Name()))
			require.NoError(t, os.Remove(list[len(list)-1]))
		}
	}
	return list
}

// listening returns the TCP addresses on which a process accepts connections.
func listening(t testing.TB, pid int) (list []string) {
	t.Helper()
	entries, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(t, err)
	own := map[string]bool{}
	for _, entry := range entries {
		if target, err := os.Readlink(entry); err == nil {
			own[strings.TrimSuffix(strings.TrimPrefix(target, "socket:["), "]")] = true
		}
	}
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			switch {
			case table == "tcp" && len(f) > 9 && f[3] == "0A" && own[f[9]]:
				var ip [4]byte
				var port int
				_, err := fmt.Sscanf(f[1], "%02X%02X%02X%02X:%04X", &ip[3], &ip[2], &ip[1], &ip[0], &port)
				require.NoError(t, err)
				list = append(list, fmt.Sprintf("%d.%d.%d.%d:%d", ip[0], ip[1], ip[2], ip[3], port))
			case table == "tcp6" && len(f) > 9 && f[3] == "0A" && own[f[9]]:
				list = append(list, "IPv6 "+f[1])
			}
		}
	}
	return list
}
