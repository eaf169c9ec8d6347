package handover

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/plan"
)

// TPMs match if they have the same version and device model.
func TestTPMsAreCompared(t *testing.T) {
	t.Parallel()
	with := func(model string, arguments ...string) []string {
		p := &plan.Plan{Helpers: []plan.Process{{Role: plan.RoleTPM, Dir: model}}}
		for _, a := range arguments {
			p.Helpers[0].Args = append(p.Helpers[0].Args, plan.Option{Flag: a})
		}
		p.QEMU.Args = []plan.Option{{Flag: "-device", Value: model}}
		return Hardware(p, nil)
	}
	own := with("tpm-tis", "socket", "--tpm2")
	require.NoError(t, Differences(own, with("tpm-tis", "socket", "--tpm2", "--terminate")))
	require.EqualError(t, Differences(own, with("tpm-crb", "socket", "--tpm2")),
		"the guest would have other hardware: without -device tpm-tis; with -device tpm-crb")
	require.EqualError(t, Differences(own, with("tpm-tis", "socket")),
		"the guest would have other hardware: without TPM 2.0; with TPM 1.2")
	require.EqualError(t, Differences(own, Hardware(&plan.Plan{}, nil)),
		"the guest would have other hardware: without -device tpm-tis; without TPM 2.0")
}

// A CD drive matches with and without a medium, because the medium may have changed while the guest was running.
func TestMediaAreNoHardware(t *testing.T) {
	t.Parallel()
	with := func(device, id, medium string) []string {
		properties := []plan.Property{{Key: "id", Value: id}}
		if medium != "" {
			properties = append(properties, plan.Property{Key: "drive", Value: medium})
		}
		return Hardware(&plan.Plan{
			QEMU:  plan.Process{Args: []plan.Option{{Flag: "-device", Value: device, Properties: properties}}},
			Rules: plan.Rules{plan.Medium{Device: "cd0"}},
		}, nil)
	}
	empty := with("scsi-cd", "cd0", "")
	require.NoError(t, Differences(empty, with("scsi-cd", "cd0", "cd0-medium")))
	require.EqualError(t, Differences(empty, with("scsi-cd", "cd1", "")),
		"the guest would have other hardware: without -device scsi-cd,id=cd0; with -device scsi-cd,id=cd1")
	require.Error(t, Differences(with("scsi-hd", "disk0", "a"), with("scsi-hd", "disk0", "b")))
}

// Differences written by the other side can't forge or fill the log.
func TestDifferencesArePrintable(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 1000 {
		lines = append(lines, fmt.Sprint("-device x", i, "\n\x1b[2J", strings.Repeat("y", 1000)))
	}
	err := Differences(lines, nil).Error()
	require.NotContains(t, err, "\n")
	require.NotContains(t, err, "\x1b")
	require.Less(t, len(err), 10_000)
	require.Contains(t, err, "and 980 more")
}
