package compare

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/plan"
)

// aligned returns, for each option of a command line, the option with its new ids and the option of the plan with the
// same role.
func aligned(t *testing.T, have, want string) string {
	t.Helper()
	options := func(text string) (list []plan.Option) {
		for line := range strings.Lines(text) {
			flag, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			list = append(list, plan.Option{Flag: flag, Value: value}.Structured())
		}
		return list
	}
	side := options(have)
	a := Align(side, options(want))
	var b strings.Builder
	for i := range a.Options {
		b.WriteString(strings.Join(a.Options[i].Words(descriptorName), " ") + " = ")
		if h := a.Partner[i]; h >= 0 {
			b.WriteString(strings.Join(side[h].Words(descriptorName), " "))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Devices match by driver and then by kind, and their backends follow, whatever their ids and their order are.
func TestAlign(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ have, want, result string }{
		"order and ids": {
			"-netdev user,id=net0\n-device virtio-net-pci,id=nic0,netdev=net0\n-device usb-tablet,id=tablet0",
			"-device usb-tablet\n-device virtio-net,netdev=x\n-netdev user,id=x",
			"-device usb-tablet,id=tablet0 = -device usb-tablet,id=tablet0\n" +
				"-device virtio-net,netdev=net0,id=nic0 = -device virtio-net-pci,id=nic0,netdev=net0\n" +
				"-netdev user,id=net0 = -netdev user,id=net0\n",
		},
		"another driver of the same kind": {
			"-device virtio-vga,id=video0", "-device VGA",
			"-device VGA,id=video0 = -device virtio-vga,id=video0\n",
		},
		"the more similar device": {
			"-device virtio-blk-pci,id=a,serial=one\n-device virtio-blk-pci,id=b,serial=two",
			"-device virtio-blk-pci,serial=two\n-device virtio-blk-pci,serial=one",
			"-device virtio-blk-pci,serial=two,id=b = -device virtio-blk-pci,id=b,serial=two\n" +
				"-device virtio-blk-pci,serial=one,id=a = -device virtio-blk-pci,id=a,serial=one\n",
		},
		"ports with different names": {
			"-device virtserialport,id=channel0,name=org.qemu.guest_agent.0",
			"-device virtserialport,name=com.redhat.spice.0",
			"-device virtserialport,name=com.redhat.spice.0 = \n",
		},
		"the same id for something else": {
			"-device qemu-xhci,id=usb", "-device usb-ehci,id=usb\n-device usb-kbd,bus=usb.0",
			"-device usb-ehci,id=usb-2 = \n-device usb-kbd,bus=usb-2.0 = \n",
		},
		"block nodes of a disk": {
			"-blockdev driver=file,node-name=disk0-file\n-blockdev driver=raw,node-name=disk0,file=disk0-file\n" +
				"-device virtio-blk-pci,id=d,drive=disk0",
			"-blockdev driver=file,node-name=x\n-blockdev driver=qcow2,node-name=y,file=x\n" +
				"-device virtio-blk-pci,drive=y",
			"-blockdev driver=file,node-name=disk0-file = -blockdev driver=file,node-name=disk0-file\n" +
				"-blockdev driver=qcow2,node-name=disk0,file=disk0-file = " +
				"-blockdev driver=raw,node-name=disk0,file=disk0-file\n" +
				"-device virtio-blk-pci,drive=disk0,id=d = -device virtio-blk-pci,id=d,drive=disk0\n",
		},
		"memory of the machine": {
			"-machine q35,memory-backend=pc.ram\n-object memory-backend-ram,id=pc.ram",
			"-object memory-backend-memfd,id=mem\n-machine q35,memory-backend=mem",
			"-object memory-backend-memfd,id=pc.ram = -object memory-backend-ram,id=pc.ram\n" +
				"-machine q35,memory-backend=pc.ram = -machine q35,memory-backend=pc.ram\n",
		},
		"options without an id": {
			"-global a.b=1\n-global c.d=2\n-rtc base=utc", "-rtc base=localtime\n-global c.d=3",
			"-rtc base=localtime = -rtc base=utc\n-global c.d=3 = -global c.d=2\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.result, aligned(t, test.have, test.want))
		})
	}
}
