package e2e_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
	"vmop/test/wait"
)

// VMs receive addresses from the ranges in the manager's configuration. Their guests receive them from the runner's
// DHCP server, as in Deckhouse's guide (docs/reference/addresses.md).
func addresses(t *testing.T, l *lab) {
	for _, words := range []string{"link add br0 type bridge", "addr add 10.79.10.1/24 dev br0", "link set br0 up"} {
		l.onNode(t, 2, "ip", strings.Fields(words)...)
	}
	l.configure(t, "allowedBridges: [br0]\n      virtualMachineCIDRs: [{cidr: 10.79.10.0/24, gateway: 10.79.10.1}]")
	l.requestIP(t, "linux-vm-custom-ip", "10.79.10.77") // available as soon as the configuration is active
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() { _ = l.KubectlCommand(ctx, "-n", namespace, "delete", "vmip", "--all").Run() })

	v := l.create(t, tiny("addressed", func(s *v1.VirtualMachineSpec) {
		s.NodeSelector = map[string]string{corev1.LabelHostname: "node2"}
		s.VM.Networks = []v1.Network{{Tap: &v1.Tap{}}}
		s.VM.Kernel.CommandLine += " tiny.dhcp"
	}))
	v.runs()
	own := v.now().Status.VirtualMachineIPAddressName
	require.Regexp(t, `^addressed-[a-z0-9]+$`, own)
	address := l.vmip(t, own)
	require.Regexp(t, `^10\.79\.10\.\d+$`, address)
	inside := v.console().booted()
	require.Contains(t, inside.ask("ip -4 -o address show dev eth0"), " "+address+"/24 ")
	require.Equal(t, "reached", inside.ask("ping -c 1 -W 20 10.79.10.1 >/dev/null && echo reached"))
	require.Contains(t, inside.ask("ip route"), "default via 10.79.10.1 ")
	require.Equal(t, "hello from tiny", l.onNode(t, 2, "busybox", "wget", "-q", "-O", "-", "http://"+address+"/"))

	lease := "ip-" + strings.ReplaceAll(address, ".", "-")
	for _, table := range [][2]string{
		{"vm", `NAME +PHASE +NODE +IPADDRESS +AGE\n(?s:.*)addressed +Running +node2 +@ `},
		{"vmip", `NAME +ADDRESS +STATUS +VM +AGE\n(?s:.*)` + own + ` +@ +Attached +addressed `},
		{"vmipl", `NAME +VIRTUALMACHINEIPADDRESS +STATUS +AGE\n(?s:.*)` + lease + ` +\{"name":"` + own +
			`","namespace":"` + namespace + `"\} +Bound `},
	} {
		pattern := strings.ReplaceAll(table[1], "@", regexp.QuoteMeta(address))
		require.Regexp(t, pattern, l.kubectl(t, "get", table[0]))
	}
	_, err := l.Kubectl(t.Context(), "-n", namespace, "delete", "vmip", own)
	require.ErrorContains(t, err, "is attached to the VM addressed")

	v.delete()
	wait.For(t, "the address to be released", func() error {
		vmips, leases := l.kubectl(t, "get", "vmip", "-o", "name"), l.kubectl(t, "get", "vmipl")
		if strings.Contains(vmips, own) || !regexp.MustCompile(lease+` .* Released `).MatchString(leases) {
			return fmt.Errorf("there are %s\n%s", vmips, leases)
		}
		return nil
	})
	l.requestIP(t, "again", address)
}

// requestIP requests an address for the namespace, and waits for it.
func (l *lab) requestIP(t *testing.T, name, address string) {
	t.Helper()
	l.applyText(t, fmt.Sprintf(`
apiVersion: vmoperator.jdrupes.org/v1
kind: VirtualMachineIPAddress
metadata:
  name: %s
spec:
  staticIP: %s
  type: Static
`, name, address))
	wait.For(t, "the address "+address, func() error {
		if is := l.vmip(t, name); is != address {
			return fmt.Errorf("it is %q:\n%s", is, l.kubectl(t, "get", "vmip", "-o", "wide"))
		}
		return nil
	})
}

// vmip returns the address of a VirtualMachineIPAddress.
func (l *lab) vmip(t *testing.T, name string) string {
	t.Helper()
	return l.kubectl(t, "get", "vmip", name, "-o", "jsonpath={.status.address}")
}
