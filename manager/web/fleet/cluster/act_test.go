package cluster

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/web/fleet"
	"vmop/runner/control"
	"vmop/runner/hardware"
	"vmop/test/tier"
	"vmop/test/wait"
	"vmop/vmtypes/plan"
)

const small = `{vm: {state: Stopped, maximumCpus: 4, maximumRam: 2Gi, disks: [{cdrom: {image: "https://me:canary@x/a.iso"}}]}}`

// refused returns the text of a refusal.
func refused(t *testing.T, err error) string {
	t.Helper()
	var refusal fleet.Refusal
	require.ErrorAs(t, err, &refusal)
	return string(refusal)
}

// Actions with a field in the definition change it, with the manager's permissions. Every action leaves an event with
// its user.
func TestActionsInTheDefinition(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	p := newPlace(t)
	ctx := t.Context()
	p.define("web", small)
	p.report("web", map[string]any{"phase": "Stopped"})
	p.await("web", "it is stopped", func(vm *fleet.VM) bool { return vm.State == fleet.Stopped })

	require.NoError(t, p.Resize(ctx, "bob", "web", fleet.Size{CPUs: new(int64(3)), RAM: new(int64(1536 << 20))}))
	vm := p.resource("web")
	require.EqualValues(t, 3, *vm.Spec.VM.CurrentCPUs)
	require.Equal(t, "1536Mi", vm.Spec.VM.CurrentRAM.String())
	p.await("web", "it has the size", func(vm *fleet.VM) bool { return vm.CPUs.Wanted == 3 })
	require.NoError(t, p.Resize(ctx, "bob", "web", fleet.Size{CPUs: new(int64(9)), RAM: new(int64(4 << 30))}))
	vm = p.resource("web")
	require.EqualValues(t, 9, *vm.Spec.VM.CurrentCPUs)
	require.EqualValues(t, 9, *vm.Spec.VM.MaximumCPUs, "the maximum follows")
	require.Equal(t, "4Gi", vm.Spec.VM.MaximumRAM.String())
	require.NoError(t, p.Resize(ctx, "bob", "web", fleet.Size{}))

	require.NoError(t, p.Insert(ctx, "bob", "web", "drive 0", "https://x/a.iso"), "nothing changes")
	require.Equal(t, "https://me:canary@x/a.iso", p.resource("web").Spec.VM.Disks[0].CDROM.Image)
	p.Kubectl("patch", "vm", "web", "--type=json", "-p",
		`[{"op": "replace", "path": "/spec/vm/disks/0/cdrom/image", "value": "other.iso"}]`)
	p.await("web", "it has the medium", func(vm *fleet.VM) bool { return vm.Drives[0].Medium == "other.iso" })
	require.NoError(t, p.Insert(ctx, "bob", "web", "drive 0", "https://me:canary@x/b.iso"))
	require.Equal(t, "https://me:canary@x/b.iso", p.resource("web").Spec.VM.Disks[0].CDROM.Image)
	require.Contains(t, refused(t, p.Insert(ctx, "bob", "web", "drive 1", "x")), "there is no drive 1")

	require.NoError(t, p.Do(ctx, "carol\n<b>", "web", fleet.Delete))
	err := p.admin.Get(ctx, client.ObjectKey{Namespace: p.Name, Name: "web"}, &v1.VirtualMachine{})
	require.True(t, apierrors.IsNotFound(err))
	require.ElementsMatch(t, []string{
		"Resize: bob has requested: 3 CPUs, 1536Mi of RAM",
		"Resize: bob has requested: 9 CPUs, 4Gi of RAM",
		"Insert: bob has requested: drive 0: https://x/b.iso",
		"Delete: carol <b> has requested: delete",
	}, p.events("web"))
	require.NotContains(t, p.log.String(), "canary")
	require.NotContains(t, p.log.String(), "ERROR")
}

// An object that was changed or deleted without this manager knowing yet is not changed by mistake.
func TestChangedMeanwhile(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ctx := t.Context()
	p.define("web", small)
	p.report("web", map[string]any{"phase": "Stopped"})
	p.await("web", "it is stopped", func(vm *fleet.VM) bool { return vm.State == fleet.Stopped })
	known, err := p.findVM("web")
	require.NoError(t, err)

	p.Kubectl("patch", "vm", "web", "--type=json", "-p",
		`[{"op": "replace", "path": "/spec/vm/disks/0/cdrom/image", "value": "other.iso"}]`)
	require.Equal(t, changedMeanwhile, p.changeMedium(ctx, "bob", known, 0, "new.iso"))
	p.Kubectl("delete", "vm", "web")
	require.ErrorIs(t, p.changeMedium(ctx, "bob", known, 0, "new.iso"), fleet.ErrNotFound)
	p.define("web", small)
	require.Equal(t, changedMeanwhile, p.changeMedium(ctx, "bob", known, 0, "new.iso"), "it is another VM")
	require.Equal(t, v1.Stopped, p.resource("web").Spec.VM.State)
	require.ErrorIs(t, p.Do(ctx, "bob", "other", fleet.Start), fleet.ErrNotFound)
	require.Contains(t, refused(t, p.Do(ctx, "bob", "web", fleet.Restart)), "the VM is Pending: start it")
	require.Contains(t, refused(t, p.Do(ctx, "bob", "web", "explode")), "not possible")
}

// Actions on the machine are requested from its runner, in the name of the user.
func TestActionsOfTheRunner(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ctx := t.Context()
	p.define("web", strings.Replace(small, "Stopped", "Running", 1))
	p.runs("web")
	require.NoError(t, p.Do(ctx, "alice", "web", fleet.Pause))
	require.Equal(t, "pause by alice", <-p.runner.asked)
	p.runner.refuse = control.Refusal("the VM is being stopped")
	require.Equal(t, "the VM is being stopped", refused(t, p.Do(ctx, "alice", "web", fleet.Pause)))
	<-p.runner.asked
	p.runner.refuse = nil
	require.Len(t, p.events("web"), 1, "what was refused has not happened")
}

// Start, stop, restart and reset create operations with the name of the user, with the manager's permissions. An
// operation that would be refused isn't created.
func TestActionsByOperations(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ctx := t.Context()
	seen := p.operates("")
	p.define("web", small)
	p.report("web", map[string]any{"phase": "Stopped"})
	p.await("web", "it is stopped", func(vm *fleet.VM) bool { return vm.State == fleet.Stopped })
	require.NoError(t, p.Do(ctx, "alice", "web", fleet.Start))
	p.Kubectl("patch", "vm", "web", "--type=merge", "-p", `{"spec": {"vm": {"state": "Running"}}}`)
	p.runs("web")
	for _, a := range []fleet.Action{fleet.Reset, fleet.Restart, fleet.ForceRestart, fleet.Stop, fleet.Kill} {
		require.NoError(t, p.Do(ctx, "alice", "web", a))
	}
	want := []string{
		"Start web false alice", "Reset web false alice", "Restart web false alice",
		"Restart web true alice", "Stop web false alice", "Stop web true alice",
	}
	require.Equal(t, want, seen())
	vm := p.await("web", "all are shown", func(vm *fleet.VM) bool { return len(vm.Operations) == len(want) })
	require.Equal(t, "alice", vm.Operations[0].By)
	require.Equal(t, "InProgress", vm.Operations[0].Phase)

	refusal := []map[string]any{{
		"type": v1.ConditionVMTypeAccepted, "status": "False", "reason": "Refused", "message": "no such option",
		"lastTransitionTime": "2026-01-01T00:00:00Z",
	}}
	p.report("web", map[string]any{"conditions": refusal})
	p.await("web", "its type is refused", func(vm *fleet.VM) bool { return len(vm.Conditions) == 1 })
	require.Contains(t, refused(t, p.Do(ctx, "alice", "web", fleet.Restart)), "not be started again: no such option")
	require.Equal(t, want, seen())
}

// The user sees why the leading manager refuses an operation.
func TestAnOperationIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.operates("the operation x is in progress")
	p.define("web", small)
	p.report("web", map[string]any{"phase": "Stopped"})
	p.await("web", "it is stopped", func(vm *fleet.VM) bool { return vm.State == fleet.Stopped })
	require.Equal(t, "the operation x is in progress", refused(t, p.Do(t.Context(), "alice", "web", fleet.Start)))
}

// Consoles and plans come from the runner, and other users see who has the keyboard.
func TestStreams(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ctx := t.Context()
	p.define("web", strings.Replace(small, "Stopped", "Running", 1))
	_, err := p.Console(ctx, "alice", "web", fleet.Type)
	require.Contains(t, refused(t, err), "has no pod")
	p.runs("web")
	typing, err := p.Console(ctx, "alice", "web", fleet.Type)
	require.NoError(t, err)
	defer typing.Close()
	_, err = p.Console(ctx, "bob", "web", fleet.Type)
	require.ErrorIs(t, err, fleet.ErrOccupied)
	watching, err := p.Console(ctx, "bob", "web", fleet.Watch)
	require.NoError(t, err)
	defer watching.Close()
	go func() { _, _ = typing.Write([]byte("ls\r")) }()
	require.Equal(t, "ls\r", says(t, p.runner.guest, 3))
	_, err = p.runner.guest.Write([]byte("out"))
	require.NoError(t, err)
	require.Equal(t, "out", says(t, watching, 3))
	_, err = p.Screen(ctx, "alice", "web", fleet.Type)
	require.Contains(t, refused(t, err), "the VM has no screen")

	lines, err := p.Plan(ctx, "web")
	require.NoError(t, err)
	require.Equal(t, "-m 1G", lines[1].Text)
	usage, err := p.Usage(ctx, "web")
	require.NoError(t, err)
	require.Empty(t, usage)
	p.runner.devices.Devices = []hardware.Device{{ID: "nic0", Field: "vm.network[0]", Place: "config.yaml:7"}}
	report, err := p.Devices(ctx, "web")
	require.NoError(t, err)
	require.Equal(t, []hardware.Device{{ID: "nic0", Field: "spec.vm.networks[0]"}}, report.Devices)

	p.runner.plan.QEMU.Args = []plan.Option{{Flag: "-m", Value: strings.Repeat("1", largestAnswer)}}
	_, err = p.Plan(ctx, "web")
	require.ErrorContains(t, err, "longer than")

	// Another runner at that address isn't accepted.
	p.report("web", map[string]any{"runner": map[string]any{"control": map[string]any{"key": strings.Repeat("0", 64)}}})
	wait.Until(t, func() bool {
		_, err = p.Usage(ctx, "web")
		return err != nil
	})
	require.False(t, errors.As(err, new(fleet.Refusal)), "%v", err)
	require.ErrorContains(t, err, "another key")
}
