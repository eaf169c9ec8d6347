package control_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/control"
	"vmop/runner/machine/usernet"
	"vmop/runner/status"
	"vmop/test/wait"
)

// forwards returns the lines about forwarded ports from a real QEMU.
func (s *served) forwards(t *testing.T) (lines []string) {
	t.Helper()
	reply, err := s.backend.Run(timeout(t), qmp.Command{
		Execute: "human-monitor-command", Arguments: map[string]string{"command-line": "info usernet"},
	})
	require.NoError(t, err)
	for line := range strings.SplitSeq(string(reply), `\r\n`) {
		if strings.Contains(line, "HOST_FORWARD") {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
	}
	return lines
}

// QEMU listens only while a stream for a port is open. (cmd/vmrunner has a test with a guest that answers.)
func TestPortsOfTheGuest(t *testing.T) {
	t.Parallel()
	s := serveQEMU(t, "-netdev", "user,id=net0,hostfwd=tcp:127.0.0.1:0-:2022", "-device", "virtio-net-pci,netdev=net0")
	client := s.client
	configured := s.forwards(t)
	require.Len(t, configured, 1)
	first, err := client.Forward(timeout(t), 80)
	require.NoError(t, err)
	second, err := client.Forward(timeout(t), 80)
	require.NoError(t, err)
	require.Len(t, s.forwards(t), 2, "one for both streams")
	require.Contains(t, strings.Join(s.forwards(t), "\n"), " "+usernet.Temporary+" ")
	require.NoError(t, first.Close())
	other, err := client.Forward(timeout(t), 2022)
	require.NoError(t, err)
	require.Len(t, s.forwards(t), 2, "the configuration's port is used")
	require.NoError(t, other.Close())
	require.NoError(t, second.Close())
	wait.Until(t, func() bool { return len(s.forwards(t)) == 1 })
	require.Equal(t, configured, s.forwards(t))
}

func TestPortsOfAGuestWithoutUserNetwork(t *testing.T) {
	t.Parallel()
	s := serveQEMU(t)
	client := s.client
	_, err := client.Forward(timeout(t), 80)
	require.EqualError(t, err, "the guest can't be reached: the VM has no network of type user, and no guest agent has "+
		"reported an address")
	_, err = client.Forward(timeout(t), 0)
	require.ErrorContains(t, err, "must be a TCP port of the guest")
	s.tracker.Update(status.Interfaces{{Name: "eth0", Addresses: []string{"127.0.0.1/8", "fe80::1/64", "nonsense"}}})
	_, err = client.Forward(timeout(t), 80)
	require.ErrorContains(t, err, "no guest agent has reported an address", "addresses of the host itself are none")
	require.ErrorAs(t, err, new(*control.AnswerError))
}

// If a guest reports an address of this host, a client is not connected to the service at that address.
func TestAGuestDoesNotNameAddressesOfOthers(t *testing.T) {
	t.Parallel()
	s := serveQEMU(t)
	own := ""
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range addresses {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil && prefix.Addr().IsGlobalUnicast() {
			own = a.String()
		}
	}
	require.NotEmpty(t, own, "this computer has an address")
	host, _, _ := strings.Cut(own, "/")
	listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	require.NoError(t, err)
	defer listener.Close()
	s.tracker.Update(status.Interfaces{{Name: "eth0", Addresses: []string{own}}})
	_, err = s.client.Forward(timeout(t), listener.Addr().(*net.TCPAddr).Port)
	require.ErrorContains(t, err, host+" is not at the guest's card, although the guest reports it")
}
