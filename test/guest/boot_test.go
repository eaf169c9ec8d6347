package guest_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/test/guest"
	"vmop/test/wait"
)

// plainVM is a QEMU that runs a guest.
type plainVM struct {
	t       *testing.T
	dir     string // contains sockets and all output
	process *exec.Cmd
	ended   chan error
	console net.Conn
	lines   <-chan string // the guest's console output
	monitor net.Conn
	replies *json.Decoder
}

// boot starts QEMU with the tiny guest, and a command port on a socket.
func boot(t *testing.T, commandLine string, args ...string) *plainVM {
	t.Helper()
	image := guest.Tiny(t)
	guest.TakePlace(t)
	return start(t, append([]string{
		"-machine", "q35", "-cpu", "max", "-m", "256",
		"-kernel", image.Kernel, "-initrd", image.Initrd,
		"-append", guest.CommandLine + " " + commandLine,
		"-device", "virtio-serial-pci", "-chardev", "socket,id=port,server=on,wait=off,path=DIR/port",
		"-device", "virtserialport,chardev=port,name=org.tiny.agent.0",
	}, args...)...)
}

// start starts QEMU with a console and a monitor on sockets. DIR in its arguments is replaced by the folder of the
// sockets.
func start(t *testing.T, args ...string) *plainVM {
	t.Helper()
	qemu, err := exec.LookPath("qemu-system-x86_64")
	require.NoError(t, err, "install the package qemu-system-x86")
	dir, err := os.MkdirTemp("", "guest")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	args = append([]string{
		"-nodefaults", "-display", "none", "-accel", "tcg",
		"-chardev", "socket,id=console,server=on,wait=on,path=DIR/console",
		"-serial", "chardev:console",
		"-qmp", "unix:DIR/qmp,server=on,wait=off",
	}, args...)
	for i, word := range args {
		args[i] = strings.ReplaceAll(word, "DIR", dir)
	}
	v := &plainVM{t: t, dir: dir, process: exec.CommandContext(t.Context(), qemu, args...), ended: make(chan error, 1)}
	stderr, err := os.Create(filepath.Join(dir, "stderr"))
	require.NoError(t, err)
	defer stderr.Close()
	v.process.Stderr = stderr
	require.NoError(t, v.process.Start())
	go func() { v.ended <- v.process.Wait(); close(v.ended) }()
	t.Cleanup(func() { _ = v.process.Process.Kill(); <-v.ended })

	v.console = v.dial("console")
	v.lines = follow(v.console)
	return v
}

// dial connects to a socket that QEMU is about to create.
func (v *plainVM) dial(name string) net.Conn {
	v.t.Helper()
	ctx, cancel := wait.Context(v.t.Context())
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", filepath.Join(v.dir, name))
		if err == nil {
			v.t.Cleanup(func() { conn.Close() })
			return conn
		}
		select {
		case fault := <-v.ended:
			output, _ := os.ReadFile(filepath.Join(v.dir, "stderr"))
			require.FailNow(v.t, "QEMU ended", "%v: %s", fault, output)
		case <-ctx.Done():
			require.NoError(v.t, err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// follow sends the lines of r, without their ends.
func follow(r io.Reader) <-chan string {
	lines := make(chan string, 4096)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(r); scan.Scan(); {
			lines <- strings.TrimRight(scan.Text(), "\r")
		}
	}()
	return lines
}

// await returns the next line that matches, with its submatches, and all earlier lines.
func await(t *testing.T, lines <-chan string, pattern string) (match, before []string) {
	t.Helper()
	expected, late := regexp.MustCompile(pattern), wait.Over(t)
	for {
		select {
		case line, open := <-lines:
			require.True(t, open, "the output ended before %q came, with:\n%s", pattern, strings.Join(before, "\n"))
			if match := expected.FindStringSubmatch(line); match != nil {
				return match, before
			}
			before = append(before, line)
		case <-late:
			require.FailNow(t, "no line in time", "%q, only:\n%s", pattern, strings.Join(before, "\n"))
		}
	}
}

// qmp runs a command in the monitor and decodes its result into reply, unless reply is nil. Nil arguments are left out.
func (v *plainVM) qmp(command string, arguments, reply any) {
	v.t.Helper()
	if v.monitor == nil {
		v.monitor = v.dial("qmp")
		v.replies = json.NewDecoder(v.monitor)
		v.qmp("qmp_capabilities", nil, nil)
	}
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	require.NoError(v.t, json.NewEncoder(v.monitor).Encode(request))
	for { // skip the greeting and events
		var message struct{ Return, Error json.RawMessage }
		require.NoError(v.t, v.replies.Decode(&message))
		require.Empty(v.t, string(message.Error))
		if message.Return != nil {
			if reply != nil {
				require.NoError(v.t, json.Unmarshal(message.Return, reply))
			}
			return
		}
	}
}

// gone waits for an orderly end of QEMU.
func (v *plainVM) gone() {
	v.t.Helper()
	err := wait.Receive(v.t, v.ended, "QEMU still runs")
	require.NoError(v.t, err)
}
