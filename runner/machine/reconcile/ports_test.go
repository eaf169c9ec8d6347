package reconcile_test

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/machine/reconcile"
	"vmop/runner/machine/usernet"
	"vmop/test/ports"
	"vmop/vmtypes/plan"
)

var portsRule = plan.Ports{Network: 1, Netdev: "net1"}

func tcp(host, guest int) usernet.Forward {
	return usernet.Forward{Protocol: "tcp", Address: "0.0.0.0", Host: host, Guest: guest}
}

func portsWanted(all ...usernet.Forward) map[int][]usernet.Forward {
	return map[int][]usernet.Forward{1: append([]usernet.Forward{}, all...)}
}

func monitorLine(text string) string {
	return fmt.Sprintf(`human-monitor-command {"command-line":%q}`, text)
}

func TestPortsAreForwarded(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{Ports: portsWanted(tcp(2222, 22))}, portsRule)
	k.silent()
	k.want.Ports = portsWanted(tcp(2222, 22))
	k.silent()
	k.want.Ports = portsWanted(tcp(80, 8080), tcp(443, 443))
	k.says(monitorLine("hostfwd_remove net1 tcp:0.0.0.0:2222"), monitorLine("hostfwd_add net1 tcp:0.0.0.0:80-:8080"),
		monitorLine("hostfwd_add net1 tcp:0.0.0.0:443-:443"))
	k.returns(`"host forwarding rule for tcp:0.0.0.0:2222 removed\r\n"`, `""`,
		`"Could not set up host forwarding rule 'tcp:0.0.0.0:443-:443'\r\n"`)
	k.complains("vm.network[1].ports: change the ports: Could not set up host forwarding rule 'tcp:0.0.0.0:443-:443'; " +
		"another program uses the port, or QEMU may not listen on it before the next start of the VM")
	step := k.step()
	k.passes(step.Wake.Sub(k.now))
	k.says("human-monitor-command " + `{"command-line":"info usernet"}`)
	k.returns(`"Hub -1 (net1):\r\n  TCP[HOST_FORWARD] 9 * 80 10.0.2.15 8080 0 0\r\n"`)
	k.says(monitorLine("hostfwd_add net1 tcp:0.0.0.0:443-:443"))
	k.returns(`""`)
	k.silent()
	k.complains()
}

// An adopted machine's ports are queried, and the ports opened by a killed runner's clients are closed.
func TestPortsOfAFoundMachine(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{Running: true, Ports: portsWanted(tcp(2222, 22))}, portsRule)
	k.want.Ports = portsWanted(tcp(2222, 22))
	k.says(monitorLine("info usernet"))
	k.returns(fmt.Sprintf(`"Hub -1 (net1):\r\n TCP[HOST_FORWARD] 9 %s 40000 10.0.2.15 22 0 0\r\n`+
		` TCP[HOST_FORWARD] 9 * 99 10.0.2.15 99 0 0\r\n"`, usernet.Temporary))
	left := "tcp:" + usernet.Temporary + ":40000"
	k.says(monitorLine("hostfwd_remove net1 "+left), monitorLine("hostfwd_remove net1 tcp:0.0.0.0:99"),
		monitorLine("hostfwd_add net1 tcp:0.0.0.0:2222-:22"))
	k.returns(`"host forwarding rule for `+left+` removed\r\n"`,
		`"host forwarding rule for tcp:0.0.0.0:99 not found\r\n"`, `"Could not set up"`)
	step := k.step()
	k.passes(step.Wake.Sub(k.now))
	k.says(monitorLine("info usernet")) // from now on, temporary ports are this runner's
	k.returns(fmt.Sprintf(`"Hub -1 (net1):\r\n TCP[HOST_FORWARD] 9 %s 40001 10.0.2.15 22 0 0\r\n"`, usernet.Temporary))
	k.says(monitorLine("hostfwd_add net1 tcp:0.0.0.0:2222-:22"))
	k.returns(`""`)
	k.silent()

	k = newTalk(t, reconcile.Start{Running: true}, portsRule)
	k.want.Ports = portsWanted()
	k.says(monitorLine("info usernet"))
	k.returns(`""`)
	k.complains("vm.network[1].ports: change the ports: QEMU has no user network net1")
}

// A real QEMU closes and opens ports and reports failures.
func TestPortsOfQEMU(t *testing.T) {
	t.Parallel()
	first, second, taken := ports.Reserve(t), ports.Reserve(t), ports.Reserve(t)
	l := startQEMU(t, reconcile.Start{Ports: portsWanted(tcp(first, 22))}, plan.Rules{portsRule}, "-netdev",
		fmt.Sprintf("user,id=net1,hostfwd=tcp:0.0.0.0:%d-:22", first), "-device", "virtio-net-pci,netdev=net1")
	l.ask("query-status", nil)
	require.True(t, listening(first))
	datagrams := usernet.Forward{Protocol: "udp", Address: "127.0.0.1", Host: first, Guest: 53}
	l.want.Ports = portsWanted(datagrams, tcp(second, 80))
	l.settles("other ports")
	require.True(t, listening(second)) // another program may use the first port by now
	var said string
	require.NoError(t, json.Unmarshal(l.ask(usernet.List().Execute, usernet.List().Arguments), &said))
	require.ElementsMatch(t, l.want.Ports[1], usernet.Parse(said)["net1"])

	blocker, err := net.Listen("tcp", fmt.Sprintf(":%d", taken))
	require.NoError(t, err)
	l.want.Ports = portsWanted(tcp(second, 80), tcp(taken, 81))
	l.complains("Could not set up host forwarding rule")
	require.NoError(t, blocker.Close())
	l.settles("the port is free")
	require.True(t, listening(taken))
	for _, line := range l.said {
		require.False(t, strings.Contains(line, fmt.Sprintf("remove net1 tcp:0.0.0.0:%d", second)), "it stays")
	}
}

func listening(port int) bool {
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	return conn.Close() == nil
}
