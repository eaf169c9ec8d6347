package compare

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/plan"
)

// read returns a plan from lines: QEMU's options, "executable PATH", "env NAME=VALUE", and the rules balloon, cpus and
// medium.
func read(text string) *plan.Plan {
	p := &plan.Plan{QEMU: plan.Process{Name: "qemu", Executable: "/usr/bin/qemu-system-x86_64"}}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		rest := strings.Join(words[1:], " ")
		switch words[0] {
		case "executable":
			p.QEMU.Executable = rest
		case "env":
			name, value, _ := strings.Cut(rest, "=")
			p.QEMU.Env = append(p.QEMU.Env, plan.Variable{Name: name, Value: value})
		case "helper":
			p.Helpers = append(p.Helpers,
				plan.Process{
					Name: words[1], Executable: words[2],
					Args: []plan.Option{{Flag: strings.Join(words[3:], " ")}},
				})
		case "file":
			p.Files = append(p.Files, plan.CopyOnce{From: words[1], To: words[2], Kind: words[3]})
		case "tap":
			p.Taps = append(p.Taps, plan.Tap{Name: words[1], Bridge: words[2]})
		case "socket":
			p.Sockets = append(p.Sockets, plan.Socket{Role: words[1], Path: words[2]})
		case "balloon":
			p.Rules = append(p.Rules, plan.Balloon{Device: words[1], Maximum: int64(len(words[2]))})
		case "cpus":
			p.Rules = append(p.Rules, plan.CPUs{Boot: 1, Maximum: 4, ID: "cpu-%d"})
		case "medium":
			p.Rules = append(p.Rules, plan.Medium{Device: words[1]})
		default:
			p.QEMU.Args = append(p.QEMU.Args, readOption(words[0], rest))
		}
	}
	return p
}

func readOption(flag, text string) plan.Option {
	o := plan.Option{Flag: flag, List: true, Origin: plan.Origin{{File: "x.star", Line: 3, Function: "launch"}}}
	for i, part := range strings.Split(text, ",") {
		key, value, isProperty := strings.Cut(part, "=")
		switch {
		case flag == "-global", flag == "-append":
			return plan.Option{Flag: flag, Value: text}
		case isProperty:
			o.Properties = append(o.Properties, plan.Property{Key: key, Value: value})
		case i == 0:
			o.Value = part
		}
	}
	return o
}

// told returns changes in the form of the tests: meaning, text, and special properties.
func told(changes []Change) []string {
	list := []string{}
	for _, c := range changes {
		line := string(c.Meaning) + ": " + c.Text()
		if c.Live {
			line += " (live)"
		}
		list = append(list, line)
	}
	return list
}

// cases contain each meaning at least once.
var cases = []struct {
	name, before, after string
	want                []string
}{
	{"nothing", "-device virtio-net-pci,id=a,addr=0x1", "-device virtio-net-pci,id=a,addr=0x1", nil},
	{
		"order of options without meaning", "-device x-pci,id=a,addr=0x1\n-device x-pci,id=b,addr=0x2",
		"-device x-pci,id=b,addr=0x2\n-device x-pci,id=a,addr=0x1", nil,
	},
	{"order of properties", "-device x-pci,id=a,addr=0x1", "-device x-pci,addr=0x1,id=a", nil},
	{"spelling of an address", "-device x-pci,id=a,addr=0x1c", "-device x-pci,id=a,addr=1c.0", nil},
	{
		"new device", "", "-device virtio-rng-pci,id=r,addr=0x4",
		[]string{"hardware-added: -device r (virtio-rng-pci): new: virtio-rng-pci,id=r,addr=0x4"},
	},
	{
		"device is gone", "-device usb-tablet,id=t,port=1", "",
		[]string{"hardware-removed: -device t (usb-tablet): gone: usb-tablet,id=t,port=1"},
	},
	{"defaults of QEMU", "-nodefaults", "", []string{"hardware-replaced: -nodefaults: "}},
	{
		"other driver", "-device e1000,id=n,addr=0x7,mac=52:54:00:00:00:01",
		"-device virtio-net-pci,id=n,addr=0x7,mac=52:54:00:00:00:01",
		[]string{"hardware-replaced: -device n (virtio-net-pci): e1000 -> virtio-net-pci"},
	},
	{
		"feature", "-device virtio-blk-pci,id=d,addr=0x1,num-queues=1",
		"-device virtio-blk-pci,id=d,addr=0x1,num-queues=4",
		[]string{"hardware-feature: -device d (virtio-blk-pci): num-queues 1 -> 4"},
	},
	{
		"address", "-device x-pci,id=a,addr=0x7", "-device x-pci,id=a,addr=0x8",
		[]string{"address: -device a (x-pci): addr 0x7 -> 0x8"},
	},
	{
		"MAC", "-device e1000,id=n,addr=0x7,mac=52:54:00:00:00:01", "-device e1000,id=n,addr=0x7,mac=52:54:00:00:00:02",
		[]string{"mac-address: -device n (e1000): mac 52:54:00:00:00:01 -> 52:54:00:00:00:02"},
	},
	{
		"serial number", "-device scsi-hd,id=d,scsi-id=1", "-device scsi-hd,id=d,scsi-id=1,serial=x",
		[]string{"disk-identity: -device d (scsi-hd): serial new: x"},
	},
	{
		"other file", "-blockdev node-name=f,driver=file,filename=/a\n-device x-pci,id=d,drive=f,addr=0x1",
		"-blockdev node-name=f,driver=file,filename=/b\n-device x-pci,id=d,drive=f,addr=0x1",
		[]string{"disk-contents: -blockdev f: filename /a -> /b"},
	},
	{
		"new disk", "", "-blockdev node-name=f,driver=file,filename=/a\n-device x-pci,id=d,drive=f,addr=0x1",
		[]string{
			"host-only: -blockdev f: new: node-name=f,driver=file,filename=/a",
			"hardware-added: -device d (x-pci): new: x-pci,id=d,drive=f,addr=0x1",
		},
	},
	{
		"other node, same file", "-blockdev node-name=f,driver=file,filename=/a\n-device x-pci,id=d,drive=f,addr=0x1",
		"-blockdev node-name=g,driver=file,filename=/a\n-device x-pci,id=d,drive=g,addr=0x1",
		[]string{"host-only: -blockdev g: id f -> g", "host-only: -device d (x-pci): drive f -> g"},
	},
	{
		"tuning of a node", "-blockdev node-name=f,driver=file,filename=/a\n-device x-pci,id=d,drive=f,addr=0x1",
		"-blockdev node-name=f,driver=file,filename=/a,aio=native\n-device x-pci,id=d,drive=f,addr=0x1",
		[]string{"host-only: -blockdev f: aio new: native"},
	},
	{
		"boot order", "-device x-pci,id=d,addr=0x1,bootindex=0", "-device x-pci,id=d,addr=0x1,bootindex=1",
		[]string{"boot-order: -device d (x-pci): bootindex 0 -> 1"},
	},
	{"kernel", "-append quiet", "-append a,b=c", []string{"kernel: -append: quiet -> a,b=c"}},
	{"chipset", "-machine q35", "-machine pc", []string{"chipset: -machine: q35 -> pc"}},
	{
		"machine version", "-machine pc-q35-7.2", "-machine pc-q35-8.0",
		[]string{"machine-version: -machine: pc-q35-7.2 -> pc-q35-8.0"},
	},
	{"alias", "-machine pc-q35-7.2", "-machine q35", []string{"machine-version: -machine: pc-q35-7.2 -> q35"}},
	{"machine property", "-machine q35,hpet=off", "-machine q35", []string{"clock: -machine: hpet gone: off"}},
	{
		"unknown machine property", "-machine q35", "-machine q35,frobnicate=on",
		[]string{"unknown: -machine: frobnicate new: on"},
	},
	{"CPU", "-cpu max", "-cpu host", []string{"cpu-model: -cpu: max -> host"}},
	{"topology", "-smp cpus=1,sockets=1", "-smp cpus=1,sockets=2", []string{"cpu-topology: -smp: sockets 1 -> 2"}},
	{"memory", "-m 1G", "-m 2G", []string{"memory: -m: 1G -> 2G"}},
	{
		"huge pages", "-object memory-backend-ram,id=r,size=1", "-object memory-backend-ram,id=r,size=1,prealloc=on",
		[]string{"host-only: -object r: prealloc new: on"},
	},
	{
		"backend", "-object memory-backend-ram,id=r,size=1", "-object memory-backend-file,id=r,size=1",
		[]string{"host-only: -object r: memory-backend-ram -> memory-backend-file"},
	},
	{
		"firmware", "-machine q35,pflash0=f\n-blockdev node-name=f,driver=file,filename=/a",
		"-machine q35,pflash0=f\n-blockdev node-name=f,driver=file,filename=/b",
		[]string{"firmware: -blockdev f: filename /a -> /b"},
	},
	{
		"variables", "file /usr/a /data/v uefi-2m", "file /usr/b /data/v uefi-4m",
		[]string{"firmware-variables: file /data/v: kind uefi-2m -> uefi-4m"},
	},
	{
		"template", "file /usr/a /data/v uefi", "file /usr/b /data/v uefi",
		[]string{"host-only: file /data/v: source /usr/a -> /usr/b"},
	},
	{
		"no TPM", "helper swtpm /usr/bin/swtpm socket\n-device tpm-tis,tpmdev=t", "",
		[]string{"tpm: -device tpm-tis: gone: tpm-tis,tpmdev=t", "tpm: helper swtpm: gone: /usr/bin/swtpm socket"},
	},
	{"helper", "", "helper x /bin/x", []string{"unknown: helper x: new: /bin/x "}},
	{"uuid", "-uuid a", "-uuid b", []string{"identity: -uuid: a -> b"}},
	{
		"SMBIOS", "-smbios type=1,serial=a\n-smbios type=3,asset=a", "-smbios type=1,serial=a\n-smbios type=3,asset=b",
		[]string{"identity: -smbios 3: asset a -> b"},
	},
	{"clock", "-rtc base=utc", "-rtc base=localtime", []string{"clock: -rtc: base utc -> localtime"}},
	{
		"timer", "-global kvm-pit.lost_tick_policy=delay", "-global kvm-pit.lost_tick_policy=discard",
		[]string{"clock: -global kvm-pit.lost_tick_policy: delay -> discard"},
	},
	{
		"network", "-netdev user,id=n", "-netdev user,id=n,hostfwd=tcp::1-:2",
		[]string{"network: -netdev n: hostfwd new: tcp::1-:2"},
	},
	{"bridge", "tap a br0", "tap a br1", []string{"network: tap a: bridge=br0 -> bridge=br1"}},
	{
		"medium", "medium cd0\n-drive id=m,if=none,file.filename=/a\n-device ide-cd,id=cd0,drive=m,bus=ide.0",
		"medium cd0\n-drive id=m,if=none,file.filename=/b\n-device ide-cd,id=cd0,drive=m,bus=ide.0",
		[]string{"medium: -drive m: file.filename /a -> /b (live)"},
	},
	{
		"no medium", "medium cd0\n-drive id=cd0-medium,if=none,file.filename=/a\n-device " +
			"ide-cd,id=cd0,drive=cd0-medium,bus=ide.0", "medium cd0\n-device ide-cd,id=cd0,bus=ide.0",
		[]string{
			"medium: -drive cd0-medium: gone: id=cd0-medium,if=none,file.filename=/a (live)",
			"medium: -device cd0 (ide-cd): drive gone: cd0-medium (live)",
		},
	},
	{
		"emulator", "executable /usr/bin/a", "executable /usr/bin/b",
		[]string{"emulator: qemu: executable /usr/bin/a -> /usr/bin/b"},
	},
	{"accelerator", "-accel kvm", "-accel tcg", []string{"emulator: -accel: kvm -> tcg"}},
	{"unknown option", "", "-frobnicate on", []string{"unknown: -frobnicate: new: on"}},
	{
		"unknown property", "-device x-pci,id=a,addr=0x1", "-device x-pci,id=a,addr=0x1,magic=1",
		[]string{"unknown: -device a (x-pci): magic new: 1"},
	},
	{"environment", "env A=1", "env A=2", []string{"unknown: qemu: env A 1 -> 2"}},
	{"rule", "", "balloon b x", []string{"rule-added: rule balloon b: new: device=b maximum=1"}},
	{"no rule", "cpus", "", []string{"rule-removed: rule cpus: gone: boot=1 maximum=4 id=cpu-%d"}},
	{
		"bounds", "balloon b x", "balloon b xx",
		[]string{"rule-changed: rule balloon b: device=b maximum=1 -> device=b maximum=2"},
	},
	{
		"CPUs by a rule", "cpus\n-smp cpus=1,maxcpus=4", "cpus\n-smp cpus=2,maxcpus=4",
		[]string{"cpu-topology: -smp: cpus 1 -> 2 (live)"},
	},
	{
		"reaction to failures", "-action panic=shutdown\n-action watchdog=none", "-action panic=pause\n-action " +
			"watchdog=none",
		[]string{"failure-action: -action panic: panic shutdown -> pause"},
	},
	{"isolation", "-sandbox on,spawn=deny", "-sandbox on", []string{"isolation: -sandbox: spawn gone: deny"}},
	{"viewers", "-vnc id=v,vnc=unix:/a", "-vnc id=v,vnc=unix:/b", []string{"viewers: -vnc v: vnc unix:/a -> unix:/b"}},
	{"socket", "socket console /a", "socket console /b", []string{"host-only: socket console: /a -> /b"}},
	{
		"chardev", "-chardev socket,id=c,path=/a", "-chardev socket,id=c,path=/b",
		[]string{"host-only: -chardev c: path /a -> /b"},
	},
	{
		"another id", "-device usb-kbd,id=a,bus=usb.0,port=1", "-device usb-kbd,id=b,bus=usb.0,port=1",
		[]string{"host-only: -device b (usb-kbd): id a -> b"},
	},
}

func TestChanges(t *testing.T) {
	t.Parallel()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.want == nil {
				c.want = []string{}
			}
			require.Equal(t, c.want, told(comparePlans(read(c.before), read(c.after))))
		})
	}
}

// Each meaning in the table has a test case.
func TestEachMeaningIsReached(t *testing.T) {
	t.Parallel()
	reached := map[Meaning]bool{}
	for _, c := range cases {
		for _, change := range comparePlans(read(c.before), read(c.after)) {
			reached[change.Meaning] = true
		}
	}
	for _, faults := range [][2]string{{"x", ""}, {"", "x"}, {"x", "y"}} {
		for _, change := range Outcomes(read(""), faults[0], read(""), faults[1]) {
			reached[change.Meaning] = true
		}
	}
	for _, m := range Meanings() {
		require.True(t, reached[m], "%s has no case", m)
		e := m.Explain()
		require.NotEmpty(t, e.Title, "%s", m)
		require.NotEmpty(t, e.Effect, "%s", m)
		require.NotEmpty(t, e.Advice, "%s", m)
	}
	require.Len(t, explanations, len(Meanings()))
}

func TestSameFaultIsNoChange(t *testing.T) {
	t.Parallel()
	require.Empty(t, Outcomes(nil, "x", nil, "x"))
}

// Values that QEMU assigns by order change if a device is inserted before.
func TestPlacesGivenByOrder(t *testing.T) {
	t.Parallel()
	machine := "-machine q35\n"
	for _, c := range []struct {
		name, before, after string
		want                []string
	}{
		{
			"PCI", machine + "-device virtio-rng-pci,id=a",
			machine + "-device e1000e,id=n,mac=x\n-device virtio-rng-pci,id=a",
			[]string{
				"address: -device a (virtio-rng-pci): addr 0x1 -> 0x2",
				"hardware-added: -device n (e1000e): new: e1000e,id=n,mac=x",
			},
		},
		{
			"behind all others", machine + "-device virtio-rng-pci,id=a",
			machine + "-device virtio-rng-pci,id=a\n-device e1000e,id=n,mac=x",
			[]string{"hardware-added: -device n (e1000e): new: e1000e,id=n,mac=x"},
		},
		{
			"the place is now given", machine + "-device virtio-rng-pci,id=a",
			machine + "-device virtio-rng-pci,id=a,addr=0x1",
			[]string{"host-only: -device a (virtio-rng-pci): addr new: 0x1"},
		},
		{
			"another place is given", machine + "-device virtio-rng-pci,id=a",
			machine + "-device virtio-rng-pci,id=a,addr=0x5",
			[]string{"address: -device a (virtio-rng-pci): addr new: 0x5"},
		},
		{
			"MAC", machine + "-device e1000,id=a,addr=1\n-device e1000,id=b,addr=2",
			machine + "-device e1000,id=b,addr=2",
			[]string{
				"hardware-removed: -device a (e1000): gone: e1000,id=a,addr=1",
				"mac-address: -device b (e1000): mac number 1 by order -> number 0 by order",
			},
		},
		{
			"no PCI", "-device virtio-rng-device,id=a",
			"-device virtio-blk-device,id=b\n-device virtio-rng-device,id=a",
			[]string{
				"address: -device a (virtio-rng-device): bus number 0 by order -> number 1 by order",
				"hardware-added: -device b (virtio-blk-device): new: virtio-blk-device,id=b",
			},
		},
		{
			"USB", "-device usb-kbd,id=a", "-device usb-tablet,id=b\n-device usb-kbd,id=a",
			[]string{
				"address: -device a (usb-kbd): port number 0 by order -> number 1 by order",
				"hardware-added: -device b (usb-tablet): new: usb-tablet,id=b",
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.want, told(comparePlans(read(c.before), read(c.after))))
		})
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	before := read("-device usb-kbd,id=kbd0,port=1\n-device usb-kbd,id=kbd1,port=2\n-m 1G")
	after := read("-device usb-kbd,id=kbd0,port=2\n-device usb-kbd,id=kbd1,port=3\n-m 2G\n-uuid x")
	groups := Summarize([]Result{
		{"a", comparePlans(before, after)},
		{"b", comparePlans(before, after)},
		{"c", comparePlans(before, before)},
	})
	require.Len(t, groups, 3)
	require.Equal(t, Address, groups[0].Meaning)
	require.Equal(t, []string{
		"address: -device kbd0 (usb-kbd): port 1 -> 2",
		"address: -device kbd1 (usb-kbd): port 2 -> 3",
	}, told(groups[0].Members))
	require.Equal(t, []string{"a", "b"}, groups[0].VMs)
	require.True(t, slices.IsSortedFunc(groups,
		func(a, b Group) int { return int(a.Meaning.Explain().Level - b.Meaning.Explain().Level) }))
}
