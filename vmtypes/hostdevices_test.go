package vmtypes_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/sample"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// QEMU accepts every property of devices that the host lacks, and only reports the missing devices. The error leads to
// the line that created the option.
func TestQEMUMissesPassedThroughDevices(t *testing.T) {
	t.Parallel()
	p := newSandbox(t).imagined("passthrough-graphics-card")
	for i, o := range p.QEMU.Args {
		if at, given := o.Get("host"); given { // do not use devices of this computer
			setProperty(&p.QEMU.Args[i], "host", strings.Replace(at, "0000:", "fffe:", 1))
		}
		setProperty(&p.QEMU.Args[i], "host-nodes", "0") // this computer may have only one node
	}
	said := start(t, p).refusal()
	require.Contains(t, said, "vfio /sys/bus/pci/devices/fffe:01:00.0: no such host device")
	requireBlame(t, p, said, "host0", "@vmtypes//lib/passthrough.star")
}

// If the kernel supports vsock, the machine can be started. Otherwise, the only error is the missing device.
func TestVsock(t *testing.T) {
	t.Parallel()
	p := newSandbox(t).imagined("vsock-without-network")
	for i, o := range p.QEMU.Args {
		if o.ID() == "vsock0" {
			setProperty(&p.QEMU.Args[i], "guest-cid", strconv.Itoa(1<<24+os.Getpid())) // unique for this process
		}
	}
	q := start(t, p)
	if _, err := os.Stat("/dev/vhost-vsock"); err == nil {
		q.accepts(p)
		q.quits()
		return
	}
	t.Log("THIS COMPUTER HAS NO /dev/vhost-vsock: tested is only that nothing else is missing")
	said := q.refusal()
	require.Contains(t, said, "vhost-vsock: failed to open vhost device: No such file or directory")
	requireBlame(t, p, said, "vsock0", "@vmtypes//lib/vsock.star")
}

func requireBlame(t *testing.T, p *plan.Plan, said, id, module string) {
	t.Helper()
	blamed := p.QEMU.Blame(said)
	require.NotNil(t, blamed, said)
	require.Equal(t, id, blamed.ID())
	require.Equal(t, module, blamed.Origin[0].File)
}

// imagined returns the plan of an example's sample for the host in the sample, with the firmware of this computer.
func (s sandbox) imagined(name string) *plan.Plan {
	s.t.Helper()
	g, err := sample.Read(filepath.Join(examples, name+sample.Suffix))
	require.NoError(s.t, err)
	facts := g.Host
	facts.DataDir, facts.RuntimeDir, facts.KVM = s.path("data"), s.path("run"), false
	library, err := vmtypes.Open(examples)
	require.NoError(s.t, err)
	defer library.Close()
	vmType, err := library.Load(s.t.Context(), g.Type)
	require.NoError(s.t, err)
	p, err := vmType.Launch(s.t.Context(), s.spec(g.VM), facts.Host())
	require.NoError(s.t, err)
	p.QEMU.Executable = qemuOf(s.t, p)
	s.firmware(p)
	return p
}
