package reconcile_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/reconcile"
	"vmop/vmspec"
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

// A disk doesn't wait for the one before.
func TestDisksAreAttachedAtOnce(t *testing.T) {
	t.Parallel()
	rule, _ := threePorts()
	k := newTalk(t, reconcile.Start{}, rule)
	k.want.Drives = []reconcile.Drive{served(0, "one"), served(1, "two"), served(2, "three")}
	blocks, nodes := "", ""
	for i, serial := range []string{"one", "two", "three"} {
		k.machine.Opened(k.opens(serial), nil, nil, k.now)
		step := k.step()
		k.open = step.Requests
		k.isDone()
		name := step.Requests[len(step.Requests)-1].Command.Arguments.(map[string]any)["id"].(string)
		if i > 0 {
			blocks, nodes = blocks+",", nodes+","
		}
		blocks += `{"qdev": "/machine/peripheral/` + name + `", "inserted": {"node-name": "` + name + `"}}`
		nodes += `{"node-name": "` + name + `", "drv": "nbd", "file": "nbd://10.0.0.7:10809"}`
		k.says("query-block", `query-named-block-nodes {"flat":true}`)
		k.returns("["+blocks+"]", "["+nodes+"]")
	}
	k.silent()
}
