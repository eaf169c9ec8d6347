package runner_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/prepare"
	"vmop/vmstatus"
)

// ends ends the VM successfully.
func (v *vm) ends() {
	v.t.Helper()
	_, err := v.stop()
	require.NoError(v.t, err)
	v.nothingLeft()
}

// The runner accepts a data directory of VM-Operator. The machine stays the same: its identity, the firmware's
// variables, and the TPM's state.
func TestDataOfTheOriginal(t *testing.T) {
	t.Parallel()
	v := newVM(t, "standard", "accelerator: tcg", "firmware: uefi-4m", "useTpm: true", "network: []",
		"powerdownTimeout: 0")
	var uuid string
	start := func() {
		v.onPaused = func(context.Context, *prepare.VM) error {
			uuid = value(arguments(v.qemu()), "-uuid")
			return errEnough
		}
		v.start()
		_, err := v.wait()
		require.ErrorIs(t, err, errEnough)
		v.nothingLeft()
	}
	start()
	variables := "guest" + v.read("data", "fw-vars.fd")[5:]
	secrets := v.read("data", "tpm2-00.permall")
	require.NoError(t, os.RemoveAll(v.path("data")))
	require.NoError(t, os.MkdirAll(v.path("data", "cloud-init"), 0o755))
	const own = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	for name, text := range map[string]string{
		"uuid.txt": own + "\n", "fw-vars.fd": variables, "tpm2-00.permall": secrets,
		"VM.ftl.yaml": "\"qemu\": {}\n", "cloud-init/user-data": "#cloud-config\n",
	} {
		require.NoError(t, os.WriteFile(v.path("data", name), []byte(text), 0o644))
	}
	start()
	require.Equal(t, own, uuid)
	require.True(t, variables == v.read("data", "fw-vars.fd"))
	require.True(t, secrets == v.read("data", "tpm2-00.permall"))
	require.True(t, secrets == v.read("data", "tpm", "tpm2-00.permall"))
	require.Equal(t, "\"qemu\": {}\n", v.read("data", "VM.ftl.yaml"), "the way back is open")
}

// By default, KVM runs the guest if it works. Otherwise the status reports this.
func TestTheAcceleratorIsChosen(t *testing.T) {
	t.Parallel()
	v := newVM(t, "standard", "firmware: bios", "network: []")
	prepared, err := prepare.Plan(t.Context(), v.options().Options)
	require.NoError(t, err)
	v.runs()
	argv := strings.Join(arguments(v.qemu()), " ")
	const said = "without KVM the guest is slow; vm.accelerator: auto is tcg here, because "
	if why := prepared.Emulated(); why != "" {
		require.Contains(t, argv, "-accel tcg")
		v.logged(said + why)
		require.Contains(t, v.status().Condition(vmstatus.ConditionRunning).Message,
			"vm.accelerator: auto is tcg here, because "+why)
	} else {
		require.Contains(t, argv, "-accel kvm")
		require.NotContains(t, v.status().Condition(vmstatus.ConditionRunning).Message, "auto is tcg here")
	}
	v.ends()
}
