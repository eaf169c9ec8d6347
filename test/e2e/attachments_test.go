package e2e_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
	"vmop/test/guest"
	"vmop/test/wait"
)

// find sets D to the disk with the serial number data in the guest, where no udev runs.
const find = "D=; for b in /sys/block/vd*; do [ \"$(cat $b/serial)\" = data ] && D=/dev/${b##*/}; done; "

// awaits waits until the guest has the disk, and sets D.
const awaits = "until " + find + "[ -n \"$D\" ]; do usleep 50000; done; "

// A disk is attached to a running guest. The guest keeps writing while another pod takes over the export, and the disk
// is detached. Another VM reads the written data.
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

	// The export is killed. The guest's requests wait.
	l.kubectl(t, "delete", "pod", "vd-data", "--force", "--grace-period=0")
	require.Contains(t, inside.ask(find+"echo again | dd of=$D bs=512 seek=1 conv=fsync 2>/dev/null && echo went on"), "went on")
	l.attachmentIs(t, "first", v1.AttachmentAttached)
	l.kubectl(t, "delete", "vmbda", "first", "--timeout=2m")
	require.Contains(t, inside.ask(find+"echo \"<$D>\""), "<>")
	wait.For(t, "the end of the export", func() error {
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

// A CD is inserted into the drive of a running guest, in two VMs at the same time. The guest can read it even after its
// image has been deleted. Another image is attached as a disk. The export ends with the attachment, and with the VM.
func attachedImages(t *testing.T, l *lab) {
	content := bytes.Repeat([]byte("what is on the CD\n"), 100_000)
	content = content[:len(content)/4096*4096]
	u := newUser(t, l)
	upload := func(name string) string {
		file := filepath.Join(u.home, name)
		require.NoError(t, os.WriteFile(file, content, 0o600))
		u.types("kubectl vmop image upload "+name+" "+file+" --size 16Mi --storage-class "+storage, "")
		return fmt.Sprintf("%x  -", sha256.Sum256(content))
	}
	plain := upload("plain")
	copy(content[0x8000:], "\x01CD001\x01") // a volume descriptor of ISO 9660
	cd := upload("tools")
	require.Equal(t, "true", l.kubectl(t, "get", "vi", "tools", "-o", "jsonpath={.status.cdrom}"))
	pc := guest.PC(t)
	for name, from := range map[string]string{"pc-vmlinuz": pc.Kernel, "pc-initrd.gz": pc.Initrd} {
		file, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(l.Dir, "repository", name), file, 0o644))
	}
	withUSB := l.create(t, tiny("gets-a-cd", func(s *v1.VirtualMachineSpec) {
		s.VM.Kernel.Image, s.VM.Kernel.Initrd = "pc-vmlinuz", "pc-initrd.gz"
	}))
	other := l.create(t, tiny("gets-a-disk"))
	withUSB.runs()
	other.runs()
	reads := func(inside *console, device, sum string) {
		t.Helper()
		read := fmt.Sprintf("head -c %d /dev/%s 2>/dev/null | sha256sum", len(content), device)
		inside.ask("until [ \"$(" + read + ")\" = '" + sum + "' ]; do usleep 200000; done")
	}
	inCD, inOther := withUSB.console().booted(), other.console().booted()
	u.types("kubectl vmop image attach gets-a-cd tools && kubectl vmop image attach gets-a-disk tools && "+
		"kubectl vmop image attach gets-a-disk plain", "")
	reads(inCD, "sr0", cd)
	reads(inOther, "vda", plain)
	require.Contains(t, inOther.ask("cat /sys/block/vda/serial"), "plain.vi")
	other.set(v1.Stopped)
	other.podGone()
	other.set(v1.Running)
	other.runs()
	inOther = other.console().booted()
	reads(inOther, "vda", plain)
	inOther = other.moves("moves-with-an-image", "type: Migrate")
	reads(inOther, "vda", plain)
	inCD = withUSB.moves("moves-with-a-cd", "type: Migrate")
	inCD.ask("echo 3 >/proc/sys/vm/drop_caches")
	reads(inCD, "sr0", cd)
	l.kubectl(t, "delete", "vi", "tools")
	l.attachmentIs(t, "gets-a-cd-tools-vi", v1.AttachmentAttached)
	reads(inCD, "sr0", cd)
	u.types("kubectl vmop image detach gets-a-cd tools", "")
	inCD.ask("while [ -b /dev/sr0 ]; do usleep 100000; done")
	l.kubectl(t, "delete", "vm", "gets-a-disk", "--timeout=3m")
	wait.For(t, "the end of the exports", func() error {
		label := objects.LabelName + "=" + objects.ExportAppName
		left := l.kubectl(t, "get", "pods,services,secrets", "-l", label, "-o", "name")
		if strings.Contains(left, "vi-") {
			return errors.New("there is still " + left)
		}
		return nil
	})
}

func attachmentOf(name, vm string) string {
	return fmt.Sprintf(`{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachineBlockDeviceAttachment, metadata: {name: %s},
  spec: {virtualMachineName: %s, blockDeviceRef: {kind: VirtualDisk, name: data}}}`, name, vm)
}

// attachmentIs waits until an attachment has a phase.
func (l *lab) attachmentIs(t *testing.T, name string, phase v1.AttachmentPhase) {
	t.Helper()
	wait.For(t, name+" is "+string(phase), func() error {
		var a v1.VirtualMachineBlockDeviceAttachment
		err := l.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &a)
		if err == nil && a.Status.Phase != phase {
			err = errors.New(strings.Join([]string{string(a.Status.Phase), a.Status.Reason, a.Status.Message}, " "))
		}
		return err
	})
}
