package e2e_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/test/wait"
)

// lean returns a minimal VM, so that many can run at the same time. Its firmware finds no boot device and waits.
func lean(name string, change ...func(*v1.VirtualMachineSpec)) *v1.VirtualMachine {
	ram := quantity("32Mi")
	d := tiny(name, change...)
	d.Spec.VM.Kernel, d.Spec.VM.Networks, d.Spec.VM.MaximumRAM = nil, nil, &ram
	d.Spec.VM.PowerdownTimeout = new(int32(1)) // firmware does not shut down
	return d
}

// Twenty VMs run at the same time, and stop.
func twenty(t *testing.T, l *lab) {
	var all []*clusterVM
	for i := range 20 {
		all = append(all, l.create(t, lean(fmt.Sprintf("many-%d", i))))
	}
	begin := time.Now()
	for _, v := range all {
		v.runs()
	}
	t.Logf("20 VMs run after %.1f s", time.Since(begin).Seconds())
	for _, v := range all {
		v.set(v1.Stopped)
	}
	for _, v := range all {
		v.phase(v1.PhaseStopped)
		v.podGone()
	}
}

// Without the API server, guests keep running, and start if their container does. When it returns, pending status
// updates and changes are processed.
func serverAway(t *testing.T, l *lab) {
	v := l.create(t, tiny("away", func(s *v1.VirtualMachineSpec) {
		s.VM.MaximumCPUs, s.VM.CurrentCPUs, s.GuestShutdownStops = new(int32(2)), new(int32(1)), true
	}))
	other, again := l.create(t, tiny("along")), l.create(t, tiny("again"))
	qemu, along, first := v.runs(), other.runs(), again.runs()
	v.console().booted()
	guest := other.console().booted()
	guest.tell("sh (sleep 3; poweroff -f) &")
	guest.await(`rc=0`)
	container := l.processesOf(string(again.pod().UID), "vmrunner")[0]
	require.NoError(t, l.StopServer(t.Context()))
	ended(t, along)
	kill(t, container)
	ended(t, first)
	wait.For(t, "a VM that starts while the API server is away", func() error {
		if all := again.qemus(again.name); len(all) != 1 {
			return fmt.Errorf("its QEMUs are %v", all)
		}
		return nil
	})
	require.Equal(t, qemu, v.qemu())
	require.NoError(t, l.StartServer(t.Context()))
	second := again.runs()
	require.NotEqual(t, first, second)
	again.console().booted()
	again.condition(v1.ConditionReady, metav1.ConditionTrue)
	require.Equal(t, second, again.qemu(), "the one that was started then")

	v.change(func(s *v1.VirtualMachineSpec) { s.VM.CurrentCPUs = new(int32(2)) })
	v.until("to have 2 CPUs", func(now *v1.VirtualMachine) bool { return now.Status.CPUs == 2 })
	require.Equal(t, qemu, v.qemu())
	wait.For(t, "another QEMU of the VM after its guest has powered off", func() error {
		if all := other.qemus(other.name); len(all) != 1 || all[0] == along {
			return fmt.Errorf("there are %v", all)
		}
		return nil
	})
	other.runs()
}

// After kills of the manager at random times, users' changes still take effect, and unchanged VMs keep running.
func managerKilled(t *testing.T, l *lab) {
	still := l.create(t, tiny("still"))
	qemu := still.runs()
	pod := still.pod()
	var all []*clusterVM
	for i := range 3 {
		all = append(all, l.create(t, lean(fmt.Sprintf("busy-%d", i))))
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for _, state := range []v1.State{v1.Stopped, v1.Running, v1.Stopped, v1.Running} {
		for _, v := range all {
			v.set(state)
		}
		<-time.After(time.Duration(random.IntN(1500)) * time.Millisecond) // a random time
		l.killManager(t)
	}
	for _, v := range all {
		v.runs()
		v.set(v1.Stopped)
	}
	l.killManager(t)
	for _, v := range all {
		v.phase(v1.PhaseStopped)
		v.podGone()
	}
	require.Equal(t, qemu, still.qemu())
	require.Equal(t, pod.UID, still.pod().UID)
	still.phase(v1.PhaseRunning)
}

// killManager kills the manager, and waits until it has ended.
func (l *lab) killManager(t *testing.T) {
	t.Helper()
	manager := l.manager(t)
	for _, pid := range l.processesOf(string(manager.UID), "vmmanager") {
		kill(t, pid)
		ended(t, pid)
	}
}

// manager returns the manager's pod.
func (l *lab) manager(t testing.TB) *corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	require.NoError(t, l.client.List(t.Context(), &pods, client.InNamespace(namespace),
		client.MatchingLabels{"app.kubernetes.io/name": "vm-operator"}))
	require.Len(t, pods.Items, 1)
	return &pods.Items[0]
}

// When a node loses power, its VMs wait until a user confirms that the node is off: for one VM by deleting the pod by
// force, for the whole node by a taint. Two QEMUs never use the same disk.
func powerCut(t *testing.T, l *lab) {
	victim := 1
	if l.manager(t).Spec.NodeName == "node1" {
		victim = 2
	}
	node := fmt.Sprintf("node%d", victim)
	disk := withDisk("system", corev1.PersistentVolumeBlock)
	waits := l.create(t, tiny("waits", onNode(node), disk, func(s *v1.VirtualMachineSpec) {
		s.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeOutOfService, Operator: corev1.TolerationOpExists}}
	}))
	deleted := l.create(t, tiny("deleted", onNode(node), disk))
	tainted := l.create(t, tiny("tainted", onNode(node), disk))
	all := []*clusterVM{waits, deleted, tainted}
	before := map[*clusterVM]types.UID{}
	for _, v := range all {
		v.runs()
		require.Equal(t, node, v.pod().Spec.NodeName)
		guest := v.console().booted()
		guest.ask("echo " + v.name + " was here >/dev/vda; sync")
		before[v] = v.pod().UID
	}

	require.NoError(t, l.CutPower(t.Context(), victim))
	cut := time.Now()
	for _, v := range all {
		now := v.until("to say that the node is lost", func(now *v1.VirtualMachine) bool {
			return now.Status.Reason == "NodeLost"
		})
		require.Contains(t, now.Status.Message, corev1.TaintNodeOutOfService)
		require.Empty(t, v.qemus(v.name))
		require.Equal(t, before[v], v.pod().UID, "its pod stays")
	}
	t.Logf("told after %.0f s", time.Since(cut).Seconds())
	off := time.Now()
	l.kubectl(t, "delete", "pod", deleted.podName(), "--force", "--grace-period=0")
	deleted.moved(node)
	t.Logf("the VM runs %.0f s after its pod was deleted", time.Since(off).Seconds())
	off = time.Now()
	l.kubectl(t, "taint", "node", node, corev1.TaintNodeOutOfService+"=nodeshutdown:NoExecute")
	wait.For(t, "the pod to be evicted", func() error {
		if pod := tainted.pod(); pod != nil && pod.UID == before[tainted] && pod.DeletionTimestamp == nil {
			return errors.New("it isn't")
		}
		return nil
	})
	tainted.moved(node)
	t.Logf("the VM of a node with the taint runs after %.0f s", time.Since(off).Seconds())
	require.Equal(t, before[waits], waits.pod().UID)
	require.Empty(t, waits.qemus(waits.name))

	l.kubectl(t, "taint", "node", node, corev1.TaintNodeOutOfService+"-")
	require.NoError(t, l.Boot(t.Context(), victim))
	on := time.Now()
	wait.For(t, "the VM that has waited", func() error {
		if all := waits.qemus(waits.name); len(all) != 1 {
			return fmt.Errorf("its QEMUs are %v", all)
		}
		return nil
	})
	waits.until("to run again", func(now *v1.VirtualMachine) bool {
		return now.Status.Phase == v1.PhaseRunning && now.Status.Reason == ""
	})
	t.Logf("the VM that has waited runs %.0f s after its node", time.Since(on).Seconds())
	require.Equal(t, "waits was here", waits.console().booted().ask("head -n 1 /dev/vda"))
	for _, v := range []*clusterVM{deleted, tainted} {
		require.Len(t, v.qemus(v.name), 1)
	}
}

// moved waits until the VM runs on another node, with its disk.
func (v *clusterVM) moved(from string) {
	v.t.Helper()
	v.until("to run on another node", func(now *v1.VirtualMachine) bool {
		pod := v.pod()
		return now.Status.Phase == v1.PhaseRunning && pod != nil && pod.Spec.NodeName != from &&
			now.Status.NodeName == pod.Spec.NodeName
	})
	require.Equal(v.t, v.name+" was here", v.console().booted().ask("head -n 1 /dev/vda"))
}

// onNode returns a change that makes a VM prefer a node.
func onNode(name string) func(*v1.VirtualMachineSpec) {
	return func(s *v1.VirtualMachineSpec) {
		s.Affinity = &v1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
					Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{name},
				}}},
			}},
		}}
	}
}
