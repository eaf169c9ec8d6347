package inventory

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/control"
	"vmop/runner/disks/snapshot"
	"vmop/test/guest"
	"vmop/test/invariants"
	"vmop/test/tier"
	"vmop/test/wait"
	"vmop/vmstatus"
)

func quiet(snapshot.Progress) {}

// terminal is a guest's serial console.
type terminal struct {
	*guest.Console
	t *testing.T
}

// console connects to a VM's console once its tiny guest is ready.
func (h *here) console(name string) *terminal {
	h.t.Helper()
	c := h.connect(name)
	c.Await(`TINY \S+ READY`)
	return c
}

// connect connects to a VM's console.
func (h *here) connect(name string) *terminal {
	h.t.Helper()
	client, err := h.find(name).Dial(h.t.Context())
	require.NoError(h.t, err)
	conn, err := client.Console(h.t.Context(), control.Type)
	require.NoError(h.t, err)
	h.t.Cleanup(func() { conn.Close() })
	return &terminal{guest.Listen(h.t, conn), h.t}
}

// number returns a number that a command prints.
func (c *terminal) number(command string) int {
	c.t.Helper()
	c.Type("sh echo NUMBER $(" + command + ")")
	n, err := strconv.Atoi(c.Await(`^NUMBER (\d+)`)[1])
	require.NoError(c.t, err)
	return n
}

// writes starts an endless loop in the guest that writes records with checksums to two disks. The guest has an agent.
func (c *terminal) writes() {
	c.t.Helper()
	c.Do("mkdir -p /a /b /var/run; mke2fs /dev/vda >/dev/null; mke2fs /dev/vdb >/dev/null; " +
		"mount -t ext4 /dev/vda /a && mount -t ext4 /dev/vdb /b")
	c.Do("/usr/sbin/qemu-ga -d -m virtio-serial -t /tmp -f /tmp/ga.pid -p $(grep -l guest_agent " +
		"/sys/class/virtio-ports/*/name | sed 's,/sys/class/virtio-ports\\(.*\\)/name,/dev\\1,')")
	c.Do(`(i=0; while :; do i=$((i+1)); r="$i $(echo $i | md5sum)"; echo "$r" >>/a/log; echo "$r" >>/b/log; ` +
		`echo $i >/tmp/next; mv /tmp/next /tmp/last; usleep 20000; done) >/dev/null 2>&1 &`)
	c.Do("while [ ! -e /tmp/last ]; do usleep 10000; done")
}

// records mounts a disk filled by writes, requires that all its records are intact, and returns their number.
func (c *terminal) records(disk, at string) int {
	c.t.Helper()
	c.Do("mkdir -p " + at + " && mount -t ext4 /dev/" + disk + " " + at)
	return c.number(`n=0; while read i s x; do n=$((n+1)); [ $i = $n ] && [ "$s" = "$(echo $i | md5sum | cut -c1-32)" ] ` +
		`|| n=-1000000; done <` + at + `/log; echo $n`)
}

// disk creates a disk of random bytes.
func (h *here) disk(name string, megabytes int64) string {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	file, err := os.Create(path)
	require.NoError(h.t, err)
	_, err = io.CopyN(file, rand.Reader, megabytes<<20)
	require.NoError(h.t, errors.Join(err, file.Close()))
	return path
}

// boots reserves a slot for the tiny guest and returns the lines of a vm section that boot it.
func boots(t *testing.T, disks ...string) string {
	t.Helper()
	image := guest.Tiny(t).With(t, "/usr/sbin/qemu-ga")
	guest.TakePlace(t)
	lines := quick + "kernel: {image: " + image.Kernel + ", initrd: " + image.Initrd +
		", commandLine: " + guest.CommandLine + "}\ndrives:\n"
	for _, d := range disks {
		lines += "- {type: raw, file: " + d + "}\n"
	}
	return strings.Replace(lines, "128 MiB", "256 MiB", 1)
}

// A snapshot of a guest that writes to two disks contains an intact state of both at one moment, and the restored guest
// continues from it.
func TestASnapshotOfAGuestThatWrites(t *testing.T) {
	t.Parallel()
	h := newHere(t).withProgram()
	ctx := t.Context()
	a, b := h.disk("a", 16), h.disk("b", 16)
	file, _, err := h.Create(ctx, "web", false, text("web", boots(t, a, b), "useTpm: true"), "")
	require.NoError(t, err)
	require.NoError(t, h.Start(ctx, "web"))
	c := h.console("web")
	c.writes()
	until := wait.Deadline()
	for h.find("web").State != vmstatus.StateBooted && time.Now().Before(until) {
		time.Sleep(20 * time.Millisecond)
	}
	first := c.number("cat /tmp/last")
	d, err := h.CreateSnapshot(ctx, "web", "one", true, quiet)
	require.NoError(t, err)
	require.True(t, d.Frozen, d.Message)
	require.Equal(t, "frozen", d.Consistency())
	last := c.number("cat /tmp/last")
	require.Nil(t, h.find("web").Status.Frozen)
	c.Do(fmt.Sprintf("while [ $(cat /tmp/last) -le %d ]; do usleep 10000; done", last)) // the guest isn't frozen

	crash, err := h.CreateSnapshot(ctx, "web", "two", false, quiet)
	require.NoError(t, err)
	require.Equal(t, "crash-consistent", crash.Consistency())
	require.Contains(t, crash.Message, "as was requested")
	for _, p := range crash.Parts {
		if p.StoredFormat == "qcow2" {
			image := filepath.Join(h.find("web").DataDir, "snapshots", "two", p.Stored)
			out, err := exec.CommandContext(ctx, "qemu-img", "check", image).CombinedOutput()
			require.NoError(t, err, string(out))
		}
	}
	require.ErrorIs(t, h.RestoreSnapshot(ctx, "web", "one", false, quiet), ErrRunning)
	h.stopped("web")

	tpm := filepath.Join(h.find("web").DataDir, "tpm", "tpm2-00.permall")
	require.NoError(t, os.WriteFile(tpm, []byte("damaged"), 0o600))
	require.NoError(t, os.WriteFile(file, text("web", boots(t, a)), 0o600))
	err = h.RestoreSnapshot(ctx, "web", "one", false, quiet)
	require.ErrorContains(t, err, "its disk b")
	require.NoError(t, h.RestoreSnapshot(ctx, "web", "one", true, quiet))
	require.NoError(t, h.Start(ctx, "web"))
	c = h.console("web")
	inA, inB := c.records("vda", "/a"), c.records("vdb", "/b")
	require.GreaterOrEqual(t, inA, first)
	require.LessOrEqual(t, inA, last+1)
	require.InDelta(t, inA, inB, 1, "both disks are of one moment")

	_, err = h.CloneSnapshot(ctx, "web", "one", "web", quiet)
	require.ErrorIs(t, err, ErrExists)
	_, err = h.CloneSnapshot(ctx, "web", "one", "copy", quiet)
	require.NoError(t, err)
	require.NoError(t, h.Start(ctx, "copy"))
	require.NotEqual(t, h.find("web").Status.UUID, h.find("copy").Status.UUID)
	other := h.console("copy")
	require.Equal(t, inA, other.records("vda", "/a"), "it has the same disks")
	require.Equal(t, inB, other.records("vdb", "/b"))
	h.stopped("copy")
	h.stopped("web")

	third, err := h.CreateSnapshot(ctx, "web", "", true, quiet)
	require.NoError(t, err)
	require.Equal(t, "stopped", third.Consistency())
	list, err := h.Snapshots(ctx, "web")
	require.NoError(t, err)
	require.Len(t, list, 3)
	for _, d := range list {
		require.NoError(t, h.RemoveSnapshot(ctx, "web", d.Name))
	}
	require.ErrorIs(t, h.RemoveSnapshot(ctx, "web", "one"), snapshot.ErrUnknown)
}

// noneLeft requires that QEMU has no snapshot jobs left, and that no snapshot exists.
func (h *here) noneLeft(name string) {
	h.t.Helper()
	vm := h.find(name)
	wait.Until(h.t, func() bool {
		entries, err := os.ReadDir(filepath.Join(vm.DataDir, "snapshots"))
		return err == nil && len(entries) == 0
	}, "files of an unfinished snapshot")
	client, err := vm.Dial(h.t.Context())
	require.NoError(h.t, err)
	for _, question := range []string{"query-jobs", "query-fdsets", "query-named-block-nodes"} {
		wait.Until(h.t, func() bool {
			reply, err := client.QMP(h.t.Context(), qmp.Command{Execute: question})
			require.NoError(h.t, err)
			return !strings.Contains(string(reply), "vmop-snapshot-")
		}, question)
	}
}

// whenCopying calls f once, at the first progress report.
func whenCopying(f func()) func(snapshot.Progress) {
	done := false
	return func(snapshot.Progress) {
		if !done {
			done = true
			f()
		}
	}
}

// A snapshot leaves no files when its runner or QEMU is killed, and does not block the next snapshot.
func TestAnInterruptedSnapshotLeavesNothing(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	h := newHere(t).withProgram()
	ctx := t.Context()
	_, _, err := h.Create(ctx, "web", false, text("web", boots(t, h.disk("a", 400))), "")
	require.NoError(t, err)
	require.NoError(t, h.Start(ctx, "web"))
	c := h.console("web")

	_, err = h.CreateSnapshot(ctx, "web", "one", false, whenCopying(func() {
		require.NoError(t, syscall.Kill(h.find("web").Status.Runner.PID, syscall.SIGKILL))
	}))
	require.ErrorContains(t, err, "the runner has ended before the snapshot was whole")
	qemu := invariants.OneQEMU(t, h.dir)
	wait.Until(t, func() bool { return h.find("web").State == StateNoRunner })
	require.NoError(t, h.Start(ctx, "web"))
	require.Equal(t, qemu, invariants.OneQEMU(t, h.dir), "it is adopted")
	h.noneLeft("web")

	stopped := func() bool { return h.find("web").State == vmstatus.StateStopped }
	for range 5 { // a copy may finish before QEMU has ended
		client, failed := h.find("web").Dial(ctx)
		require.NoError(t, failed)
		_, err = h.CreateSnapshot(ctx, "web", "one", false, whenCopying(func() {
			require.NoError(t, client.Act(ctx, control.Kill))
		}))
		wait.Until(t, stopped)
		if err != nil {
			break
		}
		require.NoError(t, h.RemoveSnapshot(ctx, "web", "one"))
		require.NoError(t, h.Start(ctx, "web"))
	}
	require.Error(t, err)
	list, err := h.Snapshots(ctx, "web")
	require.NoError(t, err)
	require.Empty(t, list)

	require.NoError(t, h.Start(ctx, "web"))
	_, err = h.CreateSnapshot(ctx, "web", "one", false, quiet)
	require.NoError(t, err)
	_ = c
}

// A snapshot can't become another VM if it contains settings that two VMs can't share.
func TestWhatIsNotCloned(t *testing.T) {
	t.Parallel()
	for section, want := range map[string]string{
		"uuid: 62fd561c-53c2-428f-823e-e83a230bddb0":              "vm.uuid",
		"network: [{type: user, mac: '52:54:00:c0:ff:ee'}]":       "vm.network[0].mac",
		"drives: [{type: raw, device: /dev/sdx}]":                 "vm.drives[0] is a device",
		"drives: [{serial: far, nbd: {host: disks}}]":             "vm.drives[0] is a disk of an NBD server",
		"drives: [{file: /a/disk.img}, {file: /b/disk.img}]":      "two of its disks are called disk.img",
		"drives: [{file: disk.img}, {type: ide-cd, file: x.iso}]": "",
	} {
		changed, err := cloneConfiguration("/etc/web.yaml", text("web", section), "copy", "/data/copy")
		if want != "" {
			require.ErrorContains(t, err, want)
			continue
		}
		require.NoError(t, err)
		wanted := text("copy", "drives: [{file: /data/copy/disk.img}, {type: ide-cd, file: /etc/x.iso}]")
		require.Equal(t, string(wanted), strings.NewReplacer(`"copy"`, "copy", `"/data`, "/data", `img"`, "img",
			`"/etc`, "/etc", `iso"`, "iso").Replace(string(changed)))
	}
	_, err := cloneConfiguration("/etc/web.yaml", []byte("/Runner:\n  dataDir: /srv\n  vm:\n    name: web\n"), "copy",
		"/data/copy")
	require.ErrorContains(t, err, "dataDir")
}

// A VM started from a file outside the folders for VMs has no snapshots and can't be cloned.
func TestSnapshotsOfAVMInNoFolder(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	h.play("web", "run/vmrunner/web")
	ctx := t.Context()
	_, err := h.Snapshots(ctx, "web")
	_, created := h.CreateSnapshot(ctx, "web", "one", true, quiet)
	_, cloned := h.CloneSnapshot(ctx, "web", "one", "copy", quiet)
	for _, err := range []error{
		err, created, cloned, h.RestoreSnapshot(ctx, "web", "one", false, quiet), h.RemoveSnapshot(ctx, "web", "one"),
	} {
		require.EqualError(t, err,
			"web runs with a configuration outside the folders for VMs: there is no such VM")
	}
}
