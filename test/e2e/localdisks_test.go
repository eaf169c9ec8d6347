package e2e_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/test/cluster/clustertest"
)

// A guest moves to another node and back with disks that only one node at a time can have: they are copied while it
// runs. Where the disks were before goes with the operation. Whatever is killed meanwhile, the guest has its disks as
// it has left them (docs/migration-in-the-cluster.md).
func localDisks(t *testing.T, l *lab) {
	for name, mode := range map[string]string{"local-device": "Block", "local-file": "Filesystem"} {
		l.applyText(t, fmt.Sprintf(`{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: %s},
  spec: {persistentVolumeClaim: {storageClassName: lab, size: 16Mi, volumeMode: %s}}}`, name, mode))
	}
	v := l.create(t, tiny("local", withVirtualDisk("local-device"), withVirtualDisk("local-file")))
	v.runs()
	inside := v.console().booted()
	const bootID = "cat /proc/sys/kernel/random/boot_id"
	boot, device, file := inside.ask(bootID), inside.ask(writes(1)), inside.ask(onSecondDisk(writes(2)))
	condition := v.condition(v1.ConditionMigratable, metav1.ConditionFalse)
	require.Contains(t, condition.Message, "copyDisks")
	o := v.operate("local-refused", "type: Migrate")
	require.Equal(t, "NotMigratable", o.Status.Reason)
	require.Contains(t, o.Status.Message, "copyDisks")

	const copies = "type: Migrate\n  migrate: {copyDisks: true}"
	node, first := v.now().Status.NodeName, l.targetOf(t, "local-device")
	inside = v.moves("local-there", copies)
	require.NotEqual(t, node, v.now().Status.NodeName)
	require.Equal(t, []string{boot, device, file}, []string{
		inside.ask(bootID), inside.ask(reads), inside.ask(onSecondDisk(reads)),
	})
	second := l.targetOf(t, "local-device")
	require.NotEqual(t, first, second)
	clustertest.Eventually(t, "the former claim belongs to the operation", func() error {
		var claim corev1.PersistentVolumeClaim
		if err := l.client.Get(t.Context(), key(first), &claim); err != nil {
			return err
		}
		if owner := metav1.GetControllerOf(&claim); owner == nil || owner.Name != "local-there" {
			return fmt.Errorf("its owner is %+v", owner)
		}
		return nil
	})
	l.diskIs(t, "local-device", v1.DiskReady, "")
	device, file = inside.ask(writes(3)), inside.ask(onSecondDisk(writes(4)))
	l.kubectl(t, "delete", "vmop", "local-there")
	l.claimGoes(t, first)

	v.set(v1.Stopped)
	v.podGone()
	v.set(v1.Running)
	v.runs()
	inside = v.console().booted()
	require.Equal(t, []string{device, file}, []string{inside.ask(reads), inside.ask(onSecondDisk(reads))})

	for round, victim := range []string{"manager", "runner of the source", "runner of the target", "manager"} {
		boot, device = inside.ask(bootID), inside.ask(writes(10+round))
		name, source := fmt.Sprint("local-killed-", round), v.pod()
		v.applyText(t, fmt.Sprintf("{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachineOperation, "+
			"metadata: {name: %s}, spec: {virtualMachineName: %s, %s}}", name, v.name, "type: Migrate, migrate: {copyDisks: true}"))
		<-time.After(time.Duration(round+1) * 700 * time.Millisecond)
		switch victim {
		case "manager":
			l.killManager(t)
		case "runner of the source":
			l.killRunner(t, source)
		default:
			var pod corev1.Pod
			if l.client.Get(t.Context(), key(fmt.Sprintf("%s-%d", v.name, 1-v.ordinal)), &pod) == nil {
				l.killRunner(t, &pod)
			}
		}
		o := v.operationEnds(name)
		t.Logf("%s killed: %s: %s", victim, o.Status.Phase, o.Status.Message)
		v.ordinal = int(v.now().Status.PodOrdinal)
		v.runs()
		inside = v.console()
		require.Equal(t, []string{boot, device, file}, []string{
			inside.ask(bootID), inside.ask(reads), inside.ask(onSecondDisk(reads)),
		})
	}
	last := l.targetOf(t, "local-device")
	require.NoError(t, l.client.Delete(t.Context(), v.now()))
	v.podGone()
	l.kubectl(t, "delete", "vd", "local-device", "--timeout=2m")
	l.claimGoes(t, last)
}

// key is that of an object of the lab.
func key(name string) client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: name} }

// targetOf returns the claim that a disk has.
func (l *lab) targetOf(t *testing.T, disk string) string {
	t.Helper()
	var d v1.VirtualDisk
	require.NoError(t, l.client.Get(t.Context(), key(disk), &d))
	return d.Status.Target.PersistentVolumeClaimName
}

// claimGoes waits until a claim is gone.
func (l *lab) claimGoes(t *testing.T, name string) {
	t.Helper()
	clustertest.Eventually(t, "the end of the claim "+name, func() error {
		err := l.client.Get(t.Context(), key(name), &corev1.PersistentVolumeClaim{})
		if err == nil {
			return fmt.Errorf("the claim %s is there", name)
		}
		return client.IgnoreNotFound(err)
	})
}
