package e2e_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/test/wait"
)

// A guest moves to the other node and back without interruption, with its own disk and a disk that was attached while
// it ran, and it restarts on its current node. A guest with a disk that other nodes can't use moves to another pod on
// its node (docs/tasks/migration.md).
func migrations(t *testing.T, l *lab) {
	l.applyText(t, `{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: moves-data},
  spec: {persistentVolumeClaim: {storageClassName: lab, size: 16Mi, accessMode: ReadWriteMany}}}`)
	v := l.create(t, tiny("moves", withDisk("shared", corev1.PersistentVolumeBlock), onAllNodes,
		withVirtualDisk("moves-data")))
	v.runs()
	inside := v.console().booted()
	const bootID = "cat /proc/sys/kernel/random/boot_id"
	boot, written := inside.ask(bootID), inside.ask(writes(1))
	second := inside.ask(onSecondDisk(writes(7)))
	v.condition(v1.ConditionMigratable, metav1.ConditionTrue)
	source := v.pod()
	l.applyText(t, `{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: moves-more},
  spec: {persistentVolumeClaim: {storageClassName: lab, size: 16Mi}}}
---
{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachineBlockDeviceAttachment, metadata: {name: moves-more},
  spec: {virtualMachineName: moves, blockDeviceRef: {kind: VirtualDisk, name: moves-more}}}`)
	const readsThird = "; blockdev --flushbufs /dev/vdc; head -c 6 /dev/vdc"
	const isThere = "until head -c 1 /dev/vdc >/dev/null 2>&1; do usleep 50000; done; "
	third := inside.ask(isThere + "echo third | dd of=/dev/vdc conv=fsync 2>/dev/null" + readsThird)
	l.attachmentIs(t, "moves-more", v1.AttachmentAttached)
	v.condition(v1.ConditionMigratable, metav1.ConditionTrue)

	watched := v.watched()
	inside = v.moves("moved", "type: Migrate")
	require.Equal(t, []string{boot, written, second, third}, []string{
		inside.ask(bootID), inside.ask(reads), inside.ask(onSecondDisk(reads)), inside.ask(readsThird[2:]),
	})
	l.attachmentIs(t, "moves-more", v1.AttachmentAttached)
	require.Contains(t, inside.ask("echo moved | dd of=/dev/vdc conv=fsync 2>/dev/null"+readsThird), "moved")
	l.kubectl(t, "delete", "vmbda", "moves-more", "--timeout=2m")
	now := v.now()
	require.NotEqual(t, source.Spec.NodeName, now.Status.NodeName)
	require.Equal(t, []string{
		"Running " + source.Spec.NodeName, "Migrating " + source.Spec.NodeName, "Running " + now.Status.NodeName,
	}, watched(), "as kubectl get vm -w shows it")
	require.Equal(t, source.UID, now.Status.Migration.Source.PodUID)
	require.Nil(t, now.Status.Arriving)
	require.Contains(t, l.kubectl(t, "describe", "vm", v.name),
		"the guest has migrated from node "+source.Spec.NodeName)
	written = inside.ask(writes(2))

	v.set(v1.Stopped)
	v.podGone()
	v.set(v1.Running)
	v.runs()
	inside = v.console().booted()
	require.Equal(t, written, inside.ask(reads))
	boot = inside.ask(bootID)
	node := v.now().Status.NodeName // the scheduler may have chosen another node
	inside = v.moves("evicted", "type: Evict")
	require.Equal(t, []string{boot, written}, []string{inside.ask(bootID), inside.ask(reads)})
	require.NotEqual(t, node, v.now().Status.NodeName)
	v.backAndForth(inside)

	stays := l.create(t, tiny("stays", withDisk("own", corev1.PersistentVolumeBlock), func(s *v1.VirtualMachineSpec) {
		s.VM.MaximumRAM = new(quantity("512Mi"))
	}))
	stays.runs()
	inside = stays.console().booted()
	boot, written = inside.ask(bootID), inside.ask(writes(3))
	o := stays.operate("refused-move", "type: Migrate")
	require.Equal(t, "NotMigratable", o.Status.Reason)
	require.Contains(t, o.Status.Message, "ReadWriteMany")
	inside = stays.moves("on-its-node", "type: Migrate\n  migrate: {nodeSelector: {kubernetes.io/hostname: "+
		stays.now().Status.NodeName+"}}")
	require.Equal(t, []string{boot, written}, []string{inside.ask(bootID), inside.ask(reads)})

	// Changes of the pod reach a running guest if its definition approves restarts.
	stays.change(func(s *v1.VirtualMachineSpec) {
		s.Disruptions = &v1.Disruptions{RestartApprovalMode: v1.RestartAutomatic}
		s.Resources = &v1.Resources{Requests: corev1.ResourceList{corev1.ResourceCPU: quantity("77m")}}
	})
	stays.ordinal = 1 - stays.ordinal
	stays.until("to need no restart", func(now *v1.VirtualMachine) bool {
		return now.Status.PodOrdinal == int32(stays.ordinal) && now.Status.AutomaticRestart == nil &&
			now.Status.Phase == v1.PhaseRunning
	})
	stays.condition(v1.ConditionRestartRequired, metav1.ConditionFalse)
	require.Equal(t, "77m", stays.pod().Spec.Containers[0].Resources.Requests.Cpu().String())
	inside = stays.console()
	require.Equal(t, []string{boot, written}, []string{inside.ask(bootID), inside.ask(reads)})
}

// backAndForth moves the guest VMOP_MOVES times (default 0). No data is lost, and the manager's memory doesn't grow.
func (v *clusterVM) backAndForth(inside *console) {
	v.t.Helper()
	count := times(v.t, "VMOP_MOVES", 0)
	var memory []int
	for n := range count {
		written := inside.ask(writes(n % 10))
		inside = v.moves(fmt.Sprint("move-", n), "type: Migrate")
		require.Equal(v.t, written, inside.ask(reads))
		memory = append(memory, v.managersMemory())
	}
	if count < 20 {
		return
	}
	first, last := slices.Max(memory[:10]), slices.Max(memory[count-10:])
	v.t.Logf("%d moves; the manager has at most %d KiB in the first ten, %d in the last: %v", count, first, last,
		memory)
	require.Less(v.t, last, first*5/4)
}

// times returns the number of repetitions from an environment variable, or the usual number.
func times(t testing.TB, variable string, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	count, err := strconv.Atoi(text)
	require.NoError(t, err, variable)
	return count
}

// managersMemory returns the private memory of the manager's process, in KiB.
func (v *clusterVM) managersMemory() int {
	v.t.Helper()
	pids := v.processesOf(string(v.manager(v.t).UID), "vmmanager")
	require.Len(v.t, pids, 1)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pids[0]))
	require.NoError(v.t, err)
	_, rest, _ := strings.Cut(string(text), "RssAnon:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(v.t, err)
	return kib
}

// watched watches the VM with kubectl get -w. The returned function ends the watch and returns the phases with their
// nodes.
func (v *clusterVM) watched() func() []string {
	v.t.Helper()
	var out bytes.Buffer
	cmd := v.KubectlCommand(v.t.Context(), "-n", namespace, "get", "vm", v.name, "--watch", "--no-headers")
	cmd.Stdout = &out
	require.NoError(v.t, cmd.Start())
	return func() (seen []string) {
		finish(cmd)
		for line := range strings.Lines(out.String()) {
			words := strings.Fields(line)
			if is := words[1] + " " + words[2]; !slices.Contains(seen[max(len(seen)-1, 0):], is) {
				seen = append(seen, is)
			}
		}
		return seen
	}
}

// moves moves the guest with an operation, and returns its console in the other pod.
func (v *clusterVM) moves(operation, spec string) *console {
	v.t.Helper()
	before, begin := v.pod(), time.Now()
	o := v.operate(operation, spec)
	v.t.Logf("%s: %s after %.1f s", v.name, o.Status.Phase, time.Since(begin).Seconds())
	require.Equal(v.t, v1.OperationCompleted, o.Status.Phase, "%+v", o.Status)
	v.ordinal = 1 - v.ordinal
	v.runs()
	require.NotEqual(v.t, before.UID, v.pod().UID)
	return v.console()
}

// Any process may be killed during a migration: afterwards there is exactly one guest, which was not interrupted, and
// the operation has ended. VMOP_KILLS is the number of kills.
func migrationsInterrupted(t *testing.T, l *lab) {
	rounds := times(t, "VMOP_KILLS", 3)
	l.applyText(t, `{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: survives-local},
  spec: {persistentVolumeClaim: {storageClassName: lab, size: 16Mi}}}`)
	v := l.create(t, tiny("survives", withDisk("shared", corev1.PersistentVolumeBlock), onAllNodes,
		withVirtualDisk("survives-local"),
		func(s *v1.VirtualMachineSpec) { s.Migration = &v1.MigrationPolicy{CopyDisks: true} }))
	v.runs()
	inside := v.console().booted()
	const bootID = "cat /proc/sys/kernel/random/boot_id"
	boot, written := inside.ask(bootID), inside.ask(writes(1))
	local := inside.ask(onSecondDisk(writesWord(0)))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range rounds {
		victim := []string{"manager", "runner of the source", "runner of the target"}[round%3]
		name, after := fmt.Sprint("interrupted-", round), time.Duration(random.IntN(4000))*time.Millisecond
		source, target := v.pod(), fmt.Sprintf("%s-%d", v.name, 1-v.ordinal)
		v.applyText(t, fmt.Sprintf("{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachineOperation, "+
			"metadata: {name: %s}, spec: {type: Migrate, virtualMachineName: %s}}", name, v.name))
		<-time.After(after) // a random time
		switch victim {
		case "manager":
			l.killManager(t)
		case "runner of the source":
			l.killRunner(t, source)
		default:
			var pod corev1.Pod
			if l.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: target}, &pod) == nil {
				l.killRunner(t, &pod)
			}
		}
		o := v.operationEnds(name)
		t.Logf("%s killed after %s: %s: %s", victim, after, o.Status.Phase, o.Status.Message)
		v.ordinal = int(v.now().Status.PodOrdinal)
		require.Equal(t, o.Status.Phase == v1.OperationCompleted, v.podName() == target)
		v.runs()
		wait.For(t, "the end of the other pod", func() error {
			if all := l.qemus(v.name); len(all) != 1 {
				return fmt.Errorf("the VM has the QEMUs %v", all)
			}
			return nil
		})
		inside = v.console()
		require.Equal(t, []string{boot, written, local}, []string{
			inside.ask(bootID), inside.ask(reads), inside.ask(onSecondDisk(readsWord)),
		})
		written = inside.ask(fmt.Sprintf("echo %d | dd of=/dev/vda conv=fsync 2>/dev/null; ", round) + reads)
		local = inside.ask(onSecondDisk(writesWord(round % 10)))
	}
}

// killRunner kills the runner in a pod, if it has one.
func (l *lab) killRunner(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if pid := l.runnerIn(pod); pid != 0 {
		kill(t, pid)
	}
}

// onAllNodes lets all nodes use the first disk at the same time.
func onAllNodes(s *v1.VirtualMachineSpec) {
	s.VM.Disks[0].VolumeClaimTemplate.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
}

// When a node is drained, migratable guests leave it without interruption, two at a time. A guest that can't be
// migrated, and need not be, is shut down and started on the other node (docs/tasks/migration-in-the-cluster.md).
func drainedNode(t *testing.T, l *lab) {
	strategy := func(s v1.EvictionStrategy) func(*v1.VirtualMachineSpec) {
		return func(spec *v1.VirtualMachineSpec) { spec.EvictionStrategy = s }
	}
	stays := l.create(t, tiny("drained-0", strategy(v1.EvictionLiveMigrate)))
	stays.runs()
	node := stays.pod().Spec.NodeName
	there := func(s *v1.VirtualMachineSpec) { s.NodeSelector = map[string]string{corev1.LabelHostname: node} }
	all := []*clusterVM{stays}
	for i := range 3 {
		all = append(all, l.create(t, lean(fmt.Sprint("drained-", 1+i), strategy(v1.EvictionLiveMigrate), there)))
	}
	l.applyText(t, `{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: drained},
  spec: {persistentVolumeClaim: {storageClassName: lab, size: 16Mi}}}`)
	all = append(all, l.create(t, lean("drained-local", strategy(v1.EvictionLiveMigrate), there,
		withVirtualDisk("drained"),
		func(s *v1.VirtualMachineSpec) { s.Migration = &v1.MigrationPolicy{CopyDisks: true} })))
	restarts := l.create(t, lean("drained-by-restart", withDisk("own", corev1.PersistentVolumeBlock),
		strategy(v1.EvictionLiveMigrateIfPossible), there))
	inside := stays.console().booted()
	const bootID = "cat /proc/sys/kernel/random/boot_id"
	boot := inside.ask(bootID)
	for _, v := range append(all[1:], restarts) {
		v.runs()
		v.change(func(s *v1.VirtualMachineSpec) { s.NodeSelector = nil }) // now it may leave
	}
	for _, v := range all {
		wait.For(t, "the budget of "+v.name, func() error {
			key := client.ObjectKey{Namespace: namespace, Name: v.name}
			return l.client.Get(t.Context(), key, &policyv1.PodDisruptionBudget{})
		})
	}
	t.Cleanup(func() { _, _ = l.Kubectl(context.WithoutCancel(t.Context()), "uncordon", node) })
	begin := time.Now()
	out := l.kubectl(t, "drain", node, "--pod-selector", "app.kubernetes.io/name=vm-runner", "--delete-emptydir-data",
		"--timeout=5m")
	t.Logf("drained after %.1f s:\n%s", time.Since(begin).Seconds(), out)
	for _, v := range all {
		now := v.until("to run on the other node", func(now *v1.VirtualMachine) bool {
			return now.Status.Phase == v1.PhaseRunning && now.Status.NodeName != node
		})
		require.Equal(t, v1.MigrationCompleted, now.Status.Migration.Stage)
		require.Equal(t, node, now.Status.Migration.Source.NodeName)
		v.ordinal = int(now.Status.PodOrdinal)
	}
	require.Equal(t, boot, stays.console().ask(bootID))
	require.NotEqual(t, "vd-drained", l.targetOf(t, "drained"))
	restarts.until("to run on the other node", func(now *v1.VirtualMachine) bool {
		return now.Status.Phase == v1.PhaseRunning && now.Status.NodeName != node && now.Status.Migration == nil
	})
}
