package e2e_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/test/cluster/clustertest"
)

// find sets D to the disk of a serial number in the guest, whose system has no udev.
const find = "D=; for b in /sys/block/vd*; do [ \"$(cat $b/serial)\" = data ] && D=/dev/${b##*/}; done; "

// awaits sets D when the guest has the disk.
const awaits = "until " + find + "[ -n \"$D\" ]; do usleep 50000; done; "

// A guest gets a disk while it runs, writes while its export is another pod, and lets go of it; another
// VM reads what was written.
func attachments(t *testing.T, l *lab) {
	v := l.create(t, tiny("gets-disks"))
	l.applyText(t, `{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: data},
  spec: {persistentVolumeClaim: {storageClassName: `+storage+`, size: 16Mi}}}`)
	v.runs()
	inside := v.console().booted()
	began := time.Now()
	l.applyText(t, attachmentOf("first", "gets-disks"))
	inside.ask(awaits + "echo there")
	t.Logf("the guest has the disk %.1f s after the attachment was made", time.Since(began).Seconds())
	l.attachmentIs(t, "first", v1.AttachmentAttached)
	require.Contains(t, inside.ask(find+"echo written | dd of=$D conv=fsync 2>/dev/null; head -c 7 $D"), "written")

	// Its export is killed: what the guest asks for meanwhile waits.
	l.kubectl(t, "delete", "pod", "vd-data", "--force", "--grace-period=0")
	require.Contains(t, inside.ask(find+"echo again | dd of=$D bs=512 seek=1 conv=fsync 2>/dev/null && echo went on"), "went on")
	l.attachmentIs(t, "first", v1.AttachmentAttached)
	l.kubectl(t, "delete", "vmbda", "first", "--timeout=2m")
	require.Contains(t, inside.ask(find+"echo \"<$D>\""), "<>")
	clustertest.Eventually(t, "the end of the export", func() error {
		err := l.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "vd-data"}, &corev1.Pod{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.New("it is still there")
	})

	l.applyText(t, attachmentOf("second", "gets-disks"))
	l.attachmentIs(t, "second", v1.AttachmentAttached)
	require.Contains(t, inside.ask(awaits+"head -c 7 $D; dd if=$D bs=512 skip=1 count=1 2>/dev/null | head -c 5"), "written")
}

func attachmentOf(name, vm string) string {
	return fmt.Sprintf(`{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachineBlockDeviceAttachment, metadata: {name: %s},
  spec: {virtualMachineName: %s, blockDeviceRef: {kind: VirtualDisk, name: data}}}`, name, vm)
}

// attachmentIs waits until an attachment has a phase.
func (l *lab) attachmentIs(t *testing.T, name string, phase v1.AttachmentPhase) {
	t.Helper()
	clustertest.Eventually(t, name+" is "+string(phase), func() error {
		var a v1.VirtualMachineBlockDeviceAttachment
		err := l.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &a)
		if err == nil && a.Status.Phase != phase {
			err = errors.New(strings.Join([]string{string(a.Status.Phase), a.Status.Reason, a.Status.Message}, " "))
		}
		return err
	})
}
