package e2e_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/test/wait"
)

// A guest moves to another node with disks that only one node at a time can use. They are copied while the guest runs.
// The old disks are deleted with the operation (docs/tasks/migration-in-the-cluster.md).
func localDisks(t *testing.T, l *lab) {
	for name, mode := range map[string]string{"local-device": "Block", "local-file": "Filesystem"} {
		l.applyText(t, fmt.Sprintf(`{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: %s},
  spec: {persistentVolumeClaim: {storageClassName: lab, size: 16Mi, volumeMode: %s}}}`, name, mode))
	}
	v := l.create(t, tiny("copied", withVirtualDisk("local-device"), withVirtualDisk("local-file")))
	v.runs()
	inside := v.console().booted()
	const bootID = "cat /proc/sys/kernel/random/boot_id"
	boot, device, file := inside.ask(bootID), inside.ask(writesWord(1)), inside.ask(onSecondDisk(writesWord(2)))
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
		inside.ask(bootID), inside.ask(readsWord), inside.ask(onSecondDisk(readsWord)),
	})
	second := l.targetOf(t, "local-device")
	require.NotEqual(t, first, second)
	wait.For(t, "the former claim belongs to the operation", func() error {
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
	device, file = inside.ask(writesWord(3)), inside.ask(onSecondDisk(writesWord(4)))
	l.kubectl(t, "delete", "vmop", "local-there")
	l.claimGoes(t, first)

	v.set(v1.Stopped)
	v.podGone()
	v.set(v1.Running)
	v.runs()
	inside = v.console().booted()
	require.Equal(t, []string{device, file}, []string{inside.ask(readsWord), inside.ask(onSecondDisk(readsWord))})

	last := l.targetOf(t, "local-device")
	require.NoError(t, l.client.Delete(t.Context(), v.now()))
	v.podGone()
	l.kubectl(t, "delete", "vd", "local-device", "--timeout=2m")
	l.claimGoes(t, last)
}

// writesWord returns a command that writes a word at the beginning of the first disk, with the output of readsWord.
func writesWord(n int) string {
	return fmt.Sprintf("echo word-%d | dd of=/dev/vda conv=fsync 2>/dev/null; ", n) + readsWord
}

// readsWord prints the word at the beginning of the first disk, bypassing the cache.
const readsWord = "blockdev --flushbufs /dev/vda; head -c 6 /dev/vda"

// key returns the key of an object of the lab.
func key(name string) client.ObjectKey { return client.ObjectKey{Namespace: namespace, Name: name} }

// targetOf returns the name of a disk's claim.
func (l *lab) targetOf(t *testing.T, disk string) string {
	t.Helper()
	var d v1.VirtualDisk
	require.NoError(t, l.client.Get(t.Context(), key(disk), &d))
	return d.Status.Target.PersistentVolumeClaimName
}

// claimGoes waits until a claim is deleted.
func (l *lab) claimGoes(t *testing.T, name string) {
	t.Helper()
	wait.For(t, "the end of the claim "+name, func() error {
		err := l.client.Get(t.Context(), key(name), &corev1.PersistentVolumeClaim{})
		if err == nil {
			return fmt.Errorf("the claim %s is there", name)
		}
		return client.IgnoreNotFound(err)
	})
}
