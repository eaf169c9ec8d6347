package plans

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/hardware"
)

// The texts of why. Texts of the guest can't control the terminal.
func TestTextsOfWhy(t *testing.T) {
	t.Parallel()
	disk := hardware.Device{
		ID: "disk1", Driver: "virtio-blk-pci", PCI: "0000:00:10.0", Serial: "data", Names: []string{"/dev/vdb"},
		Mounts: []string{"/home", "/\x1b[2J"}, Field: "vm.drives[1]", Place: "vm.yaml:12",
		Lines: []hardware.Line{
			{Text: "-device virtio-blk-pci,id=disk1,drive=disk1-format", Origin: "@vmtypes//lib/disks.star:40 disk"},
			{Text: "-blockdev node-name=disk1-format,driver=raw"},
		},
	}
	late := hardware.Device{ID: "h0-0000000-late", Driver: "virtio-blk-pci", Field: "vm.drives[2]", Attached: true}
	var list, reasons strings.Builder
	require.NoError(t, PrintDevices(&list, hardware.Report{Devices: []hardware.Device{disk, late}}))
	require.Equal(t, `GUEST                  PCI       DEVICE           ID                CONFIGURATION
/dev/vdb /home /�[2J   00:10.0   virtio-blk-pci   disk1             vm.drives[1]
-                      -         virtio-blk-pci   h0-0000000-late   vm.drives[2]
The guest agent does not answer. The names are those that Linux usually gives.
`, list.String())
	require.NoError(t, PrintReasons(&reasons, hardware.Report{Devices: []hardware.Device{disk, late}, Agent: true}))
	require.Equal(t, `/dev/vdb
  names in the guest  /dev/vdb
  mounted at          /home, /�[2J
  PCI address         00:10.0
  serial number       data
  device              virtio-blk-pci disk1
  configuration       vm.drives[1] at vm.yaml:12
  -device virtio-blk-pci,id=disk1,drive=disk1-format
    # @vmtypes//lib/disks.star:40 disk
  -blockdev node-name=disk1-format,driver=raw

h0-0000000-late
  device              virtio-blk-pci h0-0000000-late
  attached            while the guest was running
  configuration       vm.drives[2]
`, reasons.String())
}
