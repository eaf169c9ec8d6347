package reconcile_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/diskimage/nbd"
	"vmop/qmp"
	"vmop/runner/machine/reconcile"
	"vmop/test/paused"
	"vmop/test/wait"
	"vmop/vmtypes/plan"
)

// live is a running QEMU and the reconciling machine.
type live struct {
	t       *testing.T
	qemu    *paused.QEMU
	machine *reconcile.Machine
	want    reconcile.Desired
	said    []string // all commands
	// pretend replaces QEMU's answers to commands.
	pretend map[string]string
}

// startQEMU starts a paused QEMU with only the given options.
func startQEMU(t *testing.T, start reconcile.Start, rules plan.Rules, options ...string) *live {
	t.Helper()
	q := paused.Start(t, append([]string{"-cpu", "max"}, options...)...)
	return &live{t: t, qemu: q, machine: reconcile.New(rules, start)}
}

// ask runs the test's own command.
func (l *live) ask(command string, arguments any) json.RawMessage {
	l.t.Helper()
	ctx, cancel := wait.Context(l.t.Context())
	defer cancel()
	reply, err := l.qemu.Run(ctx, qmp.Command{Execute: command, Arguments: arguments})
	require.NoError(l.t, err, l.qemu.Said())
	return reply
}

// step sends the pending commands and passes on the answers.
func (l *live) step() reconcile.Step {
	l.t.Helper()
	step := l.machine.Next(l.want, time.Now())
	ctx, cancel := wait.Context(l.t.Context())
	defer cancel()
	var pending []*qmp.Pending
	for _, r := range step.Requests {
		l.said = append(l.said, line(r.Command))
		pending = append(pending, l.qemu.Start(r.Command))
	}
	for i, r := range step.Requests {
		reply, err := pending[i].Wait(ctx)
		require.NotErrorIs(l.t, err, qmp.ErrClosed, "%s: %s", line(r.Command), l.qemu.Said())
		if other, ok := l.pretend[r.Command.Execute]; ok {
			reply, err = json.RawMessage(other), nil
		}
		l.machine.Answer(r, reply, err, time.Now())
	}
	for _, d := range step.Opens {
		var file *os.File
		var err error
		if d.NBD != nil {
			err = nbd.Probe(ctx, *d.NBD, 3*time.Second)
		} else {
			mode := os.O_RDWR
			if d.ReadOnly {
				mode = os.O_RDONLY
			}
			file, err = os.OpenFile(d.File, mode, 0)
		}
		if !l.machine.Opened(d, file, err, time.Now()) && file != nil {
			file.Close()
		} else if file != nil {
			l.t.Cleanup(func() { file.Close() })
		}
	}
	for _, address := range step.Servers {
		l.machine.Answers(address, nil, time.Now())
	}
	return step
}

// until continues like the runner until the facts satisfy done and no command is pending.
func (l *live) until(what string, done func(reconcile.Facts) bool) reconcile.Facts {
	l.t.Helper()
	late := wait.Over(l.t)
	for {
		step := l.step()
		if len(step.Requests)+len(step.Servers)+len(step.Opens) > 0 {
			continue
		}
		if facts := l.machine.Facts(); done(facts) {
			return facts
		}
		var wake <-chan time.Time
		if !step.Wake.IsZero() {
			wake = time.After(time.Until(step.Wake))
		}
		select {
		case e, open := <-l.qemu.Events():
			require.True(l.t, open, "QEMU has ended: %s", l.qemu.Said())
			l.machine.Observe(e, time.Now())
		case <-wake:
		case <-late:
			require.FailNow(l.t, "in vain: "+what, "%+v after %q", l.machine.Facts(), l.said)
		}
	}
}

// settles continues until no command is pending and there is no problem.
func (l *live) settles(what string) reconcile.Facts {
	l.t.Helper()
	return l.until(what, func(f reconcile.Facts) bool { return len(f.Problems) == 0 })
}

// complains continues until a problem contains the text.
func (l *live) complains(text string) reconcile.Facts {
	l.t.Helper()
	return l.until(text, func(f reconcile.Facts) bool {
		return len(f.Problems) == 1 && strings.Contains(f.Problems[0].Path+": "+f.Problems[0].Message, text)
	})
}

// file creates a file with a size in the test's directory.
func (l *live) file(name string, size int64) string {
	l.t.Helper()
	path := filepath.Join(l.qemu.Dir, name)
	require.NoError(l.t, os.WriteFile(path, nil, 0o600))
	require.NoError(l.t, os.Truncate(path, size))
	return path
}

// blockInfo is a device in query-block's answer.
type blockInfo struct {
	QDev     string `json:"qdev"`
	TrayOpen bool   `json:"tray_open"`
	Inserted struct {
		File  string
		RO    bool
		Image struct {
			Size int64 `json:"virtual-size"`
		}
	}
}

func (l *live) block(device string) blockInfo {
	l.t.Helper()
	var all []blockInfo
	require.NoError(l.t, json.Unmarshal(l.ask("query-block", nil), &all))
	for _, b := range all {
		if b.QDev == device || strings.HasPrefix(b.QDev, "/machine/peripheral/"+device+"/") {
			return b
		}
	}
	require.Fail(l.t, "no block device", device)
	return blockInfo{}
}

func TestRealMediaOfBothKindsOfDrives(t *testing.T) {
	t.Parallel()
	rules := plan.Rules{plan.Medium{Drive: 1, Device: "cd0"}, plan.Medium{Drive: 2, Device: "cd1"}}
	l := startQEMU(t, reconcile.Start{Running: true}, rules,
		"-drive", "id=cd0-medium,if=none,media=cdrom,readonly=on,format=raw,file.driver=file,file.filename=/proc/self/exe",
		"-device", "ide-cd,id=cd0,drive=cd0-medium,bus=ide.0",
		"-device", "virtio-scsi-pci,id=scsi0", "-device", "scsi-cd,id=cd1,bus=scsi0.0")
	odd := l.file("odd:name,with=all%20json:.iso", 65536)
	plain := l.file("plain.iso", 32768)

	l.want.Media = map[int]string{1: "/proc/self/exe", 2: ""}
	l.settles("as it was started")
	require.Equal(t, []string{askBlocks}, l.said, "a machine that is as wanted is left alone")

	l.want.Media = map[int]string{1: odd, 2: plain}
	facts := l.settles("two media")
	require.Equal(t, map[int]reconcile.Medium{1: {File: odd}, 2: {File: plain}}, facts.Media)
	for device, file := range map[string]string{"cd0": odd, "cd1": plain} {
		b := l.block(device)
		require.Equal(t, file, b.Inserted.File)
		require.True(t, b.Inserted.RO)
		require.False(t, b.TrayOpen)
	}

	l.want.Media = map[int]string{1: odd + ".none", 2: ""}
	facts = l.complains("vm.drives[1].file: change the medium to " + odd + ".none: ")
	require.Equal(t, map[int]reconcile.Medium{1: {File: odd, Pending: true}, 2: {}}, facts.Media)
	require.Equal(t, odd, l.block("cd0").Inserted.File, "the old medium stays")
	require.False(t, l.block("cd0").TrayOpen)
	require.Empty(t, l.block("cd1").Inserted.File)
	require.False(t, l.block("cd1").TrayOpen)

	// A new runner reads the complete state.
	l.machine = reconcile.New(rules, reconcile.Start{Running: true})
	l.want.Media = map[int]string{1: odd, 2: ""}
	l.said = nil
	l.settles("found")
	require.Equal(t, []string{askBlocks}, l.said)

	l.want.Media = map[int]string{1: "http://127.0.0.1:1/none.iso", 2: ""}
	l.complains("vm.drives[1].file: change the medium to http://127.0.0.1:1/none.iso: ")
	require.Equal(t, odd, l.block("cd0").Inserted.File)
}

func TestRealPasswordsOfSPICEAndVNC(t *testing.T) {
	t.Parallel()
	rules := plan.Rules{
		plan.Password{Protocol: "spice"},
		plan.Password{Protocol: "vnc", Display: "vnc0"},
		plan.Password{Protocol: "vnc", Display: "vnc1"},
	}
	l := startQEMU(t, reconcile.Start{}, rules, "-spice", "unix=on,addr=DIR/s,disable-ticketing=off",
		"-vnc", "unix:DIR/v0,id=vnc0,password=on", "-vnc", "unix:DIR/v1,id=vnc1,password=on")
	for i, p := range []*reconcile.Password{
		secret("one", ""), secret("one", "+60"), secret("two", "+60"),
		secret("two", ""),
	} {
		l.want.Password = p
		require.Equal(t, []int{1, 1, 2, 2}[i], l.settles("a password").PasswordSerial)
	}
	require.Len(t, l.said, 3+3+6+3)
}

func TestARealVNCWithoutPasswordsRefusesOne(t *testing.T) {
	t.Parallel()
	l := startQEMU(t, reconcile.Start{}, plan.Rules{plan.Password{Protocol: "vnc"}}, "-vnc", "unix:DIR/v0,id=vnc0")
	l.want.Password = secret("one", "")
	require.Zero(t, l.complains("display-password: set the display's password: ").PasswordSerial)
}

func TestARealDiskGrowsAndNeverShrinks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	image := filepath.Join(dir, "disk")
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 1<<20))
	rules := plan.Rules{plan.Disk{Drive: 0, Device: "disk0"}, plan.Disk{Drive: 1, Device: "disk1"}}
	l := startQEMU(t, reconcile.Start{Running: true}, rules,
		"-blockdev", "file,node-name=disk0-file,filename="+image, "-blockdev",
		"raw,node-name=disk0-format,file=disk0-file",
		"-device", "virtio-blk-pci,id=disk0,drive=disk0-format",
		"-blockdev", "null-co,node-name=disk1-format,size=1048576", "-device", "virtio-scsi-pci", "-device",
		"scsi-hd,id=disk1,drive=disk1-format")
	l.want.Sizes = map[int]int64{0: 1 << 20, 1: 1 << 20}
	l.settles("as it is")
	require.NoError(t, os.Truncate(image, 5<<20))
	l.want.Sizes = map[int]int64{0: 5 << 20, 1: 1 << 20}
	l.settles("larger")
	require.EqualValues(t, 5<<20, l.block("disk0").Inserted.Image.Size)
	l.want.Sizes = map[int]int64{0: 2 << 20, 1: 1 << 20}
	l.complains("vm.drives[0]: " + image + " has only 2097152 bytes on the host, but the guest's disk has 5242880")
	require.EqualValues(t, 5<<20, l.block("disk0").Inserted.Image.Size)
	info, err := os.Stat(image)
	require.NoError(t, err)
	require.EqualValues(t, 5<<20, info.Size())
	l.want.Sizes = map[int]int64{0: 5 << 20, 1: 2 << 20}
	l.complains("vm.drives[1]: make the disk larger: ")
}

func TestARealMachineIsPluggedBeforeItRuns(t *testing.T) {
	t.Parallel()
	l := startQEMU(t, reconcile.Start{}, plan.Rules{fourCPUs(), plan.Balloon{Device: "balloon0", Maximum: 128 * mib}},
		"-m", "128", "-smp", "1,maxcpus=4", "-device", "virtio-balloon-pci,id=balloon0")
	l.want.CPUs, l.want.RAM = 3, 64*mib
	require.Equal(t, 3, l.settles("paused").CPUs)
	require.Len(t, l.said, 4)
	var all []struct {
		Path string `json:"qom-path"`
	}
	require.NoError(t, json.Unmarshal(l.ask("query-hotpluggable-cpus", nil), &all))
	require.Equal(t, "/machine/peripheral/cpu-2", all[1].Path)
	require.Equal(t, "/machine/peripheral/cpu-1", all[2].Path)

	l.want.CPUs = 4 // even while the guest is running
	l.ask("cont", nil)
	require.Equal(t, 4, l.settles("running").CPUs)
	l.want.CPUs = 2
	l.pretend = map[string]string{"query-kvm": tcg}
	l.complains("vm.currentCpus: QEMU cannot unplug CPUs without KVM")
	require.NotContains(t, strings.Join(l.said, "\n"), "device_del")
}
