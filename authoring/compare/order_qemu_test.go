package compare

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/qemuopt"
)

// The real QEMU assigns the same slots as this package.
func TestSlotsAreThoseOfQEMU(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]string{
		"q35": `-machine q35
			-device virtio-rng-pci,id=a
			-device virtio-balloon-pci,id=b,addr=0x2
			-device qemu-xhci,id=c
			-device i6300esb,id=d
			-device pcie-root-port,id=port0,addr=0x1c,multifunction=on,chassis=1
			-device pcie-root-port,id=port1,addr=0x1c.0x1,chassis=2
			-device e1000e,id=e,bus=port0,mac=52:54:00:00:00:01
			-device e1000,id=f,mac=52:54:00:00:00:02
			-device nvme,id=g,serial=x
			-device usb-tablet,id=h
			-device virtio-vga,id=i
			-device virtio-serial-pci,id=j
			-device virtserialport,id=k
			-device pvpanic,id=l
			-device virtio-scsi-pci,id=m,bus=pcie.0
			-device scsi-cd,id=n
			-device intel-iommu`,
		"pc": `-machine pc
			-device virtio-rng-pci,id=a
			-device rtl8139,id=b,mac=52:54:00:00:00:01
			-device AC97,id=c
			-device cirrus-vga,id=d
			-device lsi53c895a,id=e
			-device virtio-balloon-pci,id=f,addr=0x9
			-device ich9-intel-hda,id=g
			-device hda-duplex,id=h
			-device isa-serial,id=i`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := read(options)
			want := map[string]int{}
			for o, g := range newSide(p).orders {
				if slot, _, ok := parseAddress(g["addr"]); ok && g["addr"] != "" {
					want[o.ID()] = slot
				}
			}
			got := slotsOf(t, p.QEMU.Argv())
			require.GreaterOrEqual(t, len(want), 6)
			for id, slot := range want {
				require.Equal(t, slot, got[id], "%s", id)
			}
			for id := range got {
				o := newSide(p).made["-device "+id]
				require.True(t, qemuopt.IsPCI(o.Value), "%s is on the PCI bus", o.Value)
			}
		})
	}
}

// slotsOf returns the slots of QEMU's devices.
func slotsOf(t *testing.T, argv []string) map[string]int {
	t.Helper()
	qemu, err := exec.LookPath("qemu-system-x86_64")
	require.NoError(t, err, "install the package qemu-system-x86")
	cmd := exec.CommandContext(t.Context(), qemu,
		append(argv, "-nodefaults", "-display", "none", "-S", "-qmp", "stdio")...)
	cmd.Stdin = strings.NewReader(`{"execute":"qmp_capabilities"}{"execute":"query-pci"}{"execute":"quit"}`)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "%s", &stderr)
	type device struct {
		ID     string `json:"qdev_id"`
		Slot   int
		Bridge *struct{ Devices []device } `json:"pci_bridge"`
	}
	found := map[string]int{}
	var note func(device)
	note = func(d device) {
		if d.ID != "" {
			found[d.ID] = d.Slot
		}
		if d.Bridge != nil {
			for _, behind := range d.Bridge.Devices {
				note(behind)
			}
		}
	}
	for line := range strings.Lines(string(out)) {
		var answer struct{ Return []struct{ Devices []device } }
		if json.Unmarshal([]byte(line), &answer) != nil {
			continue // a greeting or an event
		}
		for _, bus := range answer.Return {
			for _, d := range bus.Devices {
				note(d)
			}
		}
	}
	return found
}
