package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/qmp"
	"vmop/runner/config"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/test/paused"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// running is a VM with a QEMU that has the disks of a stoppedVM. The test plays the guest agent.
type running struct {
	*paused.QEMU
	*Live
	vm     *stoppedVM
	before func(c qmp.Command) error // called before each command
	answer status.FreezeAnswer
	failed error
	did    string // the requests to the agent
}

func (m *running) Command(ctx context.Context, c qmp.Command) (json.RawMessage, error) {
	if m.before != nil {
		if err := m.before(c); err != nil {
			return nil, err
		}
	}
	return m.Run(ctx, c)
}

func (m *running) Freeze(_ context.Context, limit time.Duration) (status.FreezeAnswer, error) {
	m.did += "freeze " + limit.String() + " "
	return m.answer, m.failed
}

func (m *running) Thaw(context.Context) (status.FreezeAnswer, error) {
	m.did += "thaw "
	return status.FreezeAnswer{}, errors.New("no answer")
}

func newRunning(t *testing.T) *running {
	t.Helper()
	v := newStopped(t)
	p := &plan.Plan{Files: []plan.CopyOnce{{To: v.parts[3].Path}}, Helpers: []plan.Process{{Dir: v.parts[5].Path}}}
	spec := vmspec.Spec{Name: "test", UUID: "u"}
	options := []string{"-m", "64"}
	qemuConvert(t, "raw", v.parts[2].Path, "qcow2", v.parts[2].Path+".new")
	require.NoError(t, os.Rename(v.parts[2].Path+".new", v.parts[2].Path))
	for i, part := range v.parts[:4] {
		node := "n" + part.Name
		p.QEMU.Args = append(p.QEMU.Args, plan.Option{Flag: "-blockdev", Properties: []plan.Property{
			{Key: "driver", Value: part.Format}, {Key: "node-name", Value: node},
		}})
		options = append(options, "-blockdev", "driver="+part.Format+",node-name="+node+
			",file.driver=file,file.filename="+part.Path)
		if part.Kind == Firmware {
			p.Drives = append(p.Drives, plan.Drive{File: part.Path, Nodes: []string{node}, Index: -1})
			continue
		}
		options = append(options, "-device", "virtio-blk-pci,id="+part.Name+",drive="+node)
		p.Drives = append(p.Drives, plan.Drive{Index: i, Device: part.Name, Nodes: []string{node}})
		spec.Drives = append(spec.Drives, vmspec.Drive{
			Type: vmspec.DriveRaw, File: part.Path, Format: part.Format, Serial: part.Name,
		})
	}
	cfg, _, err := config.Parse(filepath.Join(v.dir, "config.yaml"), []byte("/Runner:\n  vm:\n    name: test\n"))
	require.NoError(t, err)
	m := &running{QEMU: paused.Start(t, options...), vm: v}
	// QEMU keeps descriptors until the machine runs. It runs only firmware.
	_, err = m.Run(t.Context(), qmp.Command{Execute: "cont"})
	require.NoError(t, err)
	m.Live = &Live{
		VM:      &prepare.VM{DataDir: v.data, Config: cfg, Spec: spec, Plan: p},
		Machine: m, Log: slog.New(slog.DiscardHandler),
	}
	return m
}

func qemuConvert(t *testing.T, format, from, toFormat, to string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "qemu-img", "convert", "-U", "-f", format, "-O", toFormat, from,
		to).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// nothingOfQEMU requires that QEMU has no snapshot jobs left, and that exactly these snapshots exist.
func (m *running) nothingOfQEMU(snapshots ...string) {
	t := m.vm.t
	t.Helper()
	for _, question := range []string{"query-jobs", "query-fdsets", "query-named-block-nodes"} {
		reply, err := m.Run(t.Context(), qmp.Command{Execute: question})
		require.NoError(t, err)
		require.NotContains(t, string(reply), own, question)
	}
	entries, err := os.ReadDir(filepath.Dir(snapshotFolder(m.vm.data, "x")))
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(t, err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.ElementsMatch(t, snapshots, names)
}

func quiet(Progress) {}

// A snapshot of a running machine contains its disks and all other data. It records whether the file systems were
// frozen, and it thaws them.
func TestASnapshotOfARunningMachine(t *testing.T) {
	t.Parallel()
	m := newRunning(t)
	var made []string
	late, soon := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	for what, c := range map[string]struct {
		freeze bool
		answer status.FreezeAnswer
		did    string
		frozen bool
		says   string
	}{
		"frozen":      {true, status.FreezeAnswer{Frozen: true, Until: &soon}, "freeze 30s thaw ", true, ""},
		"no agent":    {true, status.FreezeAnswer{Message: "no agent"}, "freeze 30s ", false, "no agent"},
		"thawed late": {true, status.FreezeAnswer{Frozen: true, Until: &late}, "freeze 30s thaw ", false, "only after"},
		"not asked":   {false, status.FreezeAnswer{Frozen: true}, "", false, "as was requested"},
	} {
		t.Run(what, func(t *testing.T) {
			name := strings.ReplaceAll(what, " ", "-")
			m.answer, m.did, made = c.answer, "", append(made, name)
			d, err := m.Create(t.Context(), name, c.freeze, quiet)
			require.NoError(t, err)
			require.Equal(t, c.did, m.did)
			require.Equal(t, c.frozen, d.Frozen)
			require.True(t, d.Running)
			require.Contains(t, d.Message, c.says)
			require.Positive(t, d.Bytes)
			m.nothingOfQEMU(made...)
			known, err := Read(m.vm.data, name)
			require.NoError(t, err)
			var kinds []string
			for _, p := range known.Parts {
				kinds = append(kinds, p.Name)
				at := filepath.Join(snapshotFolder(m.vm.data, name), p.Stored)
				if !p.Kind.isImage() {
					require.Equal(t, string(mustRead(t, p.Path)), string(mustRead(t, at)), p.Name)
					continue
				}
				require.Equal(t, "qcow2", p.StoredFormat)
				was, is := filepath.Join(t.TempDir(), "was"), filepath.Join(t.TempDir(), "is")
				qemuConvert(t, p.Format, p.Path, "raw", was)
				qemuConvert(t, "qcow2", at, "raw", is)
				require.Equal(t, mustRead(t, was), mustRead(t, is), p.Name)
				require.EqualValues(t, len(mustRead(t, is)), p.Size)
				var s unix.Stat_t
				require.NoError(t, unix.Stat(at, &s))
				require.Less(t, s.Blocks*512, s.Size+1<<20, "what was reserved is given back")
			}
			require.ElementsMatch(t, []string{"disk0", "disk1", "disk2", "fw-vars.fd", "vmtype.txtar", "tpm"}, kinds)
		})
	}
}

// mustRead returns the content of a file, or of the only file in a folder.
func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	if entries, err := os.ReadDir(path); err == nil {
		require.Len(t, entries, 1)
		path = filepath.Join(path, entries[0].Name())
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return text
}

// A failed snapshot leaves no jobs in QEMU and no files, and the file systems are thawed.
func TestALiveSnapshotThatFails(t *testing.T) {
	t.Parallel()
	m := newRunning(t)
	broken := errors.New("it is broken")
	at := func(command string) func(*running, context.CancelCauseFunc) {
		return func(m *running, _ context.CancelCauseFunc) {
			m.before = func(c qmp.Command) error {
				if c.Execute == command {
					m.before = nil
					return broken
				}
				return nil
			}
		}
	}
	for what, c := range map[string]struct {
		prepare func(m *running, cancel context.CancelCauseFunc)
		did     string
	}{
		"asking for the devices": {at("query-block"), ""},
		"asking for the nodes":   {at("query-named-block-nodes"), ""},
		"a target's descriptor":  {at("add-fd"), ""},
		"a target":               {at("blockdev-add"), ""},
		"the copies":             {at("transaction"), "freeze 30s thaw "},
		"the agent":              {func(m *running, _ context.CancelCauseFunc) { m.failed = broken }, "freeze 30s "},
		"a file": {func(m *running, _ context.CancelCauseFunc) {
			require.NoError(m.vm.t, os.RemoveAll(m.vm.parts[4].Path))
			require.NoError(m.vm.t, os.Mkdir(m.vm.parts[4].Path, 0o700))
		}, "freeze 30s thaw "},
		"the user gives up": {func(m *running, cancel context.CancelCauseFunc) {
			m.before = func(c qmp.Command) error {
				if c.Execute == "transaction" {
					cancel(broken)
				}
				return nil
			}
		}, "freeze 30s thaw "},
	} {
		t.Run(what, func(t *testing.T) {
			m.answer.Frozen, m.did = true, ""
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			c.prepare(m, cancel)
			_, err := m.Create(ctx, "one", true, quiet)
			if what == "a file" {
				require.ErrorContains(t, err, "vmtype.txtar")
			} else {
				require.ErrorIs(t, err, broken)
			}
			require.Equal(t, c.did, m.did)
			m.nothingOfQEMU()
			m.before, m.failed = nil, nil
			_ = os.Remove(m.vm.parts[4].Path) // replaced by a file
		})
	}
	_, err := m.Create(t.Context(), "one", false, quiet)
	require.NoError(t, err, "the next one is made")
}

// Only one snapshot runs at a time. A snapshot begun by an earlier runner is ended. A disk outside the plan prevents
// snapshots.
func TestSnapshotsOfAMachineThatIsBusy(t *testing.T) {
	t.Parallel()
	m := newRunning(t)
	m.before = func(c qmp.Command) error {
		if c.Execute == "transaction" {
			_, err := m.Create(t.Context(), "two", false, quiet)
			require.ErrorIs(t, err, ErrBusy)
		}
		return nil
	}
	_, err := m.Create(t.Context(), "one", false, quiet)
	require.NoError(t, err)

	m.before = nil
	b, err := beginSnapshot(m.VM, "left", time.Now())
	require.NoError(t, err)
	image := m.vm.parts[0]
	image.Size, image.node = 1<<20, "ndisk0"
	require.NoError(t, m.addTarget(t.Context(), b, 0, image))
	m.CleanUp(t.Context())
	m.nothingOfQEMU("one")

	// After QEMU has stopped, the disks are copied unchanged, except for disks on servers.
	m.VM.Spec.Drives = append(m.VM.Spec.Drives, vmspec.Drive{
		Type: vmspec.DriveRaw, Serial: "far", NBD: &vmspec.NBD{Host: "h"},
	})
	var last Progress
	d, err := Stopped(t.Context(), m.VM, "stopped", time.Now(), func(p Progress) { last = p })
	require.NoError(t, err)
	require.Equal(t, []string{"far"}, d.Omitted)
	require.Len(t, d.Parts, 6)
	require.Positive(t, last.Done)
	require.Equal(t, last.Total, last.Done)

	m.VM.Plan.Drives = m.VM.Plan.Drives[1:]
	_, err = m.Create(t.Context(), "two", false, quiet)
	require.ErrorContains(t, err, "vm.drives[0]: the VM type")
	m.VM.Spec.Drives[0].ReadOnly = true
	_, err = m.Create(t.Context(), "two", false, quiet)
	require.ErrorIs(t, err, ErrAttached)
	m.nothingOfQEMU("one", "stopped")
}

// The space for a copy is the image's allocated data in whole blocks. Without enough space no copy starts.
func TestRoomForACopy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	image := filepath.Join(dir, "image")
	file, err := os.Create(image)
	require.NoError(t, err)
	require.NoError(t, file.Truncate(64<<20))
	for _, at := range []int64{0, 10 << 20, 40<<20 + block} {
		_, err = file.WriteAt([]byte(strings.Repeat("x", 4096)), at)
		require.NoError(t, err)
	}
	require.NoError(t, file.Close())
	need, err := dataOf(Part{Path: image, Format: "raw"})
	require.NoError(t, err)
	require.EqualValues(t, 3*block, need)
	need, err = dataOf(Part{Path: image, Format: "qcow2"})
	require.NoError(t, err)
	require.EqualValues(t, 3*4096, need, "all that it takes")
	need, err = dataOf(Part{Path: os.DevNull, Format: "raw", Size: 7})
	require.NoError(t, err)
	require.EqualValues(t, 7, need, "all of a device")
	_, err = dataOf(Part{Path: filepath.Join(dir, "none")})
	require.ErrorIs(t, err, os.ErrNotExist)

	small := filepath.Join(dir, "small")
	require.NoError(t, os.Mkdir(small, 0o700))
	require.NoError(t, unix.Mount("none", small, "tmpfs", 0, "size=3m"), "mounting needs root")
	t.Cleanup(func() { require.NoError(t, unix.Unmount(small, unix.MNT_DETACH)) })
	target, err := os.Create(filepath.Join(small, "target"))
	require.NoError(t, err)
	defer target.Close()
	require.NoError(t, reserveRoom(target, Part{Path: image, Format: "raw"}))
	require.ErrorContains(t, reserveRoom(target, Part{Path: os.DevNull, Size: 8 << 20}),
		"there is no room for a copy of 8")
}
