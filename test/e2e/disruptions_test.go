package e2e_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
)

// lean returns the definition of a VM with next to nothing, of which many can run
// at a time. Its firmware finds nothing to boot from, and waits.
func lean(name string, change ...func(*v1.VirtualMachineSpec)) *v1.VirtualMachine {
	ram := quantity("32Mi")
	d := tiny(name, change...)
	d.Spec.VM.Kernel, d.Spec.VM.Networks, d.Spec.VM.MaximumRAM = nil, nil, &ram
	d.Spec.VM.PowerdownTimeout = new(int32(1)) // firmware does not shut down
	return d
}

// Twenty VMs at once run, and stop.
func twenty(t *testing.T, l *lab) {
	var all []*vm
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

// While the API server is away guests run on, and what was seen and wanted meanwhile
// is made up for.
func serverAway(t *testing.T, l *lab) {
	v := l.create(t, tiny("away", func(s *v1.VirtualMachineSpec) {
		s.VM.MaximumCPUs, s.VM.CurrentCPUs, s.GuestShutdownStops = new(int32(2)), new(int32(1)), true
	}))
	other := l.create(t, tiny("along"))
	qemu, along := v.runs(), other.runs()
	v.console().booted()
	guest := other.console().booted()
	guest.tell("sh (sleep 3; poweroff -f) &")
	guest.await(`rc=0`)
	require.NoError(t, l.StopServer(t.Context()))
	ended(t, along)
	require.Equal(t, qemu, v.qemu())
	require.NoError(t, l.StartServer(t.Context()))

	v.change(func(s *v1.VirtualMachineSpec) { s.VM.CurrentCPUs = new(int32(2)) })
	v.until("to have 2 CPUs", func(now *v1.VirtualMachine) bool { return now.Status.CPUs == 2 })
	require.Equal(t, qemu, v.qemu())
	eventually(t, "another QEMU of the VM whose guest has powered off meanwhile", func() error {
		if all := other.qemus(other.name); len(all) != 1 || all[0] == along {
			return fmt.Errorf("there are %v", all)
		}
		return nil
	})
	other.runs()
}

// The manager may be killed at any moment: what users want comes true in the end, and
// VMs that nobody touches run on.
func managerKilled(t *testing.T, l *lab) {
	still := l.create(t, tiny("still"))
	qemu := still.runs()
	pod := still.pod()
	var all []*vm
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
		<-time.After(time.Duration(random.IntN(1500)) * time.Millisecond) // any moment
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
func (l *lab) manager(t *testing.T) *corev1.Pod {
	t.Helper()
	var pods corev1.PodList
	require.NoError(t, l.client.List(t.Context(), &pods, client.InNamespace(namespace), client.MatchingLabels{"app.kubernetes.io/name": "vm-operator"}))
	require.Len(t, pods.Items, 1)
	return &pods.Items[0]
}

// When a node loses power, its VMs wait for it, unless a user says that it is off for
// good by deleting the pod by force. Never do two QEMUs have one disk.
func powerCut(t *testing.T, l *lab) {
	victim := 1
	if l.manager(t).Spec.NodeName == "node1" {
		victim = 2
	}
	node := fmt.Sprintf("node%d", victim)
	waits := l.create(t, tiny("waits", onNode(node), withDisk("system", corev1.PersistentVolumeBlock)))
	moves := l.create(t, tiny("moves", onNode(node), withDisk("system", corev1.PersistentVolumeBlock)))
	var before types.UID
	for _, v := range []*vm{waits, moves} {
		v.runs()
		require.Equal(t, node, v.pod().Spec.NodeName)
		guest := v.console().booted()
		guest.ask("echo " + v.name + " was here >/dev/vda; sync")
		before = v.pod().UID
	}

	require.NoError(t, l.CutPower(t.Context(), victim))
	for _, v := range []*vm{waits, moves} {
		v.until("to say that the node is lost", func(now *v1.VirtualMachine) bool { return now.Status.Reason == "NodeLost" })
		require.Empty(t, v.qemus(v.name))
		require.NotNil(t, v.pod(), "its pod stays")
	}
	l.kubectl(t, "delete", "pod", moves.pod0(), "--force", "--grace-period=0")
	eventually(t, "the VM on another node", func() error {
		if pod := moves.pod(); pod == nil || pod.UID == before || pod.Spec.NodeName == node {
			return fmt.Errorf("there is %+v", pod)
		}
		return nil
	})
	moves.until("to run on the other node", func(now *v1.VirtualMachine) bool {
		return now.Status.Phase == v1.PhaseRunning && now.Status.NodeName != node
	})
	require.Equal(t, "moves was here", moves.console().booted().ask("head -n 1 /dev/vda"))
	require.Empty(t, waits.qemus(waits.name))

	require.NoError(t, l.Boot(t.Context(), victim))
	eventually(t, "the VM that has waited", func() error {
		if all := waits.qemus(waits.name); len(all) != 1 {
			return fmt.Errorf("its QEMUs are %v", all)
		}
		return nil
	})
	waits.until("to run again", func(now *v1.VirtualMachine) bool {
		return now.Status.Phase == v1.PhaseRunning && now.Status.Reason == ""
	})
	require.Equal(t, "waits was here", waits.console().booted().ask("head -n 1 /dev/vda"))
	require.Len(t, moves.qemus(moves.name), 1)
}

// onNode makes a VM prefer a node.
func onNode(name string) func(*v1.VirtualMachineSpec) {
	return func(s *v1.VirtualMachineSpec) {
		s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{name},
			}}},
		}}}}
	}
}
