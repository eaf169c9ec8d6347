package vm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// The examples of Deckhouse's guide about a VM, and about the nodes of VMs, make pods with what they say. Disks are
// left out; test/e2e tests the guests.
func TestExamplesOfDeckhouse(t *testing.T) {
	t.Parallel()
	w := begin(t)
	text, err := os.ReadFile(filepath.Join("..", "..", "api", "v1", "testdata", "deckhouse.yaml"))
	require.NoError(t, err)
	examples := strings.Split(string(text), "\n---\n")[1:]
	example := func(with string) string {
		for _, text := range examples {
			if strings.Contains(text, with) {
				return strings.TrimRight(text, "\n")
			}
		}
		t.Fatal("no example has " + with)
		return ""
	}
	pod := func(name, part string) *corev1.Pod {
		const head = "apiVersion: vmoperator.jdrupes.org/v1\nkind: VirtualMachine\nmetadata: {name: "
		w.Apply(head + name + "}\n" + part + "\n  vm: {state: Running, maximumCpus: 1}\n")
		return w.pod(name)
	}

	class := w.class("host", func(*v1.VirtualMachineClassSpec) {})
	whole := strings.Replace(example("name: linux-vm-root"), "ClassName: host", "ClassName: "+class, 1)
	before, disks, _ := strings.Cut(whole, "  blockDeviceRefs:\n")
	_, after, _ := strings.Cut(disks, "  cpu:\n")
	w.Apply(before + "  cpu:\n" + after + "\n    state: Running\n")
	linux := w.pod("linux-vm")
	resources := linux.Spec.Containers[0].Resources
	require.Equal(t, "100m", resources.Requests.Cpu().String(), "10% of a core")
	require.Equal(t, "1", resources.Limits.Cpu().String())
	vm, _ := get(w, "linux-vm", &v1.VirtualMachine{})
	require.Equal(t, class, vm.Spec.VirtualMachineClassName)
	require.Contains(t, w.configOf("linux-vm"), "qemu-guest-agent")
	require.Contains(t, w.configOf("linux-vm"), "provisioned: true")

	ssd := pod("selected", example("  nodeSelector:\n    disktype: ssd"))
	require.Equal(t, "ssd", ssd.Spec.NodeSelector["disktype"])
	near := pod("near-nodes", example("nodeAffinity:")).Spec.Affinity.NodeAffinity
	require.Equal(t, []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: "disktype", Operator: corev1.NodeSelectorOpIn, Values: []string{"ssd"}},
	}}}, near.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms)

	database := corev1.PodAffinityTerm{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"server": "database"}},
		TopologyKey:   corev1.LabelHostname,
	}
	preferred := pod("near-vms", example("virtualMachineAndPodAffinity:")).Spec.Affinity.PodAffinity
	require.Equal(t, []corev1.WeightedPodAffinityTerm{{Weight: 1, PodAffinityTerm: database}},
		preferred.PreferredDuringSchedulingIgnoredDuringExecution)
	away := pod("away", example("virtualMachineAndPodAntiAffinity:")).Spec.Affinity.PodAntiAffinity
	require.Equal(t, []corev1.PodAffinityTerm{database}, away.RequiredDuringSchedulingIgnoredDuringExecution)
}
