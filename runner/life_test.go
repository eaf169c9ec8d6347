package runner_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/prepare"
	"vmop/test/guest"
	"vmop/vmspec"
	"vmop/vmstatus"
)

// A VM of the standard type starts from its configuration, ends gracefully, and keeps its identity for the next start.
func TestFullLife(t *testing.T) {
	t.Parallel()
	guest.TakePlace(t)
	v := newVM(t, "standard")
	section := append(kernel(t, ""),
		"useTpm: true", "maximumCpus: 4", "currentCpus: 2", "powerdownTimeout: 120", "network: [{type: user}]")
	cloudInit := []string{
		"cloudInit:",
		"  metaData: {instance-id: life-1, local-hostname: alive}",
		"  userData: {runcmd: [[echo, hello]]}",
	}
	v.configure("standard", cloudInit, section...)
	c := attach(v)
	v.runs()
	argv := arguments(v.qemu())
	require.Equal(t, "q35", strings.Split(value(argv, "-machine"), ",")[0])
	require.Contains(t, v.processes(), "swtpm")
	info, err := os.Stat(v.path("run"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	c.Await(`READY`)
	uuid := strings.TrimSpace(v.read("data", "uuid.txt"))
	for what, pattern := range map[string]string{
		"the cloud-init disk": `nocloud device=/dev/vd\S+ files=meta-data,user-data instance-id=life-1 hostname=alive$`,
		"the user data":       `(?m)^USERDATA: #cloud-config$`,
		"the processors":      `cpus count=2 online=0-1 present=0-1 possible=0-3$`,
		"the memory":          `memory total=2\d{5}kB`,
		"the TPM":             `tpm version=2 code=0x00000000`,
		"the identity":        `machine uuid=` + uuid,
		"the network":         `net eth0 mac=` + vmspec.MAC(uuid, 0) + ` carrier=1 address=10.0.2.15/24`,
	} {
		require.Regexp(t, `(?m)`+pattern, c.Text(), what)
	}

	outcome, err := v.stop()
	require.NoError(t, err)
	require.Equal(t, vmstatus.CauseAsked, outcome.Cause)
	require.Equal(t, "guest-shutdown", outcome.Reason)
	require.Zero(t, outcome.ExitCode())
	v.logged("stopping", "method", "ACPI power button")
	v.notLogged("stopping", "method", "QMP quit")
	v.logged("terminating", "cause", errEnough.Error())
	v.logged("stopped", "state", "Stopped")
	v.nothingLeft()
	v.survives(argv)
}

// survives checks the contents of the data directory, and starts the VM again.
func (v *vm) survives(argv []string) {
	t := v.t
	t.Helper()
	require.Contains(t, v.read("data", "vmtype.txtar"), "-- @vmtypes//standard.star --")
	machine := regexp.MustCompile(`^q35 (pc-q35-\d+\.\d+)\n$`).FindStringSubmatch(v.read("data", "machines.txt"))
	require.NotNil(t, machine, v.read("data", "machines.txt"))
	state, err := os.Stat(v.path("data", "tpm2-00.permall"))
	require.NoError(t, err, "the state of the TPM")
	require.NotZero(t, state.Size())

	var again []string
	v.onPaused = func(context.Context, *prepare.VM) error {
		again = arguments(v.qemu())
		return errEnough
	}
	v.start()
	_, err = v.wait()
	require.ErrorIs(t, err, errEnough)
	v.nothingLeft()
	require.Equal(t, machine[1], strings.Split(value(again, "-machine"), ",")[0], "the machine version is pinned")
	require.Equal(t, value(argv, "-uuid"), value(again, "-uuid"))
	require.Equal(t, card(argv), card(again))
}

// card returns the option of the network card.
func card(argv []string) string {
	for _, word := range argv {
		if strings.HasPrefix(word, "virtio-net") {
			return word
		}
	}
	return ""
}
