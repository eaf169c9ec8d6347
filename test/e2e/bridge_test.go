package e2e_test

import (
	"os"
	"strings"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
)

// qemuGA starts the guest agent in a guest.
const qemuGA = "/usr/sbin/qemu-ga -d -m virtio-serial -t /tmp -f /tmp/ga.pid -p " +
	`$(grep -l guest_agent /sys/class/virtio-ports/*/name | sed 's,/sys/class/virtio-ports\(.*\)/name,/dev\1,')`

// reachesBridged reaches a guest at 10.77.0.2 on a bridge of the first node: with the address that its agent reports,
// and through a Service as documented.
func (u *user) reachesBridged(v *clusterVM, inside *console) {
	u.t.Helper()
	require.Equal(u.t, "begun", inside.ask(u.beginSSH()))
	inside.ask("mkdir -p /etc; " + qemuGA)
	vm := v.until("its address is known", func(vm *v1.VirtualMachine) bool { return len(vm.Status.Addresses) > 1 })
	require.Equal(u.t, "10.77.0.2 Network Agent", address(vm, 0))
	require.Equal(u.t, "10.78.0.2 Pod DHCP", address(vm, 1))
	require.Regexp(u.t, ` 10\.77\.0\.2 `, u.types("kubectl get vm "+v.name, ""))
	require.Equal(u.t, "42\n", u.types("kubectl vmop ssh root@"+v.name+" --command 'echo $((40+2))'", ""))
	u.copies(v.name)
	u.forwards(v.name)

	out, err := u.command("kubectl vmop expose " + v.name + " --port 80").CombinedOutput()
	require.Error(u.t, err)
	require.Contains(u.t, string(out), "write an EndpointSlice")
	page, err := os.ReadFile("../../docs/reference/networking.md")
	require.NoError(u.t, err)
	_, text, _ := strings.Cut(string(page), "### A Service for a guest on a bridge\n")
	_, text, _ = strings.Cut(text, "```yaml\n")
	text, _, found := strings.Cut(text, "```")
	require.True(u.t, found, "the page has objects")
	u.applyText(u.t, strings.ReplaceAll(text, "192.168.7.20", "10.77.0.2"))
	u.reaches(u.t, u.kubectl(u.t, "get", "service", "web-bridge", "-o", "jsonpath={.spec.clusterIP}"))
}

// address returns an address of the status as text.
func address(vm *v1.VirtualMachine, i int) string {
	a := vm.Status.Addresses[i]
	return a.Address + " " + a.From + " " + a.Source
}
