package plan_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/test/tier"
	"vmop/vmtypes/plan"
)

// refusedMachines are the beginnings of command lines; the rest follows the colon.
var refusedMachines = map[string]string{
	"q35": "x86_64 -machine q35", "pc": "x86_64 -machine pc", "isapc": "x86_64 -machine isapc -cpu 486",
	"microvm": "x86_64 -machine microvm", "virt": "aarch64 -machine virt", "none": "x86_64 -machine none",
	"q35,usb": "x86_64 -machine q35,usb=on", "q35,sata": "x86_64 -machine q35,sata=off",
	"q35,ram": "x86_64 -machine q35,memory-backend=ram",
}

// refused are options that QEMU refuses, with a part of the error message.
var refused = []struct{ options, want string }{
	{
		"q35: -device virtio-rng-pci,id=a,addr=5 -device virtio-balloon-pci,id=b,addr=0x5",
		"-device virtio-balloon-pci,id=b: addr=0x5 of the bus pcie.0 is already taken by -device virtio-rng-pci,id=a " +
			"(made at x.star:1 launch); use another addr\n    made at x.star:2 launch",
	},
	{"q35: -device virtio-rng-pci -device virtio-balloon-pci,addr=0x1", "addr=0x1 of the bus pcie.0 is already taken"},
	{"q35: -device e1000e,addr=0x1f.0x2", "addr=0x1f.0x2 of the bus pcie.0 is already taken by a device of the machine"},
	{"pc: -device e1000,addr=1.1", "already taken by a device of the machine"},
	{"q35,usb: -device e1000e,addr=1d", "addr=0x1d of the bus pcie.0 is already taken by a device of the machine"},
	{"virt: -device e1000e,addr=0", "addr=0x0 of the bus pcie.0 is already taken by a device of the machine"},
	{"q35: -device e1000e,addr=0x20", "addr=0x20 must be a slot"},
	{"q35: -device e1000e,addr=1.8", "addr=1.8 must be a slot"},
	{"q35: -device e1000e,addr=x", "addr=x must be a slot"},
	{"q35: -device virtio-rng-pci,addr=5 -device e1000e,addr=5.1", "which has no multifunction=on; add it there"},
	{"q35: -device virtio-rng-pci,addr=5.1 -device e1000e,addr=5", "add multifunction=on"},
	{"q35: -device virtio-rng-pci,addr=0.1", "is another function of a device of the machine"},
	{"q35: -device pcie-root-port,id=p,chassis=1 -device e1000e,bus=p -device e1000e,bus=p,addr=0", "addr=0x0 of the bus p"},
	{"q35: -device pcie-root-port,id=a -device pcie-root-port,id=b", "chassis=0,slot=0 is already taken by"},
	{
		"q35: -device pcie-root-port,id=a,chassis=3 -device ioh3420,id=b,chassis=3", "chassis=3,slot=0 is already taken by",
	},
	{"q35: -device pcie-root-port,chassis=256", "chassis=256 must be a whole number, 0 to 255"},
	{"q35: -device e1000e,bus=pci.0", "bus=pci.0, but there is no bus with that name (did you mean pcie.0?)"},
	{"q35: -device qemu-xhci,id=usb -device usb-kbd,bus=usb1.0", "no bus with that name (did you mean usb.0?)"},
	{"q35: -device qemu-xhci,id=usb -device usb-kbd,bus=usb", "bus=usb, but there is no bus with that name"},
	{
		"q35: -device usb-kbd,bus=usb.0 -device qemu-xhci,id=usb",
		"-device qemu-xhci,id=usb (made at x.star:2 launch) makes the bus later; move it up",
	},
	{"q35: -device usb-kbd", "the device needs a USB bus, and the machine q35 has none; add a controller before it"},
	{"q35: -device scsi-cd", "the device needs a SCSI bus, and no option before it makes one"},
	{"q35: -device virtserialport", "the device needs a virtio serial bus"},
	{"q35: -device hda-duplex", "the device needs a HDA bus"},
	{"q35: -device virtio-rng-device", "the device needs a virtio-mmio bus, and the machine q35 has none"},
	{"q35: -device virtio-scsi-pci,id=s -device usb-kbd,bus=s.0", "bus=s.0 is a SCSI bus, but the device needs a USB bus"},
	{"q35,sata: -device ide-cd,bus=ide.0", "there is no bus with that name"},
	{"q35,sata: -device ide-cd", "the device needs an IDE bus"},
	{"microvm: -device virtio-rng-pci", "the device needs a PCI bus, and the machine microvm has none; set pcie=on"},
	{"isapc: -device e1000", "the device needs a PCI bus, and the machine isapc has none"},
	{"virt: -device isa-serial", "the device needs an ISA bus, and the machine virt has none"},
	{
		"microvm: -device virtio-rng-device,bus=virtio-mmio-bus.3 -device virtio-balloon-device,bus=virtio-mmio-bus.3",
		"the only place of the bus virtio-mmio-bus.3 is already taken by -device virtio-rng-device",
	},
	{"microvm: -device virtio-rng-device,bus=virtio-mmio-bus.24", "there is no bus with that name"},
	{"virt: -device virtio-rng-device,bus=virtio-mmio-bus.32", "there is no bus with that name"},
	{
		"q35: -device virtio-scsi-pci,id=s -device scsi-cd,bus=s.0,scsi-id=1,lun=0 -device scsi-cd,bus=s.0,scsi-id=1,lun=0",
		"channel=0,scsi-id=1,lun=0 of the bus s.0 is already taken by",
	},
	{"q35: -device virtio-scsi-pci,id=s -device scsi-cd -device scsi-cd,bus=s.0,scsi-id=0,lun=0", "already taken by"},
	{"q35: -device ide-cd,bus=ide.1 -device ide-cd,bus=ide.1", "unit=1, but the last unit of the bus ide.1 is 0, taken by"},
	{"pc: -device ide-cd,bus=ide.0,unit=1 -device ide-cd,bus=ide.0,unit=1", "unit=1 of the bus ide.0 is already taken by"},
	{"pc: -device ide-cd,bus=ide.0 -device ide-cd,bus=ide.0 -device ide-cd,bus=ide.0", "unit=1 of the bus ide.0 is already"},
	{
		"q35: -device virtio-serial-pci,id=s -device virtserialport,nr=2,bus=s.0 -device virtserialport,nr=2,bus=s.0",
		"nr=2 of the bus s.0 is already taken by -device virtserialport",
	},
	{"q35: -device virtio-serial-pci -device virtserialport -device virtserialport,nr=1", "nr=1 is already taken by"},
	{"q35: -device virtio-serial-pci -device virtserialport,nr=0", "nr=0 is only for a virtconsole"},
	{"q35: -device virtio-serial-pci,max_ports=4 -device virtserialport,nr=4", "nr=4, but the last port is 3"},
	{
		"q35: -device virtio-serial-pci -device virtserialport,name=a -device virtserialport,name=a",
		"name=a is already taken by -device virtserialport",
	},
	{"q35: -device qemu-xhci -device usb-kbd,port=1 -device usb-tablet,port=1", "port=1 is already taken by -device usb-kbd"},
	{"q35: -device qemu-xhci -device usb-kbd -device usb-tablet,port=1", "port=1 is already taken by -device usb-kbd"},
	{"q35: -device qemu-xhci,id=u,p2=8,p3=8 -device usb-kbd,port=9", "port=9, but the ports of the bus u.0 are 1 to 8"},
	{"pc: -device piix3-usb-uhci,id=u -device usb-kbd,port=3", "port=3, but the ports of the bus u.0 are 1 to 2"},
	{"q35: -device usb-ehci,id=u -device usb-tablet,port=7", "port=7, but the ports of the bus u.0 are 1 to 6"},
	{"q35: -device pci-ohci,id=u -device usb-kbd,port=4", "port=4, but the ports of the bus u.0 are 1 to 3"},
	{
		"q35: -device ich9-usb-uhci1,masterbus=u.0,firstport=0",
		"masterbus=u.0, but there is no bus with that name",
	},
	{"q35: -device e1000e,bootindex=1 -device virtio-net-pci,bootindex=1", "bootindex=1 is already taken by -device e1000e"},
	{"q35: -device e1000e,bootindex=first", "bootindex=first must be a whole number"},
	{"q35: -device e1000e,mac=52:54:00:12:34", "mac=52:54:00:12:34 must be six bytes in hexadecimal"},
	{"q35: -device e1000e,multifunction=maybe", "multifunction=maybe must be on or off"},
	{"q35: -m 1_GiB", "-m 1 GiB must be a number of bytes below 2^64"},
	{"q35: -m 1GiB", "must be a number of bytes below 2^64"},
	{"q35: -m 1237940039285380274899124224", "must be a number of bytes below 2^64"},
	{"q35: -m 17592186044416", "17592186044416 MiB is too much"},
	{"q35: -m 512M,maxmem=256M,slots=1", "maxmem=256M is less than the size, 512M"},
	{"q35: -m 64M,slots=many,maxmem=1G", "slots=many must be a whole number"},
	{"q35: -object memory-backend-ram,id=r,size=1GiB", "size=1GiB must be a number of bytes below 2^64"},
	{"q35: -object memory-backend-ram,id=r,size=1M,share=perhaps", "share=perhaps must be on or off"},
	{"q35,ram: -m 64M -object memory-backend-ram,id=ram,size=32M", "size=32M, but the machine's memory is 67108864 bytes by -m 64M (made at x.star:1"},
	{"q35: -device virtio-scsi-pci -device scsi-cd,scsi-id=-1", "scsi-id=-1 must be a whole number, 0 to 4294967295"},
	{"pc: -device ide-cd,unit=-1", "unit=-1 must be a whole number, 0 to 4294967295"},
	{"q35: -device virtio-serial-pci -device virtserialport,nr=-1", "nr=-1 must be a whole number, 0 to 4294967295"},
	{"q35: -smp 4,maxcpus=2", "cpus=4 is more than maxcpus=2"},
	{"q35: -smp four", "-smp four must be a whole number"},
	{"q35: -blockdev null-co,node-name=a,read-only=perhaps", "read-only=perhaps must be on or off"},
	{"q35: -blockdev null-co,node-name=a,size=1GiB", "size=1GiB must be a number of bytes"},
	{"q35: -chardev socket,id=a,path=/run/x,server=maybe", "server=maybe must be on or off"},
	{"q35: -chardev null,id=0a", `"0a" cannot be an id`},
	{"q35: -device e1000e,id=a/b", `"a/b" cannot be an id`},
	{"q35: -object iothread,id=a+b", `"a+b" cannot be an id`},
	{"q35: -chardev null,id=ä", "cannot be an id"},
	{"q35: -blockdev null-co,node-name=1", `"1" cannot be an id`},
	{"q35: -drive id=_,if=none,file=null-co://,format=raw", `"_" cannot be an id`},
	{
		"q35: -netdev user,id=n -device e1000e,netdev=n -device rtl8139,netdev=n",
		"-device rtl8139: netdev=n is already used by -device e1000e (made at x.star:2 launch); give each its own netdev",
	},
	{"q35: -chardev null,id=c -device isa-serial,chardev=c -device isa-serial,chardev=c", "chardev=c is already used by"},
	{"q35: -chardev null,id=c -serial chardev:c -device isa-serial,chardev=c", "chardev=c is already used by -serial"},
	{
		"q35: -m 64,slots=2,maxmem=1G -object memory-backend-ram,id=m,size=64M -device pc-dimm,memdev=m " +
			"-device pc-dimm,memdev=m", "memdev=m is already used by -device pc-dimm",
	},
	{"q35,ram: -object memory-backend-ram,id=ram,size=64M -device ivshmem-plain,memdev=ram", "memdev=ram is already used by"},
	{"q35: -serial chardev:consol -chardev null,id=console", "there is no chardev of that name (did you mean console?)"},
	{"q35: -device virtio-blk-pci,drive=disk0 -blockdev null-co,node-name=disk-0", "(did you mean disk-0?)"},
}

// The real QEMU refuses what Check refuses.
func TestQEMURefusesWhatCheckRefuses(t *testing.T) {
	t.Parallel()
	for i, c := range refused {
		t.Run(c.want, func(t *testing.T) {
			t.Parallel()
			p := parsePlan(t, c.options)
			require.Contains(t, faults(p), c.want, c.options)
			if i%8 != 0 {
				tier.Deep(t)
			}
			require.NotEmpty(t, refusal(t, p), "QEMU accepts %s", c.options)
		})
	}
}

// accepted are options that QEMU accepts, near those that it refuses.
var accepted = []string{
	"q35: -device virtio-rng-pci,addr=5,multifunction=on -device virtio-balloon-pci,addr=5.1 -device e1000e,addr=5.7",
	"q35: -device virtio-rng-pci,addr=5.1 -device virtio-balloon-pci,addr=5.2",
	"q35: -device virtio-rng-pci,addr=2 -device e1000e -device e1000e -device e1000e",
	"q35: -device pcie-root-port,id=a,chassis=1 -device pcie-root-port,id=b,chassis=1,slot=1 -device e1000e,bus=b",
	"q35: -device pcie-root-port,chassis=1 -device e1000e,bus=pcie.0",
	"q35: -device pcie-root-port,chassis=1 -device pcie-pci-bridge,id=b -device e1000,bus=b,addr=1",
	"q35: -device qemu-xhci -device usb-kbd,bus=usb-bus.0",
	"q35: -device qemu-xhci,p2=15,p3=15 -device usb-kbd,port=15 -device usb-hub -device usb-tablet,port=1.1",
	"q35: -device ich9-usb-ehci1,id=u,addr=9.7,multifunction=on " +
		"-device ich9-usb-uhci1,masterbus=u.0,firstport=0,addr=9,multifunction=on -device usb-kbd",
	"q35,usb: -device usb-kbd,bus=usb-bus.0 -device usb-tablet",
	"q35: -device ahci,id=sata -device ide-cd,bus=sata.5 -device ide-cd,bus=ide.5",
	"q35: -device virtio-scsi-pci,id=s -device scsi-cd -device scsi-cd -device scsi-cd,scsi-id=255,lun=1",
	"q35: -device virtio-serial-pci,id=a -device virtio-serial-pci,id=b " +
		"-device virtserialport,nr=1,bus=a.0 -device virtserialport,nr=1,bus=b.0",
	"q35: -device virtio-serial-pci -device virtserialport -device virtserialport,nr=2 -chardev null,id=n " +
		"-device virtconsole,chardev=n",
	"q35: -device nvme-subsys,id=n -device nvme,serial=x,subsys=n",
	"q35: -device pxb-pcie,id=x,bus_nr=8 -device pcie-root-port,bus=x,chassis=7,id=p -device e1000e,bus=p",
	"q35: -device {\"driver\":\"virtio-rng-pci\",\"addr\":\"6\"} -device e1000e,addr=5",
	"q35: -global e1000e.multifunction=on -device e1000e,addr=5 -device e1000e,addr=5.1",
	"q35: -device e1000e,bootindex=-1 -device virtio-net-pci,bootindex=-1 -device rtl8139,bootindex=0x1",
	"q35: -device e1000e,mac=52-54-00-aB-Cd-eF",
	"q35: -m 0x40", "q35: -m 64.5M", "q35: -m 65536k", "q35: -m size=64,maxmem=0x10000000,slots=2",
	"q35,ram: -m 64 -object memory-backend-ram,id=ram,size=64M",
	"q35,ram: -object memory-backend-ram,id=ram,size=0x4000000",
	"q35: -netdev stream,id=0a,server=off,addr.type=inet,addr.host=127.0.0.1,addr.port=9 -audiodev none,id=0a",
	"q35: -smp 2", "q35: -smp 2,maxcpus=0", "q35: -smp 2,maxcpus=4",
	"q35: -object memory-backend-ram,id=r,size=1.5M,share=y",
	"q35: -device ramfb -device pvpanic -device isa-serial -device intel-iommu -device vmcoreinfo -device vmgenid",
	"q35: -chardev null,id=c,mux=on -device isa-serial,chardev=c -device isa-serial,chardev=c -serial chardev:c",
	"q35: -object rng-builtin,id=r -device virtio-rng-pci,rng=r -device virtio-rng-pci,rng=r",
	"q35: -object iothread,id=i -device virtio-scsi-pci,iothread=i -device virtio-scsi-pci,iothread=i",
	"q35: -netdev user,id=n -device e1000e,netdev=n -object filter-buffer,id=f,netdev=n,interval=1",
	"q35: -serial null", "pc: -device ide-cd,bus=ide.0 -device ide-cd,bus=ide.0 -device ide-cd,bus=ide.1,unit=1",
	"pc: -device e1000,addr=1.2 -device piix3-usb-uhci,id=u -device usb-kbd,bus=u.0,port=2",
	"microvm: -device virtio-scsi-device,id=s -device scsi-cd,bus=s.0 -device virtio-rng-device,bus=virtio-mmio-bus.7",
	"isapc: -device ne2k_isa -device ide-cd,bus=ide.1", "none: -object iothread,id=a",
	"virt: -device virtio-rng-device -device e1000e -device virtio-balloon-device,bus=virtio-mmio-bus.3",
	"virt: -device qemu-xhci -device usb-kbd -device usb-tablet -device ramfb",
}

// Check accepts what the real QEMU accepts.
func TestCheckAcceptsWhatQEMUAccepts(t *testing.T) {
	t.Parallel()
	for i, options := range accepted {
		t.Run(options, func(t *testing.T) {
			t.Parallel()
			p := parsePlan(t, options)
			require.Empty(t, faults(p))
			if i%8 != 0 {
				tier.Deep(t)
			}
			require.Empty(t, refusal(t, p))
		})
	}
}

// parsePlan returns the plan of a machine with options; option number n, from 1, is made in line n. 1_GiB is
// 1 GiB.
func parsePlan(t *testing.T, text string) *plan.Plan {
	t.Helper()
	name, rest, _ := strings.Cut(text, ": ")
	begin, known := refusedMachines[name]
	require.True(t, known, name)
	architecture, begin, _ := strings.Cut(begin, " ")
	p := &plan.Plan{Type: "test", QEMU: plan.Process{Name: "qemu", Executable: "/usr/bin/qemu-system-" + architecture}}
	add := func(words []string, at func(int) plan.Origin) {
		for i := 0; i < len(words); i += 2 {
			value := strings.ReplaceAll(words[i+1], "_GiB", " GiB")
			p.QEMU.Args = append(p.QEMU.Args, plan.Option{Flag: words[i], Value: value, Origin: at(i)})
		}
	}
	add(strings.Fields(begin), func(int) plan.Origin { return nil })
	add(strings.Fields(rest), func(i int) plan.Origin {
		return plan.Origin{{File: "x.star", Line: i/2 + 1, Function: "launch"}}
	})
	return p
}

// refusal starts QEMU with a paused machine. It returns QEMU's error message, or "" if QEMU accepts the machine.
func refusal(t *testing.T, p *plan.Plan) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	args := strings.Fields("-nodefaults -no-user-config -display none -S -qmp stdio")
	args = append(args, p.QEMU.Argv()...)
	cmd := exec.CommandContext(ctx, p.QEMU.Executable, args...)
	cmd.Stdin = strings.NewReader(`{"execute":"qmp_capabilities"}{"execute":"quit"}`)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		require.NoError(t, ctx.Err())
		require.NotEmpty(t, stderr.String())
		return stderr.String()
	}
	return ""
}

// QEMU refuses each text that has not the form of its property.
func TestFormsOfValuesAreQEMUs(t *testing.T) {
	t.Parallel()
	tier.Deep(t)
	texts := []string{
		"", "0", "-1", "ON", "yes", "1e3", "1.5M", "1GiB", "1_GiB", "0x1g", "0X4E", "08", "010", "+1", "1B", "nan",
		"1,5",
		"18446744073709551615", "18446744073709551616", "2147483648", "65536", "52:54:00:12:34:56", "52:54:00:12:34:5g",
	}
	for _, form := range []string{
		"-m @", "-m 64,maxmem=@,slots=2", "-m 64,slots=@,maxmem=128M", "-smp @", "-smp 1,maxcpus=@", "-smp 1,threads=@",
		"-object memory-backend-ram,id=r,size=@", "-object memory-backend-ram,id=r,size=1M,share=@",
		"-object memory-backend-ram,id=r,size=1M,prealloc=@", "-blockdev null-co,node-name=a,read-only=@",
		"-blockdev null-co,node-name=a,cache.direct=@", "-blockdev null-co,node-name=a,size=@",
		"-blockdev raw,node-name=a,file.driver=null-co,offset=@", "-chardev socket,id=a,host=127.0.0.1,port=0,server=@",
		"-chardev socket,id=a,host=127.0.0.1,port=0,server=on,wait=off,nodelay=@", "-device e1000e,mac=@",
		"-device e1000e,multifunction=@", "-device e1000e,bootindex=@", "-device pcie-root-port,chassis=@",
		"-device pcie-root-port,slot=@", "-device e1000e,addr=@", "-device virtio-scsi-pci -device scsi-cd,scsi-id=@",
		"-device virtio-scsi-pci -device scsi-cd,lun=@", "-device ide-cd,bus=ide.0,unit=@",
		"-device virtio-serial-pci -device virtserialport,nr=@", "-device qemu-xhci -device usb-kbd,port=@",
	} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			for _, text := range texts {
				if text == "" && strings.HasSuffix(form, " @") {
					continue
				}
				p := parsePlan(t, "q35: "+strings.ReplaceAll(form, "@", text))
				if found := faults(p); found != "" {
					require.NotEmpty(t, refusal(t, p), "QEMU accepts %q in %s: %s", text, form, found)
				}
			}
		})
	}
}
