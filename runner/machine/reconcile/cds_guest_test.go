package reconcile_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/machine/reconcile"
	"vmop/runner/status"
	"vmop/test/guest"
	"vmop/test/tier"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// A real guest receives CD drives, reads them and changes a medium. It keeps a drive while its tray is locked, even if
// the runner is killed in between.
func TestARealGuestGetsAndLosesCDDrives(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	t.Run("SCSI", func(t *testing.T) {
		t.Parallel()
		getsAndLosesCDDrives(t, guest.Tiny(t), "", "scsi0.0")
	})
	t.Run("USB", func(t *testing.T) {
		t.Parallel()
		getsAndLosesCDDrives(t, guest.PC(t), "usb-bot", "usb.0")
	})
}

func getsAndLosesCDDrives(t *testing.T, image guest.Image, holder, bus string) {
	guest.TakePlace(t)
	rule, options := threePorts()
	rule.CDDriver, rule.CDBus, rule.CDHolder = "scsi-cd", bus, holder
	options = append(options, "-device", "qemu-xhci,id=usb,p2=15,p3=15",
		"-object", "iothread,id=thread", "-device", "virtio-scsi-pci,id=scsi0,iothread=thread")
	l := startQEMU(t, reconcile.Start{}, plan.Rules{rule}, append(options, linux(image)...)...)
	cd := func(serial, content string) reconcile.Drive {
		file := filepath.Join(l.qemu.Dir, content)
		require.NoError(t, os.WriteFile(file, bytes.Repeat([]byte(content+"\n"), 1<<17), 0o600))
		return reconcile.Drive{Index: 1, Drive: vmspec.Drive{
			Type: vmspec.DriveIDECD, File: file, Format: "raw", Serial: serial, ReadOnly: true,
		}}
	}
	disk := filepath.Join(l.qemu.Dir, "data")
	require.NoError(t, os.WriteFile(disk, make([]byte, 1<<20), 0o600))
	l.want.Drives = []reconcile.Drive{}
	l.settles("nothing")
	c := l.runs()

	l.cdOfAServer(c, rule, cd("far", "medium0").File)

	first, other := cd("cd0", "medium1"), cd("cd-1", "medium2")
	l.want.Drives = []reconcile.Drive{first}
	l.become("cd0 Attached")
	// The device appears before it can be read.
	read := func(device, text string) {
		c.tells("until head -n 1 /dev/"+device+" 2>/dev/null | grep "+text+"; do usleep 100000; done", "^"+text)
	}
	read("sr0", "medium1")
	l.want.Drives = []reconcile.Drive{first, other, wantedDisk(3, disk, "data")}
	l.become("cd0 Attached", "cd-1 Attached", "data Attached")
	read("sr1", "medium2")

	again := func() { l.machine = reconcile.New(plan.Rules{rule}, reconcile.Start{Running: true}) }
	again()
	l.become("cd0 Attached", "cd-1 Attached", "data Attached")
	l.want.Drives = []reconcile.Drive{first}
	l.become("cd0 Attached")
	c.tells("while [ -b /dev/sr1 ]; do usleep 100000; done; echo gone", "^gone")

	// Another medium uses another drive, and the first drive stays until the guest has released it.
	pid := c.tells("sleep 1000 </dev/sr0 >/dev/null 2>&1 & echo pid=$!", `pid=(\d+)`)
	c.tells("until [ -b /proc/"+pid+"/fd/0 ]; do usleep 10000; done; echo locked", "^locked")
	l.want.Drives = []reconcile.Drive{cd("cd0", "medium3")}
	f := l.until("the tray is locked", func(f reconcile.Facts) bool {
		return len(f.Drives) == 1 && f.Drives[0].Message != ""
	})
	require.Equal(t, status.DriveAttaching, f.Drives[0].State)
	require.Equal(t, "waiting for the guest to open the tray, which it has locked", f.Drives[0].Message)
	again()
	l.until("it is asked again", func(f reconcile.Facts) bool {
		return len(f.Drives) == 1 && strings.HasPrefix(f.Drives[0].Message, "waiting")
	})
	c.tells("kill "+pid+"; echo unlocked", "^unlocked")
	l.become("cd0 Attached")
	read("sr0", "medium3")

	// The rest of an attachment is removed, and the guest sees a drive that an earlier runner did not plug in.
	l.want.Drives = []reconcile.Drive{}
	l.become()
	require.NotContains(t, l.nodes(), `"c0-`)
	c.tells("while [ -b /dev/sr0 ]; do usleep 100000; done; echo gone", "^gone")
	for at, state := range []string{"without a drive", "not plugged in"} {
		file, err := os.Open(first.File)
		require.NoError(t, err)
		a := reconcile.AttachmentOf(rule, first, reconcile.Slot{}, file)
		for _, command := range a.Do[:len(a.Do)-1+at] {
			_, err := l.qemu.Run(t.Context(), command)
			require.NoError(t, err, state)
		}
		require.NoError(t, file.Close())
		again()
		l.want.Drives = []reconcile.Drive{first}
		l.become("cd0 Attached")
		read("sr0", "medium1")
		l.want.Drives = []reconcile.Drive{}
		l.become()
		c.tells("while [ -b /dev/sr0 ]; do usleep 100000; done; echo gone", "^gone")
	}
}

// cdOfAServer gives a guest a CD drive with a medium from a server that starts late, and removes it. The runner is
// killed in between. An unreachable server does not stop the guest.
func (l *live) cdOfAServer(c *console, rule plan.Disks, medium string) {
	s := newDiskServer(l.t, medium)
	s.export.ReadOnly = true
	drive := s.drive(0, "far")
	drive.Type, drive.ReadOnly = vmspec.DriveIDECD, true
	l.want.Drives, l.want.DrivesRevision = []reconcile.Drive{drive}, 1
	l.until("the server is awaited", func(f reconcile.Facts) bool {
		return len(f.Drives) == 1 && strings.HasPrefix(f.Drives[0].Message, "waiting for the disk's server: ")
	})
	require.NotContains(l.t, strings.Join(l.said, " "), "blockdev-add", "QEMU is not asked")
	s.startServer()
	l.become("far Attached")
	c.tells("until head -n 1 /dev/sr0 2>/dev/null | grep medium0; do usleep 100000; done", "^medium0")
	c.tells("dd if=/dev/zero of=/dev/sr0 count=1 2>/dev/null || echo read only", "^read only")

	l.machine = reconcile.New(plan.Rules{rule}, reconcile.Start{Running: true}) // the runner was killed
	l.become("far Attached")
	s.end()
	l.want.Drives, l.said = []reconcile.Drive{}, nil
	l.complains("vm.drives: disk far: the disk is detached when its server answers")
	require.NotContains(l.t, strings.Join(l.said, " "), "device_del", "the guest would stop")
	s.startServer()
	l.become()
	l.want.DrivesRevision = 0
	require.NotContains(l.t, l.nodes(), `"c0-`)
	require.NotContains(l.t, string(l.ask("qom-list", map[string]any{"path": "/objects"})), "tls-far")
	c.tells("while [ -b /dev/sr0 ]; do usleep 100000; done; echo gone", "^gone")
}

// CD drives are attached and detached without the guest's help: a SCSI drive is removed itself, and a USB drive with
// its USB device.
func TestCDDrivesNeedNoGuest(t *testing.T) {
	t.Parallel()
	for holder, bus := range map[string]string{"": "scsi0.0", "usb-bot": "usb.0"} {
		rule, options := threePorts()
		rule.CDDriver, rule.CDBus, rule.CDHolder = "scsi-cd", bus, holder
		options = append(options, "-device", "qemu-xhci,id=usb,p2=15,p3=15", "-device", "virtio-scsi-pci,id=scsi0")
		l := startQEMU(t, reconcile.Start{}, plan.Rules{rule}, options...)
		file := l.file("cd", 1<<20)
		l.want.Drives = []reconcile.Drive{}
		l.settles("nothing")
		l.ask("cont", nil)
		l.want.Drives = []reconcile.Drive{{Index: 1, Drive: vmspec.Drive{
			Type: vmspec.DriveIDECD, File: file, Format: "raw", Serial: "cd0", ReadOnly: true,
		}}}
		l.become("cd0 Attached")
		l.machine = reconcile.New(plan.Rules{rule}, reconcile.Start{Running: true}) // the runner was killed
		l.become("cd0 Attached")
		l.want.Drives = []reconcile.Drive{}
		l.become()
		require.NotContains(t, l.nodes(), `"c0-`)
	}
}
