package machine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/plan"
)

func TestDrivesAreNamedAsInTheConfiguration(t *testing.T) {
	t.Parallel()
	p := &plan.Plan{Drives: []plan.Drive{
		{Index: 0, Device: "cd0", Nodes: []string{"cd0-medium"}},
		{Index: 1, Device: "disk0", Nodes: []string{"disk0-format", "disk0-file"}, File: "/a.img"},
		{Index: 2, Nodes: []string{"x"}, File: "/dev/sdx"},
		{Index: plan.NotInConfiguration, Device: "cloud-init", Nodes: []string{"seed"}, File: "/seed.img"},
		{Index: plan.NotInConfiguration, Nodes: []string{"fw-rom", "fw-rom-file"}, File: "/rom.fd"},
	}}
	for _, row := range []struct{ device, node, want string }{
		{"cd0-medium", "", "vm.drives[0]"},
		{"/machine/peripheral/cd0", "#block123", "vm.drives[0]"},
		{"/machine/peripheral/disk0/virtio-backend", "disk0-format", "vm.drives[1], /a.img"},
		{"/machine/peripheral-anon/device[0]", "disk0-file", "vm.drives[1], /a.img"},
		{"", "x", "vm.drives[2], /dev/sdx"},
		{"", "seed", "cloud-init, /seed.img"},
		{"", "fw-rom", "fw-rom, /rom.fd"},
		{"stranger", "", "stranger"},
		{"", "stranger", "stranger"},
		{"", "", "a drive"},
	} {
		require.Equal(t, row.want, driveOf(p, row.device, row.node).String())
	}
}
