package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
	"vmop/runner/migrate"
	"vmop/runner/migrate/handover"
	"vmop/runner/prepare"
	"vmop/test/wait"
)

// The target node of a migration is lost at the moment of the handover. The guest waits, paused, until a user confirms
// that it runs nowhere else, and is then restarted from its disk (docs/tasks/migration-in-the-cluster.md).
func targetLost(t *testing.T, l *lab) {
	home, victim := l.manager(t).Spec.NodeName, 1
	if home == "node1" {
		victim = 2
	}
	lost := fmt.Sprint("node", victim)
	v := l.create(t, tiny("loses-target", withDisk("shared", corev1.PersistentVolumeBlock), onAllNodes, onNode(home)))
	v.runs()
	first := v.pod()
	require.Equal(t, home, first.Spec.NodeName)
	inside := v.console().booted()
	const bootID, written = "cat /proc/sys/kernel/random/boot_id", "head -n 1 /dev/vda"
	boot := inside.ask(bootID)
	inside.ask("echo kept >/dev/vda; sync")
	operation := ""
	for attempt := 0; !v.stopsTarget(fmt.Sprint("lost-", attempt), &operation); attempt++ {
		require.Less(t, attempt, 5, "the guest has always moved before its target was stopped")
		v.moves(fmt.Sprint("back-", attempt), "type: Migrate")
	}
	other := objects.PodName(v.name, int32(1-v.ordinal))
	require.NoError(t, l.CutPower(t.Context(), victim))
	t.Cleanup(func() {
		if t.Failed() { // otherwise it has already booted
			_ = l.Boot(context.WithoutCancel(t.Context()), victim)
		}
	})

	u := newUser(t, l)
	const reclaim = "kubectl vmop reclaim loses-target --runs-nowhere-else"
	out, err := u.command(reclaim).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "pod "+other+" exists on node "+lost+": the guest may be running in it")
	u.until("kubectl get node "+lost, "NotReady")
	require.Len(t, v.qemus(v.name), 1, "the guest waits")
	l.kubectl(t, "delete", "pod", other, "--force", "--grace-period=0")
	begin := time.Now()
	u.until(reclaim, "reclaimed")
	t.Logf("reclaimed %.0f s after the other pod was deleted", time.Since(begin).Seconds())
	o := v.operationEnds(operation)
	require.Equal(t, v1.OperationFailed, o.Status.Phase)
	require.Contains(t, o.Status.Message, "the guest has not moved: ") // from the runner's response or from its outcome
	require.Contains(t, o.Status.Message, "the guest was released to a target that is gone for good")
	v.until("to be started anew", func(now *v1.VirtualMachine) bool {
		return now.Status.Phase == v1.PhaseRunning && now.Status.Runner.PodUID != first.UID
	})
	require.Equal(t, home, v.pod().Spec.NodeName)
	inside = v.console().booted()
	require.NotEqual(t, boot, inside.ask(bootID))
	require.Equal(t, "kept", inside.ask(written))

	require.NoError(t, l.Boot(t.Context(), victim))
	require.Equal(t, "kept", inside.ask(written))
	require.Len(t, v.qemus(v.name), 1)
}

// stopsTarget begins a migration, and stops the target's runner when the guest has been released to it. It reports
// whether that was before the source learned that the target runs the guest. Otherwise the guest has moved.
func (v *clusterVM) stopsTarget(name string, operation *string) bool {
	v.t.Helper()
	*operation = name
	source := v.runnerIn(v.pod())
	v.applyText(v.t, fmt.Sprintf("{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachineOperation, "+
		"metadata: {name: %s}, spec: {type: Migrate, virtualMachineName: %s}}", name, v.name))
	var target int
	wait.For(v.t, "the runner of the target", func() error {
		var pod corev1.Pod
		key := client.ObjectKey{Namespace: namespace, Name: objects.PodName(v.name, int32(1-v.ordinal))}
		if err := v.client.Get(v.t.Context(), key, &pod); err != nil {
			return err
		}
		if target = v.runnerIn(&pod); target == 0 {
			return fmt.Errorf("the pod has none yet")
		}
		return nil
	})
	// The target writes this file when the source has released the guest.
	received := filepath.Join(dataOf(target), prepare.ReceivedFile)
	before, _ := os.ReadFile(received)
	for limit := time.Now().Add(2 * time.Minute); ; {
		now, err := os.ReadFile(received)
		if err == nil && string(now) != string(before) {
			break
		}
		require.True(v.t, time.Now().Before(limit), "the guest was not released")
		time.Sleep(100 * time.Microsecond)
	}
	require.NoError(v.t, syscall.Kill(target, syscall.SIGSTOP))
	for range 100 {
		note, err := handover.Read(dataOf(source))
		if err != nil || note.Record != migrate.Released {
			require.NoError(v.t, syscall.Kill(target, syscall.SIGCONT))
			require.Equal(v.t, v1.OperationCompleted, v.operationEnds(name).Status.Phase)
			v.ordinal = 1 - v.ordinal
			v.runs()
			return false
		}
		time.Sleep(30 * time.Millisecond)
	}
	return true
}

// runnerIn returns the process ID of the runner in a pod, or 0.
func (l *lab) runnerIn(pod *corev1.Pod) int {
	all := l.processesOf(string(pod.UID), "vmrunner")
	if len(all) < 2 { // the first is the container's
		return 0
	}
	return all[len(all)-1]
}

// dataOf returns the data directory of a runner, through its root in /proc.
func dataOf(pid int) string {
	return filepath.Join("/proc", fmt.Sprint(pid), "root", strings.TrimPrefix(objects.DataDir, "/"))
}
