package runner_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/guest"
	"vmop/test/tier"
)

// Guests run on the examples of VM types that need no hardware, and find the devices of their type. The guest has no
// driver for 9p, and sees this device on its bus.
func TestExamplesRun(t *testing.T) {
	t.Parallel()
	guests := []struct {
		vmType      string
		commandLine string
		section     []string
		sees        string // a command in the guest, and the line that it prints
		line        string
	}{
		{
			vmType:  "sized",
			section: []string{"options: {env: production, ticket: OPS-17}"},
			sees:    "cd /sys; cat devices/system/cpu/possible class/dmi/id/chassis_asset_tag | tr '\\n' ' '; echo",
			line:    `^0-3 OPS-17 $`,
		},
		{
			vmType: "ci9p", commandLine: "tsc_early_khz=" + frequency(t),
			section: []string{"options: {folder: PATH}"},
			sees:    "cat /sys/bus/virtio/devices/*/device | sort | grep -c 0x0009", line: `^1$`,
		},
		{
			vmType: "router", section: []string{"maximumCpus: 2", "currentCpus: 2"},
			sees: "ls /sys/class/net/eth0/queues | tr '\\n' ' '; echo",
			line: `^rx-0 tx-0 $`, // QEMU's own network has one queue
		},
		{
			vmType:  "old",
			section: []string{"options: {floppy: disk.img, diskBus: virtio, networkCard: virtio-net-pci}"},
			sees:    "cat /sys/bus/pnp/devices/*/id | grep -c PNP0700", line: `^1$`,
		},
	}
	for _, g := range guests {
		t.Run(g.vmType, func(t *testing.T) {
			tier.Deep(t)
			t.Parallel()
			defer guest.TakePlace(t)()
			v := newVM(t, g.vmType)
			v.types = "../examples/vmtypes"
			v.image("disk.img", 1440<<10)
			lines := kernel(t, g.commandLine)
			if g.vmType == "sized" {
				lines = append(lines[:2], lines[3:]...) // the type decides the memory
			}
			v.configure(g.vmType, nil, append(append(lines, "network: [{type: user}]"), g.section...)...)
			c := attach(v)
			v.runs()
			c.Await(`READY`)
			require.NotContains(t, c.Text(), "error=")
			c.Type("sh " + g.sees)
			c.Await(g.line)
			v.ends()
		})
	}
}
