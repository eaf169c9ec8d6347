package runner_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/test/guest"
	"vmop/test/tier"
)

// qmp runs a command through the control interface and decodes the answer.
func (v *vm) qmp(into any, command string) {
	v.t.Helper()
	v.query(into, qmp.Command{Execute: command})
}

// query decodes the result of a QMP command.
func (v *vm) query(into any, command qmp.Command) {
	v.t.Helper()
	reply, err := v.client().QMP(v.t.Context(), command)
	require.NoError(v.t, err)
	require.NoError(v.t, json.Unmarshal(reply, into))
}

// plugged returns the memory of the virtio-mem device in MiB.
func (v *vm) plugged() int64 {
	var devices []struct {
		Data struct{ Size int64 }
	}
	v.qmp(&devices, "query-memory-devices")
	require.Len(v.t, devices, 1)
	return devices[0].Data.Size >> 20
}

// Memory from virtio-mem follows the configuration, as the guest confirms.
func TestMemoryIsPluggedInAndOut(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	defer guest.TakePlace(t)()
	v := newVM(t, "virtiomem")
	v.types = "../examples/vmtypes"
	wants := func(ram string) {
		t.Helper()
		section := append(kernel(t, ""), "network: []", "options: {base: 256 MiB}", "currentRam: "+ram)
		section[2] = "maximumRam: 1 GiB"
		v.configure("virtiomem", nil, section...)
	}
	wants("512 MiB")
	c := attach(v)
	v.runs()
	c.Await(`READY`)
	eventually(t, 256, v.plugged)
	sees := func(condition string) {
		t.Helper()
		c.Type("sh until set -- $(cat /proc/meminfo); [ $2 " + condition +
			" ]; do usleep 100000; done; echo memory is $2")
		c.Await(`^memory is \d+`)
	}
	sees("-gt 400000")
	wants("1 GiB")
	eventually(t, 768, v.plugged)
	sees("-gt 900000")
	wants("256 MiB")
	eventually(t, 0, v.plugged)
	sees("-lt 260000")
	wants("128 MiB")
	v.log.await(t, v.ended, "the VM is not as configured", "err",
		"vm.currentRam: 128 MiB are requested, but the guest always has 256 MiB")
	v.notLogged("changes need a restart of the VM")
	v.ends()
}
