package e2e_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/test/invariants"
	"vmop/test/wait"
)

// Examples run on a cluster without Ceph and without a load balancer. The lab's manager has the examples'
// configuration.
func examples(t *testing.T, l *lab) {
	device, err := l.Block(t.Context(), "local-disk", diskSize)
	require.NoError(t, err)
	types, err := os.ReadFile("../../examples/vm-type/keyboards.star")
	require.NoError(t, err)
	l.types(t, "vm-types", "keyboards.star", string(types))

	first := l.example(t, "first-vm", "first-vm", []string{"vm.yaml"})
	first.runs()
	first.console().booted()

	local := l.example(t, "local-path", "local", []string{"volume.yaml", "vm.yaml"}, "/dev/vg0/test-vm-system", device)
	local.runs()
	local.claim("system-disk-local-0")
	require.Contains(t, local.runner("qmp", "query-block"), "/dev/system-disk")
	local.cutOff() // firmware without a boot device uses all its processor time

	shown := l.example(t, "display-secret", "shown", []string{"secret.yaml", "vm.yaml"})
	shown.runs()
	require.Contains(t, shown.runner("qmp", "query-spice"), `"auth": "spice"`)
	var secrets corev1.SecretList
	require.NoError(t, l.client.List(t.Context(), &secrets, client.InNamespace(namespace),
		client.MatchingLabels{"app.kubernetes.io/instance": "shown"}))
	require.Len(t, secrets.Items, 1, "no other was made")
	shown.cutOff()

	reachable := l.example(t, "load-balancer", "reachable", []string{"vm.yaml"})
	reachable.runs()
	reachable.reachedFromOutside()
	reachable.cutOff()

	keyboards := l.example(t, "vm-type", "two-keyboards", []string{"vm.yaml"})
	keyboards.runs()
	require.Equal(t, 2, strings.Count(strings.Join(invariants.Arguments(keyboards.qemu()), " "), "usb-kbd"))
	keyboards.cutOff()
}

// example applies files of an example. replace contains pairs of texts, as for strings.NewReplacer. VMs called test-vm
// are renamed, because several examples use this name.
func (l *lab) example(t *testing.T, folder, name string, files []string, replace ...string) *clusterVM {
	t.Helper()
	v := l.adoptTest(t, name)
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join("../../examples", folder, file))
		require.NoError(t, err)
		l.applyText(t, strings.NewReplacer(append(replace, "test-vm", name)...).Replace(string(text)))
	}
	return v
}

// reachedFromOutside requires that the VM's service is as in the example, and that it leads to the display. No address
// is assigned to the service here, so the test uses a node's address.
func (v *clusterVM) reachedFromOutside() {
	v.t.Helper()
	var service corev1.Service
	require.NoError(v.t, v.client.Get(v.t.Context(), client.ObjectKey{Namespace: namespace, Name: v.name}, &service))
	require.Equal(v.t, corev1.ServiceTypeLoadBalancer, service.Spec.Type)
	require.NotContains(v.t, service.Labels, "zone", "the VM takes it away")
	require.Equal(v.t, "screens", service.Annotations["metallb.io/address-pool"])
	require.Equal(v.t, "192.0.2.7", service.Annotations["metallb.io/loadBalancerIPs"])
	address := net.JoinHostPort(v.pod().Status.HostIP, fmt.Sprint(service.Spec.Ports[0].NodePort))
	wait.For(v.t, "SPICE by the service", func() error {
		conn, err := v.Dial(v.t.Context(), "tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}
