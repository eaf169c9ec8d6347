package netsetup_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/netsetup"
	"vmop/test/tier"
)

// A guest behind a masquerade reaches the world, but only addresses, DNS and pings of the namespace, which may be a
// node's with any listeners. It can't reach services that answer any client on this computer, such as a cloud's
// metadata service.
func TestWhatAGuestBehindAMasqueradeReaches(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	pod, world := newPodAndWorld(t)
	world.enter()
	configure(t, "pod", "169.254.169.254/32")
	seen := make(chan string, 64)
	listen(t, seen, "metadata", "tcp4", "169.254.169.254:80")
	listen(t, seen, "the world's web server", "tcp4", "192.0.2.1:80")
	pod.enter()
	configure(t, "lo", "169.254.20.10/32") // like Kubernetes' NodeLocal DNSCache
	for _, here := range []string{"192.0.2.10", "169.254.20.10"} {
		listen(t, seen, "kubelet at "+here, "tcp4", here+":10250")
	}
	listen(t, seen, "name server", "tcp4", "169.254.20.10:53")
	listen(t, seen, "name server by udp", "udp4", "169.254.20.10:53")
	listen(t, seen, "name server at a loopback address", "udp4", "127.0.0.1:53")
	listen(t, seen, "name server of the computer", "udp4", "192.0.2.10:53")
	// This forward opens the way from loopback addresses and must not open it to them.
	cfg := network("vm0", netsetup.Forward{HostPort: 8080, GuestPort: 80, Address: netip.MustParseAddr("127.0.0.1")})
	m, err := open(t, cfg)
	require.NoError(t, err)
	listen(t, seen, "kubelet at the gateway", "tcp4", "10.0.2.1:10250")
	vm := boot(t, m.Files()[0], cfg.MAC.String())
	vm.await("TINY .* READY")

	for _, command := range []string{
		"ip route del local 127.0.0.0/8 table local", "ip route del local 127.0.0.1 table local",
		"ip route add 127.0.0.1 via 10.0.2.1 src 10.0.2.2",
	} {
		status, output := vm.run(command)
		require.Equal(t, "rc=0", status, output)
	}
	vm.run("timeout 5 nslookup name 127.0.0.1")
	for _, to := range []string{"192.0.2.10 10250", "169.254.20.10 10250", "10.0.2.1 10250", "169.254.169.254 80"} {
		status, output := vm.run("nc -w 2 " + to + " </dev/null")
		require.NotEqual(t, "rc=0", status, "%s: %s", to, output)
	}
	vm.run("(nslookup name 169.254.20.10; nslookup name 192.0.2.10) >/dev/null 2>&1 &")
	status, output := vm.run("ping -c 1 -w 60 192.0.2.10")
	require.Equal(t, "rc=0", status, output)
	for _, to := range []string{"169.254.20.10 53", "192.0.2.1 80"} {
		vm.run("nc -w 60 " + to + " </dev/null")
	}
	reached := map[string]bool{}
	for len(reached) < 4 {
		reached[<-seen] = true
	}
	require.Equal(t, map[string]bool{
		"name server": true, "name server by udp": true, "name server of the computer": true,
		"the world's web server": true,
	}, reached)

	page, err := fetch(t, "127.0.0.1:8080")
	require.NoError(t, err, "answers come back")
	require.Contains(t, page, "hello from tiny")
	vm.stop()
	require.NoError(t, m.Close())
}

// A user network does not isolate the guest: QEMU connects to everything that it can reach itself, including every
// loopback address. In QEMU 7.2 only the option restrict prevents this, but it blocks everything else as well.
// Therefore the manager refuses a user network in a node's namespace.
func TestWhatAGuestOfAUserNetworkReaches(t *testing.T) {
	t.Parallel()
	pod, world := newPodAndWorld(t)
	set(t, "net/ipv6/conf/lo/disable_ipv6", "0")
	world.enter()
	configure(t, "pod", "169.254.169.254/32")
	seen := make(chan string, 64)
	listen(t, seen, "metadata", "tcp4", "169.254.169.254:80")
	pod.enter()
	listen(t, seen, "127.0.0.1", "tcp4", "127.0.0.1:10250")
	listen(t, seen, "another loopback address", "tcp4", "127.0.0.2:10250")
	listen(t, seen, "::1", "tcp6", "[::1]:10250")
	vm := bootBefore(t, "user", "02:00:00:00:00:01")
	vm.await("TINY .* READY")
	for _, command := range []string{
		"nc -w 60 10.0.2.2 10250 </dev/null", "nc -w 60 169.254.169.254 80 </dev/null",
		"ip route add 127.0.0.2/32 via 10.0.2.2", "(nc -w 60 127.0.0.2 10250 </dev/null) >/dev/null 2>&1 &",
		"echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad; ip -6 address add fec0::99/64 dev eth0",
		"nc -w 60 fec0::2 10250 </dev/null",
	} {
		status, output := vm.run(command)
		require.Equal(t, "rc=0", status, "%s: %s", command, output)
	}
	reached := map[string]bool{}
	for len(reached) < 4 {
		reached[<-seen] = true
	}
	vm.stop()

	restricted := bootBefore(t, "user,restrict=on", "02:00:00:00:00:01")
	restricted.await("TINY .* READY")
	for _, to := range []string{"10.0.2.2 10250", "169.254.169.254 80", "192.0.2.1 80"} {
		status, output := restricted.run("nc -w 2 " + to + " </dev/null")
		require.Equal(t, "rc=1", status, "%s: %s", to, output)
	}
	require.Empty(t, seen)
}

// listen reports clients that reach an address in the test's namespace.
func listen(t *testing.T, seen chan<- string, who, network, address string) {
	t.Helper()
	if strings.HasPrefix(network, "udp") {
		conn, err := net.ListenPacket(network, address)
		require.NoError(t, err)
		t.Cleanup(func() { conn.Close() })
		go func() {
			for {
				if _, _, err := conn.ReadFrom(make([]byte, 16)); err != nil {
					return
				}
				seen <- who
			}
		}()
		return
	}
	listener, err := net.Listen(network, address)
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			seen <- who
			conn.Close()
		}
	}()
}
