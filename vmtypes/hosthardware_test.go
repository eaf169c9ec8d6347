package vmtypes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
	"vmop/vmtypes"
)

// An address is what lspci -D shows. Other spellings lead to a suggestion.
func TestPCIAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"01:00.0": "0000:01:00.0", "0000:01:0A.1": "0000:01:0a.1", "pci_0000_01_00_0": "0000:01:00.0",
		"0000:1:0.0": "0000:01:00.0", " 0000:01:00.0 ": "0000:01:00.0", "0000:01:00:0": "0000:01:00.0",
		"": "", "eth0": "", "0000:01:00": "", "0000:01:20.0": "", "0000:01:00.8": "", "../../x": "",
	} {
		meant, ok := vmtypes.PCIAddress(text)
		require.False(t, ok, text)
		require.Equal(t, want, meant, text)
	}
	for _, text := range []string{"0000:01:00.0", "10000:e1:1f.7"} {
		address, ok := vmtypes.PCIAddress(text)
		require.True(t, ok, text)
		require.Equal(t, text, address)
	}
}

// What a type sees of a host whose hardware is unknown, such as in the manager.
func TestUnknownHardware(t *testing.T) {
	t.Parallel()
	require.Equal(t, `None None False [(0, 0, 0, 0), (1, 1, 0, 0), (2, 2, 0, 0)] 17179869184`,
		printTuple(t, `(host.pci("0000:01:00.0"), host.sev, host.tdx, `+
			`[(p.number, p.core, p.cache, p.node) for p in host.processors[:3]], host.nodes[0].memory)`, vmtypes.Host{}))
}

func TestHardwareOfAHost(t *testing.T) {
	t.Parallel()
	host := vmtypes.Host{
		PCI: func(address string) *vmtypes.PCIDevice {
			if address != "0000:01:00.0" {
				return nil
			}
			return &vmtypes.PCIDevice{
				Address: address, ClassCode: "030000", Driver: new("vfio-pci"), IOMMUGroup: new(0),
				GroupMembers: []string{address},
			}
		},
		Processors:   func() []vmtypes.Processor { return []vmtypes.Processor{{Number: 4, Core: 1}} },
		Confidential: func() vmtypes.Confidential { return vmtypes.Confidential{SEV: &vmtypes.SEV{CBitPos: 51}} },
	}
	require.Equal(t, `030000 vfio-pci 0 ("0000:01:00.0",) None None 51 False 1`, printTuple(t,
		`[(d.classCode, d.driver, d.iommuGroup, d.groupMembers, d.node) for d in [host.pci("0000:01:00.0")]][0] + `+
			`(host.pci("0000:02:00.0"), host.sev.cbitpos, host.sev.snp, host.processors[0].core)`, host))
	for wrong, want := range map[string]string{
		`"01:00.0"`: `host.pci: "01:00.0" must be an address as lspci -D shows it (did you mean "0000:01:00.0"?)`,
		`"gpu"`:     `host.pci: "gpu" must be an address as lspci -D shows it, such as "0000:01:00.0"`,
	} {
		_, err := evaluateTuple(t, `(host.pci(`+wrong+`),)`, host)
		require.ErrorContains(t, err, want)
	}
	_, err := evaluateTuple(t, `(host.pci("0000:01:00.0").drivr,)`, host)
	require.ErrorContains(t, err, "did you mean .driver?")
}

// printed returns the items of a tuple, an expression of launch, as a type sees them.
func printTuple(t *testing.T, tuple string, host vmtypes.Host) string {
	t.Helper()
	text, err := evaluateTuple(t, tuple, host)
	require.NoError(t, err)
	return text
}

func evaluateTuple(t *testing.T, tuple string, host vmtypes.Host) (string, error) {
	t.Helper()
	source := vmtypes.Source{Modules: map[string]string{"my.star": "def launch(vm, host):\n" +
		"    return part(executable = \"/q\", options = [option(\"-name\", \" \".join([str(v) for v in " + tuple + "]))])\n"}}
	vmType, err := source.Library().Load(t.Context(), "my")
	require.NoError(t, err)
	p, err := vmType.Launch(t.Context(), vmspec.Spec{}, host)
	if p == nil {
		return "", err
	}
	return p.QEMU.Args[0].Value, err
}
