package usernet_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/machine/usernet"
)

// said is QEMU 7.2's output for two networks. (runner/machine/reconcile and runner/control test a real QEMU.)
const said = "Hub -1 (n0):\r\n  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ\r\n" +
	"  TCP[HOST_FORWARD]   3       127.0.0.1 34571       10.0.2.15    80     0     0\r\n" +
	"  TCP[ESTABLISHED]   17       127.0.0.1 34571       10.0.2.15    80     0     0\r\n" +
	"Hub -1 (n1):\r\n  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ\r\n" +
	"  UDP[HOST_FORWARD]   8               * 34573       10.3.0.15     5     0     0\r\n" +
	"Hub 0 (n2):\r\n  Protocol[State]    FD  Source Address  Port   Dest. Address  Port RecvQ SendQ\r\n"

func TestParse(t *testing.T) {
	t.Parallel()
	require.Equal(t, map[string][]usernet.Forward{
		"n0": {{Protocol: "tcp", Address: "127.0.0.1", Host: 34571, Guest: 80}},
		"n1": {{Protocol: "udp", Address: "0.0.0.0", Host: 34573, Guest: 5}},
		"n2": nil,
	}, usernet.Parse(said))
	for _, line := range []string{
		"TCP[HOST_FORWARD] 3 127.0.0.1 x 10.0.2.15 80", "TCP[HOST_FORWARD] 3 127.0.0.1 34571 10.0.2.15 x",
		"TCP[HOST_FORWARD] 3 127.0.0.1 x 10.0.2.15 x", "TCP[SYN_SENT] 3 127.0.0.1 34571 10.0.2.15 80",
		"TCP[HOST_FORWARD] 3 127.0.0.1 34571 10.0.2.15",
	} {
		require.Equal(t, map[string][]usernet.Forward{"n0": nil}, usernet.Parse("Hub -1 (n0):\n"+line), line)
	}
	require.Empty(t, usernet.Parse(""))
	require.Empty(t, usernet.Parse("unknown command: 'info usernet'"))
}

func TestCommands(t *testing.T) {
	t.Parallel()
	f := usernet.Forward{Protocol: "udp", Address: "0.0.0.0", Host: 53, Guest: 5353}
	require.Equal(t, map[string]string{"command-line": "hostfwd_add net0 udp:0.0.0.0:53-:5353"},
		usernet.Add("net0", f).Arguments)
	require.Equal(t, map[string]string{"command-line": "hostfwd_remove net0 udp:0.0.0.0:53"},
		usernet.Remove("net0", f).Arguments)
	text, err := usernet.Said(json.RawMessage(`"host forwarding rule for tcp:0.0.0.0:34567 removed\r\n"`))
	require.NoError(t, err)
	require.True(t, usernet.Removed(text))
	require.False(t, usernet.Removed("Could not set up host forwarding rule 'tcp:0.0.0.0:34571-:1'"))
	_, err = usernet.Said(json.RawMessage(`{}`))
	require.Error(t, err)
}
