package hardware_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/sample"
	"vmop/runner/hardware"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// planOf returns the plan of the stock type standard, and its vm section.
func planOf(t *testing.T, text string) *plan.Plan {
	t.Helper()
	spec, err := sample.ParseVM([]byte(text))
	require.NoError(t, err)
	library, err := vmtypes.Open(t.TempDir())
	require.NoError(t, err)
	defer library.Close()
	vmType, err := library.Load(t.Context(), "standard")
	require.NoError(t, err)
	p, err := vmType.Launch(t.Context(), spec, sample.HostFacts{}.Host())
	require.NoError(t, err)
	return p
}

const (
	mac1    = "52:54:00:00:00:01"
	mac2    = "52:54:00:00:00:02"
	section = `
firmware: bios
drives:
- {file: /a.img, serial: first}
- {file: /b.img}
- {type: ide-cd, file: /c.iso}
network:
- {type: user, mac: "` + mac1 + `"}
- {type: user, mac: "` + mac2 + `"}
`
)

// pci is an answer of QEMU, shortened. The firmware has given the bus behind the port hotplug0 the number 1.
const pci = `[{"bus": 0, "devices": [
	{"bus": 0, "slot": 0, "function": 0, "class_info": {"desc": "Host bridge", "class": 1536}, "qdev_id": ""},
	{"bus": 0, "slot": 7, "function": 0, "class_info": {"desc": "Ethernet controller"}, "qdev_id": "nic0"},
	{"bus": 0, "slot": 8, "function": 0, "class_info": {"desc": "Ethernet controller"}, "qdev_id": "nic1"},
	{"bus": 0, "slot": 28, "function": 0, "class_info": {"desc": "PCI bridge"}, "qdev_id": "hotplug0",
		"pci_bridge": {"bus": {"number": 0}, "devices": [
			{"bus": 1, "slot": 0, "function": 0, "class_info": {"desc": "SCSI controller"}, "qdev_id": "h0-0000000-late"}]}},
	{"bus": 0, "slot": 15, "function": 0, "class_info": {"desc": "SCSI controller"}, "qdev_id": "disk0"},
	{"bus": 0, "slot": 16, "function": 0, "class_info": {"desc": "SCSI controller"}, "qdev_id": "disk1"}]}]`

func inputOf(t *testing.T) hardware.Input {
	t.Helper()
	functions, err := hardware.ParsePCI([]byte(pci))
	require.NoError(t, err)
	return hardware.Input{
		Plan: planOf(t, section), MACs: []string{mac1, mac2}, PCI: functions,
		Attached: []hardware.Attachment{{ID: "h0-0000000-late", Serial: "late", Index: 3}},
		Place: func(field string, attached bool) string {
			if attached {
				return "now.yaml:1"
			}
			return "vm.yaml:" + field
		},
	}
}

// one returns the only device with a name.
func one(t *testing.T, r hardware.Report, word string) hardware.Device {
	t.Helper()
	found, err := r.Find(word)
	require.NoError(t, err)
	require.Len(t, found, 1, word)
	return found[0]
}

// Without an agent, names follow from the topology.
func TestDevicesWithoutAnAgent(t *testing.T) {
	t.Parallel()
	r := hardware.New(inputOf(t))
	require.False(t, r.Agent)
	for word, want := range map[string]string{
		"/dev/vda": "disk0", "vdb": "disk1", "/dev/vdb3": "disk1", "vdc": "h0-0000000-late", "first": "disk0",
		"00:0f.0": "disk0", "0000:00:10.0": "disk1", "0:f.0": "disk0", "disk1": "disk1", "01:00.0": "h0-0000000-late",
		"eth0": "nic0", "eth1": "nic1", "enp0s8": "nic1", "52-54-00-00-00-02": "nic1", strings.ToUpper(mac1): "nic0",
		"late": "h0-0000000-late",
	} {
		require.Equal(t, want, one(t, r, word).ID, word)
	}
	d := one(t, r, "vdb")
	require.Equal(t, "vm.drives[1]", d.Field)
	require.Equal(t, "vm.yaml:vm.drives[1]", d.Place)
	require.Equal(t, "virtio-blk-pci", d.Driver)
	require.Contains(t, d.Lines[0].Text, "-device virtio-blk-pci,id=disk1")
	require.Contains(t, d.Lines[0].Origin, "@vmtypes//lib/disks.star:")
	require.Contains(t, d.Lines[1].Text, "-blockdev ")
	require.Contains(t, d.Lines[2].Text, "/b.img")

	require.Equal(t, "vm.network[1]", one(t, r, "eth1").Field)
	require.Contains(t, one(t, r, "eth1").Lines[1].Text, "-netdev user")
	late := one(t, r, "vdc")
	require.Equal(t, []any{"vm.drives[3]", "now.yaml:1", true}, []any{late.Field, late.Place, late.Attached})
	require.Contains(t, late.Lines[0].Text, "rule disks driver=virtio-blk-pci")
	require.NotEmpty(t, late.Lines[0].Origin)
	bridge := one(t, r, "00:00.0")
	require.Equal(t, "host bridge", bridge.Driver)
	require.Contains(t, bridge.Lines[0].Text, "-machine q35")

	for word, want := range map[string]string{
		"/dev/vdd": "did you mean /dev/vd", "eth7": "did you mean eth", "": "list the devices", "00:ff.0": "no device",
		"nonsense": `the machine has no device "nonsense"; list the devices to see their names`,
	} {
		_, err := r.Find(word)
		require.ErrorContains(t, err, want, word)
	}
}

// The agent's names win: here the guest has found the second disk first, and renamed a card.
func TestDevicesWithAnAgent(t *testing.T) {
	t.Parallel()
	in := inputOf(t)
	in.Guest = &hardware.Guest{
		Cards: []hardware.Card{{Name: "lan", MAC: mac2}, {Name: "other", MAC: "02:00:00:00:00:00"}},
		Disks: []hardware.Disk{
			{Name: "/dev/vda", PCI: "0000:00:10.0"},
			{Name: "/dev/vdb", Serial: "first"},
			{Name: "/dev/dm-0"},
			{Name: "/dev/sda", PCI: "0000:00:1f.2"},
		},
		Mounts: []hardware.Mount{
			{Point: "/", Disk: hardware.Disk{Name: "/dev/vda1", PCI: "0000:00:10.0"}},
			{Point: "/home", Disk: hardware.Disk{Name: "/dev/vdb2"}},
			{Point: "/far", Disk: hardware.Disk{Name: "/dev/sdb"}},
		},
	}
	r := hardware.New(in)
	require.True(t, r.Agent)
	for word, want := range map[string]string{
		"/dev/vda": "disk1", "vdb": "disk0", "/": "disk1", "/home": "disk0", "lan": "nic1", "eth0": "nic0",
		"first": "disk0",
	} {
		require.Equal(t, want, one(t, r, word).ID, word)
	}
	for _, word := range []string{"/dev/vdc", "/far", "other", "dm-0", "sda"} {
		_, err := r.Find(word)
		require.Error(t, err, word)
	}
}

// Disks behind one controller are distinguished by their serial numbers, or by target and unit.
func TestDisksBehindAController(t *testing.T) {
	t.Parallel()
	in := hardware.Input{Plan: &plan.Plan{QEMU: plan.Process{Args: []plan.Option{
		device("virtio-scsi-pci", "id", "scsi"),
		device("scsi-hd", "id", "a", "bus", "scsi.0", "scsi-id", "0", "lun", "1"),
		device("scsi-hd", "id", "b", "bus", "scsi.0", "scsi-id", "0", "lun", "2"),
	}}}, PCI: []hardware.Function{{Address: "0000:00:17.0", ID: "scsi"}}}
	in.Guest = &hardware.Guest{Disks: []hardware.Disk{
		{Name: "/dev/sda", PCI: "0000:00:17.0", Unit: 2},
		{Name: "/dev/sdb", PCI: "0000:00:17.0", Unit: 1},
		{Name: "/dev/sdc", PCI: "0000:00:17.0", Unit: 7},
	}}
	r := hardware.New(in)
	require.Equal(t, "b", one(t, r, "sda").ID)
	require.Equal(t, "scsi", one(t, r, "sda").Behind)
	require.Equal(t, "a", one(t, r, "sdb").ID)
	_, err := r.Find("sdc")
	require.Error(t, err)
}

func device(driver string, properties ...string) plan.Option {
	o := plan.Option{Flag: "-device", Value: driver, List: true}
	for i := 0; i < len(properties); i += 2 {
		o.Properties = append(o.Properties, plan.Property{Key: properties[i], Value: properties[i+1]})
	}
	return o
}

// The 28th disk is vdab.
func TestManyDisks(t *testing.T) {
	t.Parallel()
	in := hardware.Input{Plan: &plan.Plan{}}
	for i := range 28 {
		id := "d" + string(rune('A'+i))
		in.Plan.QEMU.Args = append(in.Plan.QEMU.Args, device("virtio-blk-pci", "id", id))
		in.PCI = append(in.PCI, hardware.Function{Address: "0000:01:" + []string{"0", "1"}[i/16] +
			string("0123456789abcdef"[i%16]) + ".0", ID: id})
	}
	r := hardware.New(in)
	require.Equal(t, "dA", one(t, r, "vda").ID)
	require.Equal(t, "dZ", one(t, r, "vdz").ID)
	require.Equal(t, in.PCI[27].ID, one(t, r, "vdab").ID)
}
