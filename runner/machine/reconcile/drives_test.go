package reconcile_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/machine/reconcile"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// opens requires that these disks are opened now without sending a command, and returns the first.
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

// A starting server is asked ten times per second, and an absent server less and less often. A server that a manager is
// starting is asked once per second.
func TestAServerIsSoonAskedAgain(t *testing.T) {
	t.Parallel()
	rule, _ := threePorts()
	k := newTalk(t, reconcile.Start{}, rule)
	k.want.Drives = []reconcile.Drive{served(0, "data")}
	refused := errors.New("connection refused")
	away := func(pause time.Duration) {
		t.Helper()
		d := k.opens("data")
		require.False(t, k.machine.Opened(d, nil, refused, k.now))
		k.waits(pause)
		k.passes(pause)
	}
	for range 30 {
		away(100 * time.Millisecond)
		require.Equal(t, []string{"data Attaching"}, states(k.machine.Facts()))
	}
	away(500 * time.Millisecond)
	require.Equal(t, []string{"data Failed"}, states(k.machine.Facts()))
	away(time.Second)
	away(2 * time.Second)
	k.complains("vm.drives[0]: attach the disk: connection refused")
	k.want.DrivesRevision = 7
	for range 90 {
		away(time.Second)
		require.Equal(t, []string{"data Attaching"}, states(k.machine.Facts()))
	}
	k.complains()
	require.Equal(t, "waiting for the disk's server: connection refused", k.machine.Facts().Drives[0].Message)
	k.machine.Opened(k.opens("data"), nil, nil, k.now)
	require.Equal(t, "blockdev-add", k.step().Requests[0].Command.Execute)
}

// While servers don't answer, other disks are attached and detached, and the list of disks can change. An answer
// belongs to the server that was asked, even if the disk now has another server.
func TestNothingWaitsForAServer(t *testing.T) {
	t.Parallel()
	rule, _ := threePorts()
	k := newTalk(t, reconcile.Start{}, rule)
	k.want.Drives = []reconcile.Drive{served(0, "far"), served(1, "near")}
	step := k.step()
	require.Len(t, step.Opens, 2)
	far, near := step.Opens[0], step.Opens[1]
	k.machine.Opened(near, nil, nil, k.now)
	k.plugsIn("near", 0)

	k.want.Drives = []reconcile.Drive{served(0, "another"), served(1, "far"), served(2, "near")}
	d := k.opens("another") // and far is not opened again
	k.passes(time.Minute)
	k.machine.Opened(d, nil, nil, k.now)
	k.plugsIn("another", 1)
	require.Equal(t, []string{"another Attached", "far Attaching", "near Attached"}, states(k.machine.Facts()))

	moved := served(1, "far")
	moved.NBD.Host = "10.0.0.8"
	k.want.Drives[1] = moved
	k.machine.Opened(far, nil, nil, k.now)
	require.Equal(t, moved, k.opens("far"))
	k.want.Drives = k.want.Drives[:1] // near goes; QEMU has its certificates
	k.says(`qom-get {"path":"/objects/tls-near","property":"dir"}`)
	k.returns(`"/tls"`)
	asked := k.opens("near")
	require.Equal(t, "/tls", asked.NBD.TLS)
	k.machine.Opened(moved, nil, nil, k.now) // no longer wanted
	k.silent()
	k.machine.Opened(asked, nil, nil, k.now)
	require.Equal(t, "device_del", k.step().Requests[0].Command.Execute)
}

// plugsIn requires that a disk is attached now, and answers that QEMU has this disk and all earlier disks.
func (k *talk) plugsIn(serial string, place int) {
	k.t.Helper()
	step := k.step()
	k.open = step.Requests
	require.NotEmpty(k.t, k.open)
	device := k.open[len(k.open)-1].Command.Arguments.(map[string]any)
	name := device["id"].(string)
	require.Equal(k.t, serial, device["serial"])
	require.LessOrEqual(k.t, len(name), 31)
	require.True(k.t, strings.HasPrefix(device["bus"].(string), "hotplug"))
	k.isDone()
	k.blocks = append(k.blocks, `{"qdev": "/machine/peripheral/`+name+`", "inserted": {"node-name": "`+name+`"}}`)
	k.nodes = append(k.nodes, `{"node-name": "`+name+`", "drv": "nbd", "file": "nbd://10.0.0.7:10809"}`)
	k.says("query-block", `query-named-block-nodes {"flat":true}`)
	k.returns("["+strings.Join(k.blocks, ",")+"]", "["+strings.Join(k.nodes, ",")+"]")
	require.Len(k.t, k.blocks, place+1)
}

// The maximum number of disks is attached without waiting. Each is recognized again by its node name, which QEMU
// accepts.
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
	step := k.step()
	require.Equal(t, want, step.Opens)
	for _, d := range step.Opens {
		k.machine.Opened(d, nil, nil, k.now)
	}
	for i, d := range want {
		k.plugsIn(d.Serial, i)
	}
	k.silent()
	k.event("STOP", "") // unrelated to disks
	k.event("DEVICE_DELETED", `{"device": "another"}`)
	k.passes(time.Second)
	k.silent()
	for _, e := range []string{"RESET", "DEVICE_DELETED"} { // QEMU has removed the requested disk
		name, _, _ := strings.Cut(strings.TrimPrefix(k.blocks[0], `{"qdev": "/machine/peripheral/`), `"`)
		k.event(e, `{"device": "`+name+`"}`)
		k.passes(time.Second)
		k.says("query-block", `query-named-block-nodes {"flat":true}`)
		k.returns("["+strings.Join(k.blocks, ",")+"]", "["+strings.Join(k.nodes, ",")+"]")
		k.silent()
	}
}
