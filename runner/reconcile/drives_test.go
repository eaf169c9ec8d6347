package reconcile_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/reconcile"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// opens requires that these disks are opened now, and nothing is said, and returns the first.
func (k *talk) opens(serials ...string) reconcile.Drive {
	k.t.Helper()
	step := k.step()
	require.Empty(k.t, step.Requests)
	require.Len(k.t, step.Opens, len(serials))
	for i, d := range step.Opens {
		require.Equal(k.t, serials[i], d.Serial)
	}
	return step.Opens[0]
}

func served(index int, serial string) reconcile.Drive {
	return reconcile.Drive{Index: index, Drive: vmspec.Drive{
		Type: vmspec.DriveRaw, Format: "raw", Serial: serial, NBD: &vmspec.NBD{Host: "10.0.0.7", Port: 10809},
	}}
}

// A server that is about to be there is asked ten times in a second, and one that stays away ever more rarely.
func TestAServerIsSoonAskedAgain(t *testing.T) {
	t.Parallel()
	rule, _ := threePorts()
	k := newTalk(t, reconcile.Start{}, rule)
	k.want.Drives = []reconcile.Drive{served(0, "data")}
	away := func(pause time.Duration) {
		t.Helper()
		d := k.opens("data")
		require.False(t, k.machine.Opened(d, nil, errors.New("connection refused"), k.now))
		k.waits(pause)
		k.passes(pause)
	}
	for range 30 {
		away(100 * time.Millisecond)
	}
	away(500 * time.Millisecond)
	away(time.Second)
	away(2 * time.Second)
	k.machine.Opened(k.opens("data"), nil, nil, k.now)
	require.Equal(t, "blockdev-add", k.step().Requests[0].Command.Execute)
}

// A disk doesn't wait for the one before, and as many as a machine can have are found again by names that QEMU takes.
func TestDisksAreAttachedAtOnce(t *testing.T) {
	t.Parallel()
	rule := plan.Disks{Driver: "virtio-blk-pci"}
	var want []reconcile.Drive
	for i := range plan.MaxPluggedDisks {
		rule.Buses = append(rule.Buses, fmt.Sprintf("hotplug%d", i))
		want = append(want, served(i, fmt.Sprintf("a-long-serial-num-%02d", i)))
	}
	k := newTalk(t, reconcile.Start{}, rule)
	k.want.Drives = want
	var blocks, nodes []string
	for i, d := range want {
		k.machine.Opened(k.opens(d.Serial), nil, nil, k.now)
		step := k.step()
		k.open = step.Requests
		k.isDone()
		device := step.Requests[len(step.Requests)-1].Command.Arguments.(map[string]any)
		name := device["id"].(string)
		require.Equal(t, rule.Buses[i], device["bus"])
		require.LessOrEqual(t, len(name), 31)
		blocks = append(blocks, `{"qdev": "/machine/peripheral/`+name+`", "inserted": {"node-name": "`+name+`"}}`)
		nodes = append(nodes, `{"node-name": "`+name+`", "drv": "nbd", "file": "nbd://10.0.0.7:10809"}`)
		k.says("query-block", `query-named-block-nodes {"flat":true}`)
		k.returns("["+strings.Join(blocks, ",")+"]", "["+strings.Join(nodes, ",")+"]")
	}
	k.silent()
}
