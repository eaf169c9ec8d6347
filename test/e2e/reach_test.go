package e2e_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
)

// A plain Service reaches the guest: at the ports of a user network, low ones too, and at
// those of a masquerade.
func TestAServiceReachesTheGuest(t *testing.T) {
	t.Parallel()
	l := newLab(t)
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
}

// reaches waits until the guest answers at an address, from its node.
func (l *lab) reaches(t *testing.T, address string) {
	t.Helper()
	script := "for n in $(seq 60); do busybox wget -q -O - http://" + address + "/ 2>/dev/null && exit; sleep 1; done; exit 1"
	require.Equal(t, "hello from tiny", l.node1(t, "sh", "-c", script))
}
