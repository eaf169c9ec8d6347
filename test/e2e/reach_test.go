package e2e_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
)

// A plain Service reaches the guest at the ports of a user network, including low ports and ports that change while it
// runs, and at the ports of a masquerade. The status shows the addresses.
func serviceReachesGuest(t *testing.T, l *lab) {
	ported := l.create(t, tiny("ported", onNode1, func(s *v1.VirtualMachineSpec) {
		web := v1.Port{Port: 80, Protocol: corev1.ProtocolTCP}
		s.VM.Networks = []v1.Network{{User: &v1.UserNetwork{Ports: []v1.Port{web}}}}
		s.VM.Kernel.CommandLine += " tiny.dhcp"
	}))
	hidden := l.create(t, tiny("masked", onNode1, func(s *v1.VirtualMachineSpec) {
		s.VM.Networks = []v1.Network{{Masquerade: &v1.PrivateNetwork{}}}
		s.VM.Kernel.CommandLine += " tiny.dhcp"
	}))
	for _, v := range []*clusterVM{ported, hidden} {
		v.runs()
		l.applyText(t, fmt.Sprintf(`{apiVersion: v1, kind: Service, metadata: {name: reach-%s, namespace: %s}, spec: {
			selector: {app.kubernetes.io/name: vm-runner, app.kubernetes.io/instance: %s}, ports: [{port: 80}]}}`,
			v.name, namespace, v.name))
		address := l.kubectl(t, "get", "service", "reach-"+v.name, "-o", "jsonpath={.spec.clusterIP}")
		l.reaches(t, address)
	}
	require.Contains(t, fmt.Sprint(ported.pod().Spec.Containers[0].Ports), "80")
	pod := ported.pod()
	require.Equal(t, pod.Status.PodIP+" Network Configuration", address(ported.now(), 0))
	require.Equal(t, hidden.pod().Status.PodIP+" Network Configuration", address(hidden.now(), 0))
	require.Empty(t, hidden.now().Status.Addresses[0].Ports, "all of them")
	require.Equal(t, "10.0.2.2 Pod DHCP", address(hidden.now(), 1))

	other := v1.Port{Port: 8080, Guest: 80, Protocol: corev1.ProtocolTCP}
	ported.change(func(s *v1.VirtualMachineSpec) { s.VM.Networks[0].User.Ports = []v1.Port{other} })
	ported.until("another port leads to the guest", func(vm *v1.VirtualMachine) bool {
		ports := vm.Status.Addresses[0].Ports
		return len(ports) == 1 && ports[0] == v1.AddressPort{Port: 8080, Guest: 80, Protocol: corev1.ProtocolTCP}
	})
	l.reaches(t, pod.Status.PodIP+":8080")
	require.Equal(t, pod.UID, ported.pod().UID)
	l.refuses(t, pod.Status.PodIP+":80")
}

// refuses requires that no server listens at an address.
func (l *lab) refuses(t *testing.T, address string) {
	t.Helper()
	script := "timeout 9 busybox wget -q -O - http://" + address + "/ 2>&1 | grep -o 'Connection refused'"
	require.Equal(t, "Connection refused", l.node1(t, "sh", "-c", script))
}

// reaches waits until the guest answers at an address, from its node.
func (l *lab) reaches(t *testing.T, address string) {
	t.Helper()
	script := "for n in $(seq 60); do timeout 9 busybox wget -q -O - http://" + address +
		"/ 2>/dev/null && exit; sleep 1; done; exit 1"
	require.Equal(t, "hello from tiny", l.node1(t, "sh", "-c", script))
}
