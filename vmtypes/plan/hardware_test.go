package plan_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/test/tier"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// deviceOf is a device for each kind of bus, for probing the bus.
var deviceOf = map[qemuopt.BusKind]string{
	qemuopt.PCI: "edu", qemuopt.ISA: "pvpanic", qemuopt.USB: "usb-kbd", qemuopt.SCSI: "scsi-cd", qemuopt.IDE: "ide-cd",
	qemuopt.VirtioMMIO: "virtio-rng-device", qemuopt.VirtioSerial: "virtserialport", qemuopt.HDA: "hda-duplex",
}

// kindOfBus returns the kind of a bus by the type in QEMU's device tree.
func kindOfBus(typeName string) qemuopt.BusKind {
	switch typeName {
	case "PCIE", "CXL", "pxb-bus", "pxb-pcie-bus", "pxb-cxl-bus":
		return qemuopt.PCI
	case "virtio-mmio-bus":
		return qemuopt.VirtioMMIO
	case "virtio-pci-bus": // always full
		return ""
	}
	return qemuopt.BusKind(typeName)
}

// A tree contains the buses of a machine by their names, and the addresses on its first PCI bus.
type tree struct {
	buses map[string]qemuopt.BusKind
	addrs []string
}

var (
	busLine  = regexp.MustCompile(`(?m)^ *bus: (\S+)\n *type (\S+)$`)
	addrLine = regexp.MustCompile(`(?m)^ {8}addr = ([0-9a-f]+)\.([0-7])$`)
)

// treeOf returns the device tree of QEMU with the options of a plan; ok is false if QEMU refuses them.
func treeOf(t *testing.T, p *plan.Plan) (found tree, ok bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	args := append(strings.Fields("-nodefaults -no-user-config -display none -S -monitor stdio"), p.QEMU.Argv()...)
	cmd := exec.CommandContext(ctx, p.QEMU.Executable, args...)
	cmd.Stdin = strings.NewReader("info qtree\nquit\n")
	out, err := cmd.Output()
	require.NoError(t, ctx.Err())
	text := strings.ReplaceAll(string(out), "\r", "")
	found.buses = map[string]qemuopt.BusKind{}
	for _, m := range busLine.FindAllStringSubmatch(text, -1) {
		if kind := kindOfBus(m[2]); deviceOf[kind] != "" {
			found.buses[m[1]] = kind
		}
	}
	for _, m := range addrLine.FindAllStringSubmatch(text, -1) {
		slot, err := strconv.ParseInt(m[1], 16, 8)
		require.NoError(t, err)
		found.addrs = append(found.addrs, fmt.Sprintf("0x%x.%s", slot, m[2]))
	}
	return found, err == nil
}

// The table of machines has the buses and the devices of the real machines.
func TestMachinesAreQEMUs(t *testing.T) {
	t.Parallel()
	for _, machine := range []string{
		"q35", "q35,usb=on", "q35,sata=off,smbus=off", "pc", "pc,usb=on", "pc,acpi=off", "isapc", "microvm",
		"microvm,acpi=off", "microvm,ioapic2=off", "microvm,pcie=on,usb=on", "virt",
	} {
		t.Run(machine, func(t *testing.T) {
			t.Parallel()
			architecture := "x86_64"
			if machine == "virt" {
				architecture = "aarch64"
			}
			p := parsePlan(t, "q35: ")
			p.QEMU.Executable = "/usr/bin/qemu-system-" + architecture
			p.QEMU.Args[0].Value = machine
			if machine == "isapc" {
				p.QEMU.Args = append(p.QEMU.Args, plan.Option{Flag: "-cpu", Value: "486"})
			}
			found, ok := treeOf(t, p)
			require.True(t, ok)
			require.NotEmpty(t, found.buses)
			with := func(device string) string {
				q := *p
				q.QEMU.Args = append(slices.Clone(p.QEMU.Args), plan.Option{Flag: "-device", Value: device})
				return faults(&q)
			}
			names := strings.Fields("pci. pcie. isa. usb-bus. ide. virtio-mmio-bus. scsi.")
			for kind, device := range deviceOf {
				for n := range 40 {
					for _, name := range names {
						bus := fmt.Sprint(name, n)
						missing := strings.Contains(with(device+",bus="+bus), "there is no bus with that name")
						require.Equal(t, found.buses[bus] == "", missing, bus)
					}
				}
				has := slices.Contains(slices.Collect(maps.Values(found.buses)), kind)
				require.Equal(t, !has, strings.Contains(with(device), "the device needs"), device)
			}
			if len(found.addrs) == 0 {
				return
			}
			for slot := range 32 {
				for function := range 8 {
					addr := fmt.Sprintf("0x%x.%d", slot, function)
					taken := strings.Contains(with("edu,multifunction=on,addr="+addr), "is already taken by a device")
					require.Equal(t, slices.Contains(found.addrs, addr), taken, addr)
				}
			}
		})
	}
}

var helpLine = regexp.MustCompile(`name "([^"]+)"(?:, bus ([^,\n]+))?(?:, alias "([^"]+)")?`)

// helpOf returns the buses of QEMU's devices, and its aliases.
func helpOf(t *testing.T, architecture, machine string) map[string]qemuopt.BusKind {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "/usr/bin/qemu-system-"+architecture, "-machine", machine, "-device",
		"help").Output()
	require.NoError(t, err)
	devices := map[string]qemuopt.BusKind{}
	for _, m := range helpLine.FindAllStringSubmatch(string(out), -1) {
		for _, name := range []string{m[1], m[3]} {
			if name != "" {
				devices[name] = qemuopt.BusKind(m[2])
			}
		}
	}
	return devices
}

// The table of devices has the kinds of the real devices.
func TestBusesOfDevicesAreQEMUs(t *testing.T) {
	t.Parallel()
	for architecture, machine := range map[string]string{"x86_64": "q35", "aarch64": "virt"} {
		known := 0
		for name, kind := range helpOf(t, architecture, machine) {
			switch got := qemuopt.BusOf(name); {
			case deviceOf[kind] == "":
				require.Contains(t, []qemuopt.BusKind{"", qemuopt.OtherBus}, got, name)
			case got != "":
				known++
				require.Equal(t, kind, got, name)
			}
		}
		require.Greater(t, known, 150)
	}
}

// The real devices have the buses of the table behind them.
func TestControllersAreQEMUs(t *testing.T) {
	t.Parallel()
	tier.Deep(t)
	tried := 0
	for name, kind := range helpOf(t, "x86_64", "q35") {
		if kind := qemuopt.BusOf(name); kind == "" || kind == qemuopt.OtherBus {
			continue
		}
		for _, more := range []string{"", "serial=a,", "chassis_nr=1,", "chassis=1,"} {
			begin := "q35: "
			if kind != qemuopt.PCI && kind != qemuopt.ISA {
				begin += "-device qemu-xhci,id=u -device virtio-scsi-pci,id=s -device virtio-serial-pci,id=v "
			}
			p := parsePlan(t, begin+"-device "+name+","+more+"id=probe")
			found, ok := treeOf(t, p)
			if !ok {
				continue
			}
			tried++
			for bus, kind := range found.buses {
				if bus != "probe" && !strings.HasPrefix(bus, "probe.") {
					continue
				}
				with := parsePlan(t, begin+"-device "+name+","+more+"id=probe -device "+deviceOf[kind]+",bus="+bus)
				require.NotContains(t, faults(with), "bus="+bus, name)
			}
			controller := qemuopt.ControllerOf(name)
			for n := 0; controller != nil && n < controller.Buses; n++ {
				bus := fmt.Sprint("probe.", n)
				if controller.Bridge {
					bus = "probe"
				}
				require.Equal(t, controller.Kind, found.buses[bus], "%s %s", name, bus)
			}
			break
		}
	}
	require.Greater(t, tried, 80)
}

// Check refuses only machines with random devices that QEMU refuses.
func TestCheckRefusesOnlyWhatQEMURefuses(t *testing.T) {
	t.Parallel()
	refused, accepted, missed := 0, 0, 0
	for seed := range uint64(tier.Rounds(120)) {
		random := rand.New(rand.NewPCG(seed, seed))
		options := drawMachine(random)
		p := parsePlan(t, options)
		found := faults(p)
		switch said := refusal(t, p); {
		case said == "":
			accepted++
			require.Empty(t, found, "QEMU accepts %s (seed %d)", options, seed)
		case found == "":
			missed++
			t.Logf("Check accepts %s: %s", options, said)
		default:
			refused++
		}
	}
	t.Logf("refused by both: %d, accepted by both: %d, refused by QEMU only: %d", refused, accepted, missed)
}

// drawMachine returns a machine with random devices in random places.
func drawMachine(random *rand.Rand) string {
	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	maybe := func(text string, chance int) string {
		if random.IntN(100) < chance {
			return text
		}
		return ""
	}
	number := func(format string, n int) string { return fmt.Sprintf(format, random.IntN(n)) }
	name := pick("q35", "q35", "q35,usb", "pc", "microvm", "virt")
	buses := []string{}
	text := name + ":"
	if name != "microvm" {
		text += pick("", " -device qemu-xhci -device virtio-scsi-pci -device virtio-serial-pci")
	}
	for i := range 1 + random.IntN(5) {
		id := fmt.Sprint("d", i)
		onPCI := maybe(number(",addr=%x", 26), 60) + maybe(",multifunction=on", 20)
		device := ""
		switch random.IntN(12) {
		case 0, 1:
			device = pick("virtio-rng-pci", "edu", "virtio-balloon-pci", "e1000") + ",id=" + id +
				pick(number(",addr=%x", 26), number(",addr=%x", 8)+number(".%d", 3), "") +
				maybe(",multifunction=on", 30)
		case 2:
			device, buses = "qemu-xhci,id="+id+onPCI, append(buses, id+".0")
		case 3:
			device, buses = "virtio-scsi-pci,id="+id+onPCI, append(buses, id+".0")
		case 4:
			device, buses = "virtio-serial-pci,id="+id+onPCI, append(buses, id+".0")
		case 5:
			device, buses = "pcie-root-port,id="+id+onPCI+number(",chassis=%d", 9), append(buses, id)
		case 6:
			device = pick("usb-kbd", "usb-tablet") + maybe(number(",port=%d", 6), 50)
		case 7:
			device = "scsi-cd" + maybe(number(",scsi-id=%d", 5), 60) + maybe(number(",lun=%d", 2), 60)
		case 8:
			device = pick("virtserialport", "virtserialport", "virtconsole") + maybe(number(",nr=%d", 4), 60)
		case 9:
			device = "ide-cd" + number(",bus=ide.%d", 6) + maybe(number(",unit=%d", 2), 30)
		case 10:
			device = "e1000,id=" + id + maybe(number(",bootindex=%d", 4), 90) + onPCI
		case 11:
			device = pick("virtio-rng-device", "virtio-balloon-device") +
				maybe(number(",bus=virtio-mmio-bus.%d", 30), 70)
		}
		if len(buses) > 0 && random.IntN(3) == 0 && !strings.Contains(device, "bus=") {
			device += ",bus=" + pick(buses...)
		}
		text += " -device " + device
	}
	return text
}

// A plan with thousands of errors has few suggestions, because a suggestion takes time.
func TestSuggestionsAreBounded(t *testing.T) {
	t.Parallel()
	p := machine(plan.Option{Flag: "-blockdev", Value: "node-name=d"})
	for n := range 1000 {
		p.QEMU.Args = append(p.QEMU.Args, device("virtio-blk-pci", "drive", fmt.Sprint("d", n)))
	}
	require.Equal(t, 10, strings.Count(faults(p), "did you mean d?"))
}
