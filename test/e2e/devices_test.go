package e2e_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/test/invariants"
	"vmop/test/wait"
)

// With our device plugin, VMs use KVM without privileges, and any pod can use the device. Running and new pods work
// even after the plugin or the kubelet was killed.
func kvmByPlugin(t *testing.T, l *lab) {
	_, err := l.Kubectl(t.Context(), "apply", "--server-side", "-k", l.overlay(t, "device-plugin"))
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := l.Kubectl(context.WithoutCancel(t.Context()), "delete", "namespace", devices, "--wait=false")
		require.NoError(t, err)
	})
	_, err = l.Kubectl(t.Context(), "-n", devices, "rollout", "status", "daemonset/vmop-devices", "--timeout=4m")
	require.NoError(t, err)

	v := l.create(t, lean("looped", onNode1, func(s *v1.VirtualMachineSpec) {
		s.Resources = &v1.Resources{Limits: corev1.ResourceList{"vmop/loop": resource.MustParse("1")}}
	}))
	qemu := v.runs()
	require.Empty(t, v.now().Status.Privileges)
	v.restricted()
	device, err := os.Stat(fmt.Sprintf("/proc/%d/root/dev/loop-control", qemu))
	require.NoError(t, err)
	require.Equal(t, fs.ModeDevice|fs.ModeCharDevice|0o666, device.Mode())
	l.opensDevice(t, "first")

	before := l.plugin(t)
	for _, pid := range l.processesOf(string(before.UID), "vmmanager") {
		kill(t, pid)
	}
	wait.For(t, "the plugin to be ready again", func() error {
		if now := l.plugin(t).Status.ContainerStatuses[0]; now.RestartCount == 0 || !now.Ready {
			return fmt.Errorf("it is %v", now)
		}
		return nil
	})
	l.opensDevice(t, "second")

	kubelet := l.kubelet(1)
	kill(t, kubelet)
	ended(t, kubelet)
	wait.For(t, "the plugin to be registered with the next kubelet", func() error {
		log, err := l.Kubectl(t.Context(), "-n", devices, "logs", before.Name)
		if err != nil {
			return err
		}
		if strings.Count(log, `"registered with the kubelet","resource":"vmop/loop"`) < 2 {
			return fmt.Errorf("its log is %s", log)
		}
		return nil
	})
	l.opensDevice(t, "third")
	require.Equal(t, qemu, v.qemu())
	l.fastByPlugin(t)
}

// fastByPlugin requires that a VM runs with KVM, without privileges.
func (l *lab) fastByPlugin(t *testing.T) {
	t.Helper()
	l.configure(t, "kvmResource: vmop/kvm")
	v := l.fast(t, "frugal")
	v.until("to get a device", func(now *v1.VirtualMachine) bool {
		return len(now.Status.Privileges) == 1 && now.Status.Privileges[0].Name == "device vmop/kvm"
	})
	v.set(v1.Running)
	v.runsByKVM()
	v.restricted()
}

// devices is the namespace of the plugin.
const devices = "vmop-devices"

// plugin returns the plugin's pod on the first node.
func (l *lab) plugin(t *testing.T) *corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	require.NoError(t, l.client.List(t.Context(), &pods, client.InNamespace(devices)))
	at := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return p.Spec.NodeName == "node1" })
	require.GreaterOrEqual(t, at, 0)
	return &pods.Items[at]
}

// opensDevice runs a pod on the first node that opens the device, in a namespace that allows no privileges.
func (l *lab) opensDevice(t *testing.T, name string) {
	t.Helper()
	create := l.KubectlCommand(t.Context(), "create", "-f", "-")
	create.Stdin = strings.NewReader(`
apiVersion: v1
kind: Pod
metadata: {name: opens-` + name + `, namespace: restricted}
spec:
  restartPolicy: Never
  automountServiceAccountToken: false
  nodeSelector: {kubernetes.io/hostname: node1}
  securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: qemu
    image: vmop/runner:devel
    command: [qemu-system-x86_64, -M, none, -display, none, -daemonize]
    args: [-chardev, "serial,id=device,path=/dev/loop-control"]
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
    resources: {limits: {vmop/loop: 1}}
`)
	out, err := create.CombinedOutput()
	require.NoError(t, err, "%s", out)
	wait.For(t, "the pod to have opened the device", func() error {
		var pod corev1.Pod
		key := client.ObjectKey{Namespace: "restricted", Name: "opens-" + name}
		require.NoError(t, l.client.Get(t.Context(), key, &pod))
		if pod.Status.Phase == corev1.PodFailed {
			log, err := l.Kubectl(t.Context(), "-n", "restricted", "logs", pod.Name)
			require.FailNow(t, "the pod has failed", "%v: %s %v", pod.Status, log, err)
		}
		if pod.Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("it is %v", pod.Status)
		}
		return nil
	})
}

// kubelet returns the process ID of a node's kubelet.
func (l *lab) kubelet(node int) int {
	config := filepath.Join(l.Dir, fmt.Sprintf("node%d", node), "kubelet.yaml")
	all, _ := filepath.Glob("/proc/[0-9]*") // the only possible error is a malformed pattern
	for _, path := range all {
		pid, err := strconv.Atoi(filepath.Base(path))
		if err == nil && slices.Contains(invariants.Arguments(pid), config) {
			return pid
		}
	}
	return 0
}
