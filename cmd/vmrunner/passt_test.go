package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/test/invariants"
	"vmop/test/tier"
	"vmop/test/wait"
	"vmop/vmstatus"
)

// enterHost moves the test's goroutine to a network namespace that looks like a host: it has the address 192.0.2.10,
// and its default route leads to 198.51.100.1.
func enterHost(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // the thread and its namespace end with the goroutine
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNET), "this test needs root")
	for _, command := range []string{
		"link set lo up",
		"link add eth0 type veth peer name far0", "link set far0 up", "link set eth0 up",
		"address add 192.0.2.10/24 dev eth0", "route add default via 192.0.2.1", "address add 198.51.100.1/32 dev far0",
	} {
		ip(t, "%s", command)
	}
}

// page returns the guest's page from an address in the test's namespace.
func page(t *testing.T, address string) (string, error) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // the caller tries again
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

// isReached waits until the guest answers. Packets that arrive before passt has started are lost.
func isReached(t *testing.T, address string) {
	t.Helper()
	wait.For(t, "an answer of "+address, func() error {
		text, err := page(t, address)
		if err == nil && !strings.Contains(text, "hello from tiny") {
			err = errors.New("the page is not there")
		}
		return err
	})
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

// listenAt reports connections to an address in the test's namespace.
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

// A guest has the host's address, reaches the same destinations as the host, but no loopback addresses through its
// router, and is reachable at its ports. This also holds after passt, the runner or both were killed.
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
	first := booted(t, dir)
	guest := console(t, dir)
	guest.await(`net eth0 lease=192\.0\.2\.10/24 router=192\.0\.2\.1`)
	guest.await(`TINY .* READY`)
	isReached(t, "127.0.0.1:8080")
	isReached(t, "192.0.2.10:80")
	_, err := page(t, "192.0.2.10:8080")
	require.ErrorIs(t, err, syscall.ECONNREFUSED, "a port without an address is at 127.0.0.1")

	guest.typeLine("sh nc -w 3 192.0.2.1 10250 </dev/null")
	guest.await(`(?m)^rc=\d+`)
	guest.does("nc -w 60 198.51.100.1 8443 </dev/null")
	require.Equal(t, "198.51.100.1:8443", <-seen, "the router is no way to loopback addresses")
	require.Empty(t, seen)

	require.NoError(t, syscall.Kill(passtOf(t, dir), syscall.SIGKILL))
	first.await(`a helper ended while the VM runs`)
	first.await(`a helper was started again`)
	isReached(t, "127.0.0.1:8080")
	require.Empty(t, known(t, dir).Problems)

	passt := passtOf(t, dir)
	first.kill()
	second := adopted(t, dir)
	second.await(`configuration read`)
	require.Equal(t, passt, passtOf(t, dir), "the one that was started again is adopted")
	isReached(t, "127.0.0.1:8080")
	second.kill()
	require.NoError(t, syscall.Kill(passt, syscall.SIGKILL))
	third := start(t, dir, nil)
	third.await(`a helper was started again`)
	isReached(t, "127.0.0.1:8080")

	third.reachesPorts(dir)
	third.stops(dir)
}

// reachesPorts connects to the guest's forwarded ports, and changes them.
func (p *program) reachesPorts(dir string) {
	p.t.Helper()
	client := dial(p.t, dir)
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

// If passt can't run, the error suggests a solution, and no files or processes are left.
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
			"vm.network[].type: passt confines itself with user namespaces, which this host or container forbids",
		},
		{
			"no route", "[]", "ip route flush default",
			"vm.network[].type: passt gives the guest the address of this host's default route, and there is none",
		},
	} {
		dir := folder(t, "standard", "accelerator: tcg", "firmware: bios",
			"network: [{type: passt, ports: "+row.ports+"}]")
		p := newProgram(t, dir, nil).limited(row.commands)
		if strings.Contains(row.commands, "namespaces") { // in the program's own user namespace
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

// An ordinary user needs no privileges, except for low ports.
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
	p.stops(dir)
}
