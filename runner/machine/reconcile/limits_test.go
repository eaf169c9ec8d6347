package reconcile_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/machine/reconcile"
	"vmop/test/guest"
	"vmop/test/wait"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

var limitsRule = plan.Limits{Drive: 1, Device: "disk0"}

// virtioDisk is QEMU's name of a virtio disk in query-block.
const virtioDisk = "/machine/peripheral/disk0/virtio-backend"

// limitsWanted returns the wanted limits of the disk of limitsRule.
func limitsWanted(l vmspec.DiskLimits) map[int]vmspec.DiskLimits {
	return map[int]vmspec.DiskLimits{limitsRule.Drive: l}
}

// throttled returns the command that limits requests per second.
func throttled(iops int) string {
	return fmt.Sprintf(`block_set_io_throttle {"bps":0,"bps_rd":0,"bps_wr":0,"id":%q,"iops":%d,"iops_rd":0,"iops_wr":0}`,
		virtioDisk, iops)
}

// limitedBlock returns the answer of query-block with limited requests per second.
func limitedBlock(iops int) string {
	return fmt.Sprintf(`[{"qdev": %q, "inserted": {"node-name": "a", "iops": %d}}]`, virtioDisk, iops)
}

func TestLimitsFollowTheConfiguration(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{}, limitsRule)
	k.want.Limits = limitsWanted(vmspec.DiskLimits{})
	k.silent() // a new machine has no limits
	k.want.Limits = limitsWanted(vmspec.DiskLimits{IOPS: 100})
	k.says("query-block")
	k.returns(limitedBlock(0))
	k.says(throttled(100))
	k.returns("")
	k.silent()
	k.want.Limits = nil // the configuration's drives are others
	k.silent()
	k.want.Limits = limitsWanted(vmspec.DiskLimits{})
	k.says(throttled(0))
	k.returns("")
	k.silent()
	k.complains()
}

func TestAnswerAboutLimitsIsLost(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{}, limitsRule)
	k.want.Limits = limitsWanted(vmspec.DiskLimits{IOPS: 100})
	k.says("query-block")
	k.returns(limitedBlock(0))
	k.says(throttled(100))
	k.returns("error: no time\nnow")
	k.complains("vm.drives[1].limits: limit the disk's speed: no time; now")
	k.waits(500 * time.Millisecond)
	k.passes(500 * time.Millisecond)
	k.says("query-block")
	k.returns(limitedBlock(100)) // it was carried out
	k.silent()
	k.complains()
}

// An adopted machine has the limits of the runner before.
func TestLimitsOfAFoundMachine(t *testing.T) {
	t.Parallel()
	for _, have := range []int{0, 100} {
		k := newTalk(t, reconcile.Start{Running: true}, limitsRule)
		k.want.Limits = limitsWanted(vmspec.DiskLimits{})
		k.says("query-block")
		k.returns(limitedBlock(have))
		if have != 0 {
			k.says(throttled(0))
			k.returns("")
		}
		k.silent()
		k.complains()
	}
}

// A VM type of an earlier version has no rule, and the user must know that limits have no effect.
func TestLimitsWithoutARule(t *testing.T) {
	t.Parallel()
	k := newTalk(t, reconcile.Start{})
	k.want.Limits = map[int]vmspec.DiskLimits{0: {}, 2: {IOPS: 1}}
	k.silent()
	k.complains("vm.drives[2].limits: the VM type has no rule hotplug.limits for this disk; update the VM's type")
}

// readBytes returns how much the guest has read from the disk.
func (l *live) readBytes(device string) (n int64) {
	l.t.Helper()
	var all []struct {
		QDev  string
		Stats struct {
			Read int64 `json:"rd_bytes"`
		}
	}
	require.NoError(l.t, json.Unmarshal(l.ask("query-blockstats", nil), &all))
	for _, b := range all {
		if b.QDev == device {
			return b.Stats.Read
		}
	}
	require.FailNow(l.t, "no such disk", "%+v", all)
	return 0
}

// A running guest's disk is limited, and the limit is changed and removed. The guest reads no more than it may.
func TestLimitsOfARunningGuest(t *testing.T) {
	t.Parallel()
	image := guest.Tiny(t)
	guest.TakePlace(t)
	l := startQEMU(t, reconcile.Start{}, plan.Rules{limitsRule}, append(linux(image),
		"-object", "iothread,id=t0", "-blockdev", "driver=null-co,read-zeroes=on,node-name=a,size=67108864",
		"-device", "virtio-blk-pci,id=disk0,drive=a,iothread=t0")...)
	l.want.Limits = limitsWanted(vmspec.DiskLimits{})
	l.settles("paused")
	c := l.runs()
	const rate = 256 << 10
	l.want.Limits = limitsWanted(vmspec.DiskLimits{BytesRead: rate})
	l.settles("limited")
	before, since := l.readBytes(virtioDisk), time.Now()
	c.Type("sh dd if=/dev/vda of=/dev/null bs=4k count=8192; echo read-$((6*7))") // 32 MiB, 128 seconds
	wait.Until(t, func() bool { return l.readBytes(virtioDisk)-before >= 3*rate })
	read := l.readBytes(virtioDisk) - before
	// QEMU lets the requests of a tenth of a second pass at once; a request has at most 1 MiB.
	require.LessOrEqual(t, float64(read), rate*(time.Since(since).Seconds()+0.2)+1<<20)

	// Another runner finds the machine, with a configuration that has another limit.
	l.machine = reconcile.New(plan.Rules{limitsRule}, reconcile.Start{Running: true})
	l.want.Limits = limitsWanted(vmspec.DiskLimits{Bytes: 2 * rate, IOPS: 900})
	l.settles("found")
	require.Contains(t, string(l.ask("query-block", nil)), `"bps": 524288`)
	require.Contains(t, string(l.ask("query-block", nil)), `"iops": 900`)
	l.want.Limits = limitsWanted(vmspec.DiskLimits{})
	l.settles("unlimited")
	require.NotContains(t, string(l.ask("query-block", nil)), `"group"`)
	c.Await(`read-42`)
	require.GreaterOrEqual(t, l.readBytes(virtioDisk)-before, int64(32<<20))
}

// An attached disk is tuned as its fields say, and is limited. An adopting runner finds its limits.
func TestAttachedDisksAreTuned(t *testing.T) {
	t.Parallel()
	rule, options := threePorts()
	l := startQEMU(t, reconcile.Start{}, plan.Rules{rule}, options...)
	file := filepath.Join(l.qemu.Dir, "data")
	require.NoError(t, os.WriteFile(file, make([]byte, 1<<20), 0o600))
	l.want.Drives = []reconcile.Drive{}
	l.settles("nothing")
	l.ask("cont", nil)
	disk := wantedDisk(0, file, "data")
	disk.Cache, disk.AIO, disk.DetectZeroes, disk.LogicalBlockSize = "writethrough", "threads", "unmap", 4*vmspec.KiB
	disk.Limits = &vmspec.DiskLimits{IOPSWrite: 70}
	l.want.Drives = []reconcile.Drive{disk}
	l.become("data Attached")
	l.settles("limited")
	blocks := func() string { return string(l.ask("query-block", nil)) }
	require.Contains(t, blocks(), `"iops_wr": 70`)
	require.Contains(t, blocks(), `"detect_zeroes": "unmap"`)
	require.Contains(t, blocks(), `"writeback": false`)
	for _, line := range l.said {
		if strings.HasPrefix(line, "device_add") {
			require.Contains(t, line, `"logical_block_size":4096,"physical_block_size":4096`)
		}
	}
	l.machine = reconcile.New(plan.Rules{rule}, reconcile.Start{Running: true})
	disk.Limits = nil
	l.want.Drives = []reconcile.Drive{disk}
	l.become("data Attached")
	l.settles("unlimited")
	require.Contains(t, blocks(), `"iops_wr": 0`)
}
