package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/test/guest"
	programs "vmop/test/program"
	"vmop/test/tier"
	"vmop/test/wait"
)

// bridged is a tiny guest on a bridge, in a network namespace of the test's goroutine, with an SSH server and QEMU's
// agent.
type bridged struct {
	t       *testing.T
	dir     string
	env     []string
	program string // path of vmrunner
	console *serial
}

// newBridged starts a guest with an address, and waits for it.
func newBridged(t *testing.T, address string) *bridged {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread and its namespace end with the goroutine
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNET), "make a network namespace (this test needs root)")
	b := &bridged{t: t, program: filepath.Join(build(t), "vmrunner")}
	for _, words := range []string{
		"link set lo up", "link add br7 type bridge", "address add 192.168.7.1/24 dev br7", "link set br7 up",
	} {
		ip(t, "%s", words)
	}
	server := filepath.Join(t.TempDir(), "sshd")
	require.NoError(t, programs.Build(t.Context(), server, "vmop/test/guest/sshd"))
	image := guest.Tiny(t).With(t, "/usr/sbin/qemu-ga", server)
	lines := tiny(t, "tiny.gw=192.168.7.1 tiny.ip="+address)
	for i, line := range lines {
		line = strings.ReplaceAll(line, guest.Tiny(t).Initrd, image.Initrd)
		lines[i] = strings.ReplaceAll(line, "network: []", "network: [{type: tap, bridge: br7}]")
	}
	b.dir = folder(t, "standard", lines...)
	b.env = append(os.Environ(), "XDG_RUNTIME_DIR="+b.dir)
	p := newProgram(t, b.dir, nil)
	p.cmd.Env = b.env
	p.launch()
	p.await(`booting`)
	b.console = console(t, b.dir)
	b.console.await(`TINY \S+ READY`)
	b.console.does("mkdir -p /etc; " + server + " >/dev/null 2>&1 & until netstat -ltn | grep -q :22; do sleep 0.2; done")
	b.console.does("/usr/sbin/qemu-ga -d -m virtio-serial -t /tmp -f /tmp/ga.pid -p " + agentPort)
	return b
}

// answersAt waits until the runner reports that the guest answers at an address.
func (b *bridged) answersAt(address string) {
	b.t.Helper()
	wait.Until(b.t, func() bool {
		said, err := b.types("", "status", "test")
		return err == nil && strings.Contains(said, address+" (Network, Agent)")
	})
}

// types runs vmrunner in the goroutine's namespace, and returns its output.
func (b *bridged) types(input string, args ...string) (string, error) {
	cmd := exec.CommandContext(b.t.Context(), b.program, args...)
	cmd.Env, cmd.Stdin = b.env, strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A guest on a bridge is reachable at the address that its agent reports: with vmrunner's forwarded ports, with ssh,
// and with scp in both directions.
func TestAGuestOnABridgeIsReached(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	b := newBridged(t, "192.168.7.7/24")
	must := func(input string, args ...string) string {
		t.Helper()
		out, err := b.types(input, args...)
		require.NoError(t, err, "vmrunner %q: %s", args, out)
		return out
	}
	b.answersAt("192.168.7.7")
	require.Regexp(t, `(?m)^test +Booted .* 192\.168\.7\.7 `, must("", "list"))
	require.Contains(t, must("GET / HTTP/1.0\r\n\r\n", "port-forward", "test", "80", "--stdio"), "hello from tiny")
	require.Equal(t, "42\n", lastLine(must("", "ssh", "root@test", "echo $((40+2))")))

	here, there, back := filepath.Join(b.dir, "here"), "root@test:/tmp/there", filepath.Join(b.dir, "back")
	content := strings.Repeat("0123456789\x00\xff", 20_000) // larger than a packet
	require.NoError(t, os.MkdirAll(filepath.Join(here, "below"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(here, "below", "file"), []byte(content), 0o600))
	must("", "cp", "-r", here, there)
	must("", "cp", there+"/below/file", back)
	copied, err := os.ReadFile(back)
	require.NoError(t, err)
	require.Equal(t, content, string(copied))
	out, err := b.types("", "cp", "root@test:/nowhere", back)
	require.Error(t, err)
	require.Contains(t, out, "/nowhere")

	// Other addresses that a guest claims are shown, but not used.
	b.console.does("ip address delete 192.168.7.7/24 dev eth0 && ip address add 192.168.7.1/24 dev eth0")
	b.answersAt("192.168.7.1")
	listener, err := net.Listen("tcp", "192.168.7.1:0")
	require.NoError(t, err)
	defer listener.Close()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	out, err = b.types("", "port-forward", "test", port, "--stdio")
	require.Error(t, err)
	require.Contains(t, out, "192.168.7.1 is not at the guest's card, although the guest reports it")
}

// lastLine returns the last line of a program's output. Before it, ssh prints that it did not know the guest.
func lastLine(text string) string {
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	return lines[len(lines)-1] + "\n"
}
