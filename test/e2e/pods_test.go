package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
	"vmop/test/guest"
	"vmop/test/invariants"
	"vmop/test/wait"
)

// A runner in a user's own pod, without a manager, boots a guest, follows the ConfigMap, and shuts the guest down when
// the pod is deleted. The pod is the example's, with a bootable Linux.
func runnerAlone(t *testing.T, l *lab) {
	const own = "vmop-runner"
	overlay := l.overlay(t, "runner-pod")
	config := filepath.Join(overlay, "config.yaml")
	text, err := os.ReadFile("../../examples/runner-pod/config.yaml")
	require.NoError(t, err)
	apply := func(text []byte) {
		require.NoError(t, os.WriteFile(config, text, 0o600))
		_, err := l.Kubectl(t.Context(), "apply", "-k", overlay)
		require.NoError(t, err)
	}
	text = bytes.ReplaceAll(text, []byte("    powerdownTimeout: 20\n"), []byte(`    powerdownTimeout: 20
    firmware: bios
    kernel: {image: /images/vmlinuz, initrd: /images/initrd.gz, commandLine: `+guest.CommandLine+` net.ifnames=0}
`))
	apply(text)
	t.Cleanup(func() {
		_, err := l.Kubectl(context.WithoutCancel(t.Context()), "delete", "namespace", own, "--wait=false")
		require.NoError(t, err)
	})
	wait.For(t, "the runner", func() error {
		_, err := l.Kubectl(t.Context(), "-n", own, "exec", "demo", "--", "vmrunner", "status")
		return err
	})
	guest := l.consoleOf(t, own, "demo").booted()
	before := l.qemus("demo")
	require.Len(t, before, 1)

	apply(bytes.ReplaceAll(text, []byte("currentCpus: 1"), []byte("currentCpus: 2")))
	guest.await(`TINY .* hotplug cpu add cpu1 online=0-1`)
	require.Equal(t, before, l.qemus("demo"))

	var log strings.Builder
	follow := l.KubectlCommand(t.Context(), "-n", own, "logs", "--follow", "demo")
	follow.Stdout = &log
	require.NoError(t, follow.Start())
	_, err = l.Kubectl(t.Context(), "-n", own, "delete", "pod", "demo", "--timeout=4m")
	require.NoError(t, err)
	guest.await(`TINY .* powerbutton pressed`)
	require.NoError(t, follow.Wait())
	require.Contains(t, log.String(), `"outcome":"asked (guest-shutdown)"`)
	require.Empty(t, l.qemus("demo"))
}

// overlay returns a copy of a kustomization of testdata. DEPLOY is replaced by deploy/, EXAMPLES by examples/, and
// REPOSITORY by the folder of the image repository.
func (l *lab) overlay(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(l.Dir, name)
	require.NoError(t, os.Mkdir(dir, 0o755))
	words := []string{"REPOSITORY", filepath.Join(l.Dir, "repository")}
	for word, folder := range map[string]string{"DEPLOY": "../../deploy", "EXAMPLES": "../../examples"} {
		folder, err := filepath.Abs(folder)
		require.NoError(t, err)
		folder, err = filepath.Rel(dir, folder) // kustomize accepts only relative paths
		require.NoError(t, err)
		words = append(words, word, folder)
	}
	files, err := filepath.Glob(filepath.Join("testdata", name, "*"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		changed := strings.NewReplacer(words...).Replace(string(text))
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(file)), []byte(changed), 0o600))
	}
	return dir
}

// onNode1 makes a VM run on the first node.
func onNode1(s *v1.VirtualMachineSpec) {
	s.NodeSelector = map[string]string{corev1.LabelHostname: "node1"}
}

// Guests are connected to a bridge of their node, or share their pod's address. A guest that shares a node's address
// can't reach the node's services. At the end, the node has no leftovers.
func networks(t *testing.T, l *lab) {
	for _, words := range []string{"link add br0 type bridge", "addr add 10.77.0.1/24 dev br0", "link set br0 up"} {
		l.node1(t, "ip", strings.Fields(words)...)
	}
	l.configure(t, "allowedBridges: [br0]")
	u := newUser(t, l)
	initrd := u.withSSH("/usr/sbin/qemu-ga")
	bridged := l.create(t, tiny("bridged", onNode1, func(s *v1.VirtualMachineSpec) {
		s.VM.Kernel.Initrd = initrd
		s.VM.Networks = []v1.Network{{Tap: &v1.Tap{}}, {Masquerade: &v1.PrivateNetwork{Net: "10.78.0.0/24"}}}
		s.VM.Kernel.CommandLine += " tiny.ip=10.77.0.2/24 tiny.gw=10.77.0.1"
	}))
	hidden := l.create(t, tiny("hidden", onNode1, func(s *v1.VirtualMachineSpec) {
		s.VM.Networks = []v1.Network{{Masquerade: &v1.PrivateNetwork{}}}
		s.VM.Kernel.CommandLine += " tiny.dhcp"
	}))
	qemu := bridged.runs()
	require.True(t, bridged.pod().Spec.HostNetwork)
	require.Zero(t, invariants.Capabilities(t, qemu)&(1<<unix.CAP_NET_ADMIN),
		"who breaks out of QEMU does not administer the node's network")
	inside := bridged.console().booted()
	require.Equal(t, "reached", inside.ask("ping -c 1 -W 20 10.77.0.1 >/dev/null && echo reached"))
	require.Equal(t, "hello from tiny", l.node1(t, "busybox", "wget", "-q", "-O", "-", "http://10.77.0.2/"))
	require.Contains(t, l.node1(t, "ip", "-oneline", "link"), "master br0")
	u.reachesBridged(bridged, inside)

	node := bridged.pod().Status.HostIP
	kubelet := func(by, patience string) string {
		return inside.ask("ip route replace " + node + " via " + by + "; nc -w " + patience + " " + node +
			" 10250 </dev/null >/dev/null 2>&1 && echo reached || echo not reached")
	}
	require.Equal(t, "reached", kubelet("10.77.0.1", "60"), "a neighbour on the bridge, of which the node is one")
	inside.ask("ip address add 10.78.0.2/24 dev eth1; ip link set eth1 up")
	require.Equal(t, "not reached", kubelet("10.78.0.1", "3"))
	require.Equal(t, "reached", inside.ask("ping -c 1 -W 20 "+node+" >/dev/null && echo reached"))

	hidden.runs()
	require.False(t, hidden.pod().Spec.HostNetwork)
	require.Equal(t, "reached", hidden.console().booted().ask("ping -c 1 -W 20 "+node+" >/dev/null && echo reached"))
	for _, v := range []*clusterVM{bridged, hidden} {
		privileges := fmt.Sprint(v.now().Status.Privileges)
		require.Contains(t, privileges, "NET_ADMIN")
		require.NotContains(t, privileges, "privileged")
		v.set(v1.Stopped)
	}
	for _, v := range []*clusterVM{bridged, hidden} {
		v.phase(v1.PhaseStopped)
		v.podGone()
	}
	require.NotContains(t, l.node1(t, "ip", "-oneline", "link"), "master br0")
	require.NotContains(t, l.node1(t, "nft", "list", "tables"), "vmop")
}

// node1 runs a command in the network of the first node.
func (l *lab) node1(t *testing.T, name string, args ...string) string {
	t.Helper()
	return l.onNode(t, 1, name, args...)
}

// onNode runs a command in the network of a node.
func (l *lab) onNode(t *testing.T, number int, name string, args ...string) string {
	t.Helper()
	out, err := l.OnNode(t.Context(), number, name, args...).CombinedOutput()
	require.NoError(t, err, "%s %v: %s", name, args, out)
	return strings.TrimSpace(string(out))
}

// A VM with the accelerator KVM accesses the device by being privileged.
func kvm(t *testing.T, l *lab) {
	v := l.fast(t, "fast")
	v.until("to be privileged", func(now *v1.VirtualMachine) bool {
		return len(now.Status.Privileges) > 0 && now.Status.Privileges[0].Name == "privileged"
	})
	v.set(v1.Running)
	v.runsByKVM()
}

// configure adds a setting to the manager's configuration until the test ends.
func (l *lab) configure(t *testing.T, setting string) {
	t.Helper()
	l.reconfigure(t, "cpuOvercommit:", setting+"\n      cpuOvercommit:")
}

// reconfigure replaces a text in the manager's configuration until the test ends. It uses patches, which take ownership
// of the field. Don't change the configuration with apply, which would conflict.
func (l *lab) reconfigure(t *testing.T, old, replacement string) {
	t.Helper()
	config := l.kubectl(t, "get", "configmap", "vm-operator", "-o", `jsonpath={.data.config\.yaml}`)
	write := func(ctx context.Context, text string) {
		patch, err := json.Marshal(map[string]any{"data": map[string]string{"config.yaml": text}})
		require.NoError(t, err)
		_, err = l.Kubectl(ctx, "-n", namespace, "patch", "configmap", "vm-operator", "--type=merge", "-p",
			string(patch))
		require.NoError(t, err)
	}
	require.Contains(t, config, old)
	write(t.Context(), strings.Replace(config, old, replacement, 1))
	t.Cleanup(func() { write(context.WithoutCancel(t.Context()), config) })
}

// fast creates a stopped VM for KVM.
func (l *lab) fast(t *testing.T, name string) *clusterVM {
	t.Helper()
	l.volumes.holds(t, "system-disk-"+name+"-0", guest.Sector())
	return l.create(t, tiny(name, withDisk("system", corev1.PersistentVolumeBlock), func(s *v1.VirtualMachineSpec) {
		s.VM.Accelerator, s.VM.CPUModel, s.VM.Kernel, s.VM.PowerdownTimeout = "kvm", "qemu64", nil, new(int32(1))
		s.VM.State = v1.Stopped
	}))
}

// runsByKVM requires that the guest runs. If KVM can't run even a real-mode guest, it requires that the VM's status
// reports this.
func (v *clusterVM) runsByKVM() {
	v.t.Helper()
	if err := guest.RunSector(v.t.Context(), "kvm"); err != nil {
		v.t.Logf("KVM runs nothing here: %v", err)
		v.until("to say that KVM doesn't work", func(now *v1.VirtualMachine) bool {
			phase := now.Status.Phase
			return (phase == v1.PhaseFailed || phase == v1.PhasePending) &&
				strings.Contains(strings.ToLower(now.Status.Message), "kvm")
		})
		return
	}
	qemu := v.runs()
	require.Contains(v.t, strings.Join(invariants.Arguments(qemu), " "), "-accel kvm")
	require.Contains(v.t, v.runner("qmp", "query-kvm"), `"enabled": true`)
	v.console().await(guest.SectorSays)
}
