package inventory

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/internal/yamlfile"
	"vmop/runner/prepare/images"
	"vmop/runner/status"
	"vmop/test/tier"
	"vmop/test/wait"
	"vmop/vmspec"
	"vmop/vmstatus"
)

// attach attaches a disk to the VM web.
func (h *here) attach(d vmspec.Drive) (DiskChange, error) {
	h.t.Helper()
	return h.AttachDisk(h.t.Context(), request(wait.Longest), d)
}

func (h *here) detach(disk string) (DiskChange, error) {
	h.t.Helper()
	return h.DetachDisk(h.t.Context(), request(wait.Longest), disk)
}

func request(limit time.Duration) DiskRequest {
	return DiskRequest{VM: "web", Limit: limit, Tell: func(string, string) {}, Warn: func(string) {}}
}

// configured returns the VM's configuration file.
func (h *here) configured() string {
	h.t.Helper()
	text, err := h.Text(h.t.Context(), "web")
	require.NoError(h.t, err)
	return string(text)
}

// A running guest receives a new disk and writes to it. Its runner is killed, and the next runner detaches the disk.
// The configuration then equals the original, including comments, and the file contains the written data.
func TestADiskComesAndGoesWhileTheGuestRuns(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	h := newHere(t).withProgram()
	before := "# of the office\n" + strings.Replace(string(text("web", boots(t, h.disk("root", 1)))), "drives:",
		"drives: # the first is vda", 1)
	h.write("user/vmrunner/web.yaml", []byte(before))
	require.NoError(t, h.Start(t.Context(), "web"))
	c := h.console("web")
	c.Do("[ ! -b /dev/vdb ]")

	got, err := h.attach(vmspec.Drive{Size: 8 * vmspec.MiB, Serial: "data"})
	require.NoError(t, err)
	file := filepath.Join(h.find("web").DataDir, "disk2.img")
	require.Equal(t, Disk{
		VM: "web", Name: "data", Place: 1, File: file, Format: "raw", Size: 8 << 20, Stored: got.Disk.Stored,
		Wanted: 8 << 20,
	}, got.Disk)
	require.True(t, got.Running)
	require.Empty(t, got.Later)
	require.Equal(t, before+"    - file: "+file+"\n      size: 8 MiB\n      serial: data\n", h.configured())
	c.Do("until [ -b /dev/vdb ]; do usleep 100000; done; [ $(cat /sys/block/vdb/serial) = data ]")
	c.Do("echo kept | dd of=/dev/vdb conv=fsync 2>/dev/null")
	_, err = h.ResizeDisk(t.Context(), request(wait.Longest), "data", 12*vmspec.MiB)
	require.NoError(t, err)
	c.Do("until [ $(cat /sys/block/vdb/size) = 24576 ]; do usleep 100000; done")

	same, err := h.attach(vmspec.Drive{File: file})
	require.NoError(t, err)
	require.True(t, same.Unchanged)
	require.Equal(t, "data", same.Disk.Name)

	pid := h.find("web").Status.Runner.PID
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	for h.find("web").State != StateNoRunner {
		time.Sleep(20 * time.Millisecond)
	}
	lost, err := h.attach(vmspec.Drive{File: h.disk("later", 1)})
	require.NoError(t, err)
	require.Contains(t, lost.Later, "there is no runner that could attach it now: ")
	require.NoError(t, h.Start(t.Context(), "web"))
	_, err = h.detach("later")
	require.NoError(t, err)
	gone, err := h.detach("data")
	require.NoError(t, err)
	require.Empty(t, gone.Later)
	require.Equal(t, file, gone.Disk.File)
	require.Equal(t, before, h.configured())
	require.Nil(t, driveOf(h.find("web").Status, "data"))
	h.connect("web").Do("while [ -b /dev/vdb ]; do usleep 100000; done")
	content, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "kept", string(content[:4]))
	h.stopped("web")
}

// bare writes the configuration of a VM with only firmware, which never releases a disk.
func (h *here) bare(section ...string) string {
	all := string(text("web", append([]string{quick}, section...)...))
	h.write("user/vmrunner/web.yaml", []byte(all))
	return all
}

// A disk that the runner can't attach leaves the configuration unchanged, and its slot stays free for the next attempt.
func TestADiskThatCantBeAttachedIsNotConfigured(t *testing.T) {
	t.Parallel()
	h := newHere(t).withProgram()
	before := h.bare()
	require.NoError(t, h.Start(t.Context(), "web"))
	h.disk("base", 1)
	file := filepath.Join(h.dir, "layer.qcow2")
	out, err := exec.CommandContext(t.Context(), "qemu-img", "create", "-f", "qcow2", "-F", "raw", "-b",
		filepath.Join(h.dir, "base"), file).CombinedOutput()
	require.NoError(t, err, "%s", out)
	_, err = h.attach(vmspec.Drive{File: file})
	require.ErrorContains(t, err, "attach "+file+" to web: attach the disk: "+file+": ")
	require.ErrorContains(t, err, "only be attached by a restart of the VM; the configuration is as it was")
	require.Equal(t, before, h.configured())
	require.Nil(t, driveOf(h.find("web").Status, "layer"))
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.Rename(filepath.Join(h.dir, "base"), file))
	_, err = h.attach(vmspec.Drive{File: file, Format: "raw"})
	require.NoError(t, err)

	// After a timeout everything is unchanged except for the created file.
	want := h.configured()
	_, err = h.AttachDisk(t.Context(), request(time.Nanosecond), vmspec.Drive{Size: vmspec.MiB})
	require.ErrorContains(t, err, "the guest has not received it within 1ns: the runner has not begun; the configuration is as it was")
	require.Equal(t, want, h.configured())
	require.NoError(t, h.End(t.Context(), "web", true))
}

// A disk that the guest doesn't release stays attached until the VM ends, but is removed from the configuration.
func TestADiskThatTheGuestKeeps(t *testing.T) {
	t.Parallel()
	h := newHere(t).withProgram()
	before := h.bare("drives: []")
	require.NoError(t, h.Start(t.Context(), "web"))
	_, err := h.attach(vmspec.Drive{File: h.disk("data.img", 1)})
	require.NoError(t, err)
	for range 2 { // the second attempt waits for the first
		_, err = h.DetachDisk(t.Context(), request(2*time.Second), "data")
		require.ErrorContains(t, err, "detach the disk data of web: it is still attached after 2s: waiting for the guest to "+
			"release the disk. It is detached when that is over, or when the VM stops")
	}
	require.Equal(t, before, h.configured())
	require.Equal(t, status.DriveDetaching, driveOf(h.find("web").Status, "data").State)
	require.NoError(t, h.End(t.Context(), "web", true))
	_, err = h.detach("data")
	require.ErrorContains(t, err, "web has no disk data (it has none)")
}

// Changes that need a restart are configured and reported: a ninth disk, and a disk from the VM's start.
func TestDisksThatAwaitARestart(t *testing.T) {
	t.Parallel()
	h := newHere(t).withProgram()
	h.bare("drives: [{file: " + h.disk("root", 1) + "}, {file: " + h.disk("old", 1) + "}]")
	require.NoError(t, h.Start(t.Context(), "web"))
	for i := range 9 {
		got, err := h.attach(vmspec.Drive{File: h.disk(fmt.Sprintf("d%d", i), 1)})
		require.NoError(t, err)
		if i < 8 {
			require.Empty(t, got.Later)
		} else {
			require.Contains(t, got.Later, "all 8 places")
		}
	}
	_, err := h.detach("root")
	require.ErrorContains(t, err, "detach the disk root of web: the VM boots from it, its first disk; change what it boots from by: "+
		"vmrunner edit web")
	got, err := h.detach("old")
	require.NoError(t, err)
	require.Equal(t, "the VM was started with the disk, and has it until it is restarted", got.Later)
	got, err = h.attach(vmspec.Drive{File: h.disk("other", 1), Serial: "old"})
	require.NoError(t, err)
	require.Contains(t, got.Later, "the VM was started with another disk with this serial number;")
	require.NoError(t, h.End(t.Context(), "web", true))
	require.NoError(t, h.Start(t.Context(), "web"))
	require.Empty(t, h.find("web").Status.Drives)
	require.NoError(t, h.End(t.Context(), "web", true))
}

// A disk is created from an image before it is attached, for running and stopped VMs.
func TestAttachedDisksOfImages(t *testing.T) {
	t.Parallel()
	h := newHere(t).withProgram()
	h.bare()
	image := h.disk("image.raw", 1)
	made := func(name string) {
		got, err := h.attach(vmspec.Drive{File: filepath.Join(h.dir, name), Source: image, Size: 2 * vmspec.MiB})
		require.NoError(t, err)
		require.Empty(t, got.Later)
		require.EqualValues(t, 2<<20, got.Disk.Size)
		require.Equal(t, image, got.Disk.Source)
	}
	made("before.img")
	require.NoError(t, h.Start(t.Context(), "web"))
	made("after.img")
	require.Equal(t, status.DriveAttached, driveOf(h.find("web").Status, "after").State)
	_, err := h.attach(vmspec.Drive{File: filepath.Join(h.dir, "image.raw"), Source: image})
	require.ErrorContains(t, err, "already exists")

	// A disk added to the configuration by hand is attached after it has been created.
	missing := filepath.Join(h.dir, "byhand.img")
	now := h.configured()
	changed, err := withDrive([]byte(now), 2, vmspec.Drive{File: missing, Source: image})
	require.NoError(t, err)
	_, err = h.Edit(t.Context(), "web", []byte(now), changed)
	require.NoError(t, err)
	_, err = h.attach(vmspec.Drive{File: missing})
	require.ErrorContains(t, err, missing+" has not been created from "+image+" yet")
	_, err = h.MakeDisks(t.Context(), "web", nil, func(images.Progress) {})
	require.NoError(t, err)
	wait.Until(t, func() bool {
		d := driveOf(h.find("web").Status, "byhand")
		return d != nil && d.State == status.DriveAttached
	})
	require.NoError(t, h.End(t.Context(), "web", true))
}

// The configuration of a stopped VM is checked, then changed in its own style.
func TestDisksOfAStoppedVM(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	root, file := h.disk("root", 1), h.disk("data.qcow2", 1)
	h.bare("drives:\n# boots\n- file: "+root+"\n  bootindex: 1\n- {file: "+h.disk("b", 1)+", bootindex: 0}",
		"- {nbd: {host: h}, serial: far}")
	got, err := h.attach(vmspec.Drive{File: file, ReadOnly: true})
	require.NoError(t, err)
	require.False(t, got.Running)
	require.Equal(t, 2, got.Disk.Place, "disks of NBD servers are last")
	item := "    - file: " + file + "\n      format: qcow2\n      readOnly: true\n      serial: data\n    - {nbd: "
	require.Contains(t, h.configured(), item)
	before := h.configured()
	same, err := h.attach(vmspec.Drive{File: h.dir + "/./data.qcow2"})
	require.NoError(t, err)
	require.True(t, same.Unchanged)

	for _, c := range []struct {
		drive vmspec.Drive
		want  string
	}{
		{vmspec.Drive{File: "/nowhere"}, `3].file: "/nowhere" does not exist (with size, such as size: 20 GiB, it is created)`},
		{vmspec.Drive{Size: vmspec.MiB, Serial: "far"}, `4].serial: "far" is taken (by vm.drives[3].serial)`},
		{vmspec.Drive{Size: vmspec.MiB + 1}, `3].size: is not a whole number of MiB`},
		{vmspec.Drive{File: "/nowhere/x", Size: vmspec.MiB}, `3].file: the directory "/nowhere" does not exist`},
		{vmspec.Drive{File: h.disk("x.vdi", 1), Format: "vdi"}, `3].format: can't be "vdi" (it can be raw or qcow2)`},
	} {
		_, err := h.attach(c.drive)
		require.ErrorContains(t, err, " vm.drives["+c.want)
		require.ErrorAs(t, err, new(yamlfile.Faults))
		require.ErrorContains(t, err, filepath.Join(h.dir, "user/vmrunner/web.yaml")+":")
		require.Equal(t, before, h.configured())
	}
	_, err = h.detach("b")
	require.ErrorContains(t, err, "the VM boots from it, by bootindex: 0")
	_, err = h.detach("dta")
	require.ErrorContains(t, err, "web has no disk dta (did you mean data?)")
	gone, err := h.detach("data")
	require.NoError(t, err)
	require.Equal(t, file, gone.Disk.File)
	require.FileExists(t, file)
	_, err = h.detach("root")
	require.NoError(t, err)
	_, err = h.detach("far")
	require.NoError(t, err)
	require.NotContains(t, h.configured(), root)
	require.Contains(t, h.configured(), "# boots")
	require.Equal(t, vmstatus.StateStopped, h.find("web").State)

	other := strings.Replace(before, "network: []", "network: &d []", 1)
	h.write("user/vmrunner/web.yaml", []byte(other[:strings.Index(other, "drives:")]+"drives: *d\n"))
	_, err = h.attach(vmspec.Drive{File: file})
	require.ErrorContains(t, err, "refers to another place, *d; write it out")
}
