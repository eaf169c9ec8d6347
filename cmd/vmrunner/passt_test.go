package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/runner/control"
	"vmop/test/invariants"
	"vmop/test/tier"
	"vmop/test/wait"
	"vmop/vmstatus"
)

// enterHost takes the test's goroutine to a network namespace that looks like a host: it has
// the address 192.0.2.10, and what is reached by its default route is at 198.51.100.1.
func enterHost(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // the thread ends with the goroutine, and the namespace with it
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNET), "this test needs root")
	for _, command := range []string{
		"link set lo up",
		"link add eth0 type veth peer name far0", "link set far0 up", "link set eth0 up",
		"address add 192.0.2.10/24 dev eth0", "route add default via 192.0.2.1", "address add 198.51.100.1/32 dev far0",
	} {
		out, err := exec.CommandContext(t.Context(), "ip", strings.Fields(command)...).CombinedOutput()
		require.NoError(t, err, "ip %s: %s", command, out)
	}
}

// a passtGuest is a guest whose console the test has.
type passtGuest struct {
	t     *testing.T
	conn  net.Conn
	lines *bufio.Scanner
}

// serialOf opens the console of a VM that is booting.
func serialOf(t *testing.T, dir string) *passtGuest {
	t.Helper()
	client, err := control.Dial(t.Context(), filepath.Join(dir, "run", control.SocketName))
	require.NoError(t, err)
	conn, err := client.Console(t.Context(), control.Type)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return &passtGuest{t, conn, bufio.NewScanner(conn)}
}

// await returns the next line that matches.
func (g *passtGuest) await(pattern string) string {
	g.t.Helper()
	require.NoError(g.t, g.conn.SetReadDeadline(wait.Deadline()))
	for wanted := regexp.MustCompile(pattern); g.lines.Scan(); {
		if wanted.MatchString(g.lines.Text()) {
			return g.lines.Text()
		}
	}
	require.FailNow(g.t, "the console ended", "%s: %v", pattern, g.lines.Err())
	return ""
}

// run has the guest run a command.
func (g *passtGuest) run(command string) (status string) {
	g.t.Helper()
	_, err := io.WriteString(g.conn, "sh "+command+"\n")
	require.NoError(g.t, err)
	return strings.TrimSpace(g.await(`^rc=\d+`))
}

// page gets the guest's page from an address of the namespace that the test is in.
func page(t *testing.T, address string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // another try follows
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp4", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(5*time.Second)))
	if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return "", err
	}
	text, err := io.ReadAll(conn)
	return string(text), err
}

// isReached waits until the guest answers; what was sent while passt started is lost.
func isReached(t *testing.T, address string) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(tick) {
		text, err := page(t, address)
		if strings.Contains(text, "hello from tiny") {
			return
		}
		require.Less(t, time.Since(begin), patience, "%s: %v", address, err)
	}
}

// passtOf returns the process of a VM's passt.
func passtOf(t *testing.T, dir string) int {
	t.Helper()
	for name, pids := range invariants.Processes(t, dir) {
		if strings.HasPrefix(name, "passt") {
			require.Len(t, pids, 1)
			return pids[0]
		}
	}
	require.FailNow(t, "there is no passt")
	return 0
}

// listenAt reports who is reached where the test is.
func listenAt(t *testing.T, seen chan<- string, address string) {
	t.Helper()
	listener, err := net.Listen("tcp4", address)
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the test has ended
			}
			seen <- address
			conn.Close()
		}
	}()
}

// A guest has the host's address, reaches what the host reaches, though by its router no
// loopback address, and is reached by its ports; also when passt or the runner, or both, were
// killed.
func TestGuestWithPasst(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	enterHost(t)
	seen := make(chan string, 64)
	for _, address := range []string{"127.0.0.1:10250", "198.51.100.1:8443"} {
		listenAt(t, seen, address)
	}
	section := strings.ReplaceAll(strings.Join(tiny(t, "tiny.dhcp"), "\n"), "network: []",
		"network: [{type: passt, ports: [{host: 8080, guest: 80}, {host: 80, address: 0.0.0.0}]}]")
	dir := folder(t, "standard", strings.Split(section, "\n")...)
	first := start(t, dir, nil)
	first.await(`booting`)
	guest := serialOf(t, dir)
	require.Contains(t, guest.await(`net eth0 lease=`), "lease=192.0.2.10/24 router=192.0.2.1")
	guest.await(`TINY .* READY`)
	isReached(t, "127.0.0.1:8080")
	isReached(t, "192.0.2.10:80")
	_, err := page(t, "192.0.2.10:8080")
	require.ErrorIs(t, err, syscall.ECONNREFUSED, "a port without an address is at 127.0.0.1")

	guest.run("nc -w 3 192.0.2.1 10250 </dev/null")
	require.Equal(t, "rc=0", guest.run("nc -w 60 198.51.100.1 8443 </dev/null"))
	require.Equal(t, "198.51.100.1:8443", <-seen, "the router is no way to loopback addresses")
	require.Empty(t, seen)

	require.NoError(t, syscall.Kill(passtOf(t, dir), syscall.SIGKILL))
	first.await(`a helper ended while the VM runs`)
	first.await(`a helper was started again`)
	isReached(t, "127.0.0.1:8080")
	require.Empty(t, known(t, dir).Problems)

	passt := passtOf(t, dir)
	first.kill()
	second := start(t, dir, nil)
	second.await(`INF adopted`)
	second.await(`configuration read`)
	require.Equal(t, passt, passtOf(t, dir), "the one that was started again is adopted")
	isReached(t, "127.0.0.1:8080")
	second.kill()
	require.NoError(t, syscall.Kill(passt, syscall.SIGKILL))
	third := start(t, dir, nil)
	third.await(`a helper was started again`)
	isReached(t, "127.0.0.1:8080")

	third.reachesPorts(dir)
	third.signal(syscall.SIGTERM)
	require.Zero(t, third.exit())
	invariants.NothingLeft(t, dir)
}

// reachesPorts connects with ports of the guest by the runner, and changes them.
func (p *program) reachesPorts(dir string) {
	p.t.Helper()
	client, err := control.Dial(p.t.Context(), filepath.Join(dir, "run", control.SocketName))
	require.NoError(p.t, err)
	conn, err := client.Forward(p.t.Context(), 80)
	require.NoError(p.t, err)
	_, err = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
	require.NoError(p.t, err)
	said, err := io.ReadAll(conn)
	require.NoError(p.t, err)
	require.Contains(p.t, string(said), "hello from tiny")
	_, err = client.Forward(p.t.Context(), 22)
	require.ErrorContains(p.t, err, "port 22 of the guest can't be reached: its network is of the type passt")
	require.ErrorContains(p.t, err, "add {host: …, guest: 22} to vm.network[].ports")

	rewrite(p.t, dir, "host: 8080", "host: 8081")
	p.await(`configuration read`)
	wait.Until(p.t, func() bool {
		c := known(p.t, dir).Condition(vmstatus.ConditionRestartRequired)
		return c.Status == vmstatus.True && strings.Contains(c.Message, "vm.network[0].ports")
	}, "passt takes no other ports")
}

// What passt can't do is said with what would help, and nothing is left.
func TestPasstThatCannotRun(t *testing.T) {
	t.Parallel()
	enterHost(t)
	listener, err := net.Listen("tcp4", "127.0.0.1:8080")
	require.NoError(t, err)
	defer listener.Close()
	for _, row := range []struct{ what, ports, commands, reason string }{
		{
			"a port that is taken", "[{host: 8080, guest: 80}]", "true",
			"vm.network[].ports: another program has the port 8080 of the host",
		},
		{
			"no user namespaces", "[]", "echo 0 >/proc/sys/user/max_user_namespaces",
			"vm.network[].type: passt confines itself by namespaces of its own, which this host or container forbids",
		},
		{
			"no route", "[]", "ip route flush default",
			"vm.network[].type: passt gives the guest the address of this host's default route, and there is none",
		},
	} {
		dir := folder(t, "standard", "accelerator: tcg", "firmware: bios",
			"network: [{type: passt, ports: "+row.ports+"}]")
		p := newProgram(t, dir, nil).limited(row.commands)
		if strings.Contains(row.commands, "namespaces") { // of a user namespace of the program's own
			p.cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  unix.CLONE_NEWUSER,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}},
				GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}},
			}
		}
		p.launch()
		p.refuses(dir, 1, "passt-net0 ended before it was ready", row.reason)
	}
}

// An ordinary user needs no rights for it, but for low ports.
func TestPasstOfAnOrdinaryUser(t *testing.T) {
	t.Parallel()
	enterHost(t)
	dir := folder(t, "standard", "accelerator: tcg", "firmware: bios", "powerdownTimeout: 0",
		"network: [{type: passt, ports: [{host: 8080, guest: 80}]}]")
	p := newProgram(t, dir, nil).unprivileged(dir)
	p.launch()
	p.await(`WRN the guest reaches the host's loopback addresses`)
	p.await(`booting`)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", passtOf(t, dir)))
	require.NoError(t, err)
	require.Regexp(t, `(?m)^Seccomp:\t2$`, string(status))
	require.Regexp(t, `(?m)^CapEff:\t0+$`, string(status))
	confined := known(t, dir).Condition(vmstatus.ConditionConfined)
	require.Equal(t, vmstatus.ReasonPartlyConfined, confined.Reason)
	require.Contains(t, confined.Message, "the guest reaches the host's loopback addresses: /usr/bin/passt doesn't drop "+
		"packets to them; install a newer passt, or use a user network", "Debian 12's")
	conn, err := net.Dial("tcp4", "127.0.0.1:8080")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	p.signal(syscall.SIGTERM)
	require.Zero(t, p.exit())
	invariants.NothingLeft(t, dir)
}
