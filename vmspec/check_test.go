package vmspec

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// faults returns the errors of a spec as text.
func faults(s Spec) []string {
	if s.Name == "" {
		s.Name = "test"
	}
	all := []string{}
	for _, fault := range s.WithDefaults().Check() {
		all = append(all, fault.String())
	}
	return all
}

func nic(types NetworkType, more ...func(*Network)) Network {
	n := Network{Type: types}
	for _, f := range more {
		f(&n)
	}
	return n
}

func TestSpecsWithoutFault(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]Spec{
		"only a name": {},
		"uuid":        {UUID: someUUID},
		"no network":  {Network: []Network{}},
		"full topology": {
			MaximumCPUs: 16, CurrentCPUs: 3, Sockets: 2, DiesPerSocket: 2, CoresPerDie: 2,
			ThreadsPerCore: 2,
		},
		"the maximum":        {MaximumCPUs: 4096},
		"QEMU takes cores":   {MaximumCPUs: 8, Sockets: 2},
		"QEMU takes sockets": {MaximumCPUs: 8, CoresPerDie: 2, DiesPerSocket: 2},
		"kernel":             {Kernel: &Kernel{Image: "vmlinuz", Initrd: "initrd", CommandLine: "console=ttyS0"}},
		"fixed date":         {RTCBase: "2026-03-01T12:00:00", RTCClock: "vm"},
		"no grace":           {PowerdownTimeout: new(Seconds(0))},
		"virtio-net":         {Network: []Network{{Device: "virtio-net"}}},
		"MAC with hyphens":   {Network: []Network{{MAC: "52-54-00-12-34-56"}}},
		"empty CD drive":     {Drives: []Drive{{Type: DriveIDECD, Bus: "scsi"}}},
		"disks": {Drives: []Drive{
			{File: "a.qcow2", Format: "qcow2", Bootindex: new(0)},
			{Device: "/dev/vg/b", Bootindex: new(1)},
			{Resource: "c"},
			{File: "d", Size: GiB},
		}},
		"tcp and udp on one port": {Network: []Network{{Type: NetworkUser, Ports: []PortForward{
			{Host: 53}, {Host: 53, Protocol: "udp"}, {Host: 53, Address: "127.0.0.2"},
		}}}},
		"screens": {Display: &Display{
			Outputs: 16, LoggedInUser: "test",
			Spice: &Spice{Port: 5901, Address: "::1", StreamingVideo: "filter", USBRedirects: new(0)},
			VNC:   &VNC{Port: 5900},
		}},
	} {
		require.Empty(t, faults(spec), name)
	}
}

func TestMachineFaults(t *testing.T) {
	t.Parallel()
	for _, fault := range []struct {
		spec Spec
		want string
	}{
		{Spec{Name: "a/b"}, `vm.name: "a/b" can't name a directory (letters, digits, - and .)`},
		{Spec{Name: ".."}, `vm.name: ".." can't name a directory (letters, digits, - and .)`},
		{Spec{Name: strings.Repeat("n", 201)}, `vm.name: has 201 bytes (the maximum is 200)`},
		{Spec{Name: "a\nb"}, `vm.name: "a\nb" holds a control character or a line break`},
		{Spec{CPUModel: "max\x00"}, `vm.cpuModel: "max\x00" holds a control character or a line break`},
		{Spec{UUID: "2d5e8b6c"}, `vm.uuid: "2d5e8b6c" is not a uuid (such as 2d5e8b6c-5a0f-4c4e-9d3a-6f1b0c7a9e21)`},
		{Spec{MachineType: "q35,smm=on"}, `vm.machineType: "q35,smm=on" is not the name of a machine (such as q35 or pc-q35-7.2; what belongs to a machine is set by the VM type)`},
		{Spec{Accelerator: "kwm"}, `vm.accelerator: can't be "kwm" (did you mean kvm? It can be auto, kvm, tcg or none)`},
		{Spec{Firmware: "UEFI"}, `vm.firmware: can't be "UEFI" (did you mean uefi? It can be bios, uefi, uefi-4m, secure or secure-4m)`},
		{Spec{Firmware: "coreboot"}, `vm.firmware: can't be "coreboot" (it can be bios, uefi, uefi-4m, secure or secure-4m)`},
		{
			Spec{Kernel: &Kernel{Image: "a", Initrd: "b,/etc/shadow"}},
			`vm.kernel.initrd: "b,/etc/shadow" has a comma, which QEMU uses to separate files (rename the file)`,
		},
		{Spec{Kernel: &Kernel{Initrd: "initrd"}}, `vm.kernel.image: missing (initrd and commandLine are for the kernel in image)`},
		{
			Spec{Kernel: &Kernel{Image: "a", CommandLine: "b\n"}},
			`vm.kernel.commandLine: "b\n" holds a control character or a line break`,
		},
		{Spec{RTCBase: "noon"}, `vm.rtcBase: "noon" is not a time to start from (utc, localtime or a date such as 2026-03-01T12:00:00)`},
		{Spec{RTCClock: "real"}, `vm.rtcClock: can't be "real" (it can be host, rt or vm)`},
		{Spec{PowerdownTimeout: new(Seconds(-1))}, `vm.powerdownTimeout: -1 seconds can't be waited (0 to 31536000, a year)`},
		{
			Spec{SerialConsole: &SerialConsole{Log: strings.Repeat("x", 8193)}},
			`vm.serialConsole.log: has 8193 bytes (the maximum is 8192)`,
		},
	} {
		require.Equal(t, []string{fault.want}, faults(fault.spec))
	}
	require.Equal(t, "vm.name: missing (every VM has a name)", Spec{}.WithDefaults().Check()[0].String())
}

func TestCPUAndMemoryFaults(t *testing.T) {
	t.Parallel()
	for _, fault := range []struct {
		spec Spec
		want string
	}{
		{Spec{Sockets: -1}, `vm.sockets: can't be -1 (1 to 4096, or 0 to leave it to QEMU)`},
		{Spec{MaximumCPUs: -2}, `vm.maximumCpus: can't be -2 (1 to 4096)`},
		{Spec{MaximumCPUs: 5000}, `vm.maximumCpus: can't be 5000 (1 to 4096)`},
		{Spec{MaximumCPUs: 4097}, `vm.maximumCpus: can't be 4097 (1 to 4096)`},
		{Spec{Sockets: 4096, CoresPerDie: 4096, ThreadsPerCore: 4096}, `vm.maximumCpus: can't be 4097 (1 to 4096)`},
		{
			Spec{MaximumCPUs: 6, Sockets: 2, DiesPerSocket: 1, CoresPerDie: 2, ThreadsPerCore: 1},
			`vm.maximumCpus: is 6, but sockets × diesPerSocket × coresPerDie × threadsPerCore is 4 (leave maximumCpus out, or make both the same)`,
		},
		{
			Spec{MaximumCPUs: 7, Sockets: 2},
			`vm.maximumCpus: is 7, but no multiple of 2: sockets × diesPerSocket × coresPerDie × threadsPerCore is 2 (leave maximumCpus out, or give all levels)`,
		},
		{Spec{MaximumCPUs: 4, CurrentCPUs: 5}, `vm.currentCpus: can't be 5 (1 to 4, which is maximumCpus)`},
		{Spec{MaximumCPUs: 4, CurrentCPUs: -1}, `vm.currentCpus: can't be -1 (1 to 4, which is maximumCpus)`},
		{Spec{MaximumRAM: 8}, `vm.maximumRam: is less than 1 MiB: 8 B (is a unit missing? such as 8 GiB)`},
		{Spec{MaximumRAM: 8e9}, `vm.maximumRam: is not a whole number of MiB: 7812500 KiB (7629 MiB or 7630 MiB are)`},
		{Spec{MaximumRAM: -GiB}, `vm.maximumRam: can't be -1 GiB (at least 1 MiB)`},
		{Spec{MaximumRAM: 2 * GiB, CurrentRAM: GiB + 1}, `vm.currentRam: is not a whole number of MiB: 1073741825 B (1024 MiB or 1025 MiB are)`},
		{Spec{CurrentRAM: 2 * GiB}, `vm.currentRam: is 2 GiB, more than maximumRam, which is 1 GiB (raise maximumRam)`},
	} {
		require.Equal(t, []string{fault.want}, faults(fault.spec))
	}
}

func TestNetworkFaults(t *testing.T) {
	t.Parallel()
	with := func(n ...Network) Spec { return Spec{UUID: someUUID, Network: n} }
	ports := func(p ...PortForward) Spec { return with(Network{Type: NetworkUser, Ports: p}) }
	for _, fault := range []struct {
		spec Spec
		want string
	}{
		{with(nic("bridge")), `vm.network[0].type: can't be "bridge" (it can be tap, user, passt or masquerade)`},
		{with(Network{Device: "e1000,x=y"}), `vm.network[0].device: "e1000,x=y" is not the name of a network card (such as virtio-net-pci or e1000e)`},
		{with(Network{MAC: "52:54:00:12:34"}), `vm.network[0].mac: "52:54:00:12:34" is not a hardware address (six pairs of hexadecimal digits, such as 52:54:00:12:34:56)`},
		{with(Network{MAC: "53:54:00:12:34:56"}), `vm.network[0].mac: "53:54:00:12:34:56" is a multicast address (the second digit must be even)`},
		{with(Network{MAC: "00:00:00:00:00:00"}), `vm.network[0].mac: "00:00:00:00:00:00" is not an address of a card`},
		{
			with(Network{MAC: "52:54:00:12:34:5a"}, Network{MAC: "52-54-00-12-34-5A"}),
			`vm.network[1].mac: "52-54-00-12-34-5A" is taken (by vm.network[0].mac)`,
		},
		{with(Network{MAC: MAC(someUUID, 1)}, Network{}), `vm.network[1].mac: "` + MAC(someUUID, 1) +
			`" is taken (by vm.network[0].mac)`},
		{
			with(Network{Ifname: "tap0"}, Network{Ifname: "tap0"}),
			`vm.network[1].ifname: "tap0" is taken (by vm.network[0].ifname)`,
		},
		{with(Network{Ifname: "averylongtapname"}), `vm.network[0].ifname: "averylongtapname" has 16 characters (the maximum is 15)`},
		{with(Network{Bridge: "br/0"}), `vm.network[0].bridge: "br/0" is not the name of a network interface (letters, digits, - and .)`},
		{with(Network{Net: "10.0.2.0/24"}), `vm.network[0].net: has no effect for a network of type tap (it is for user and masquerade)`},
		{with(Network{Ports: []PortForward{{Host: 80}}}), `vm.network[0].ports: has no effect for a network of type tap (it is for user, passt and masquerade)`},
		{with(Network{Type: NetworkUser, Bridge: "br0"}), `vm.network[0].bridge: has no effect for a network of type user (it is for tap)`},
		{
			with(Network{Type: NetworkUser, Ifname: "tap0"}),
			`vm.network[0].ifname: has no effect for a network of type user (it is for tap and masquerade)`,
		},
		{
			with(Network{Type: NetworkPasst, Net: "10.0.2.0/24"}),
			`vm.network[0].net: has no effect for a network of type passt (it is for user and masquerade)`,
		},
		{
			with(Network{Type: NetworkPasst, AllPorts: &AllPorts{}}),
			`vm.network[0].allPorts: has no effect for a network of type passt (it is for masquerade)`,
		},
		{
			with(Network{Type: NetworkUser, Filter: new(true)}),
			`vm.network[0].filter: has no effect for a network of type user (it is for tap)`,
		},
		{
			with(Network{Type: NetworkMasquerade, Lease: &Lease{}}),
			`vm.network[0].lease: has no effect for a network of type masquerade (it is for tap)`,
		},
		{
			with(Network{Type: NetworkUser, Net: "10.0.2.0"}),
			`vm.network[0].net: "10.0.2.0" is not an IPv4 subnet (such as 10.0.2.0/24)`,
		},
		{
			with(Network{Type: NetworkUser, Net: "fd00::/64"}),
			`vm.network[0].net: "fd00::/64" is not an IPv4 subnet (such as 10.0.2.0/24)`,
		},
		{
			with(Network{Type: NetworkUser, Net: "10.0.2.5/24"}),
			`vm.network[0].net: "10.0.2.5/24" is an address within a subnet (the subnet is 10.0.2.0/24)`,
		},
		{
			with(Network{Type: NetworkUser, Net: "10.0.2.0/31"}),
			`vm.network[0].net: "10.0.2.0/31" has no sensible size (/8 to /28)`,
		},
		{
			with(Network{Type: NetworkMasquerade, Net: "10.0.2.0/24"},
				Network{Type: NetworkMasquerade, Net: "10.0.0.0/16"}),
			`vm.network[1].net: 10.0.0.0/16 overlaps with vm.network[0].net (give each masqueraded network a different subnet)`,
		},
		{ports(PortForward{Guest: 22}), `vm.network[0].ports[0].host: missing (the port of the host, 1 to 65535)`},
		{ports(PortForward{Host: 65536}), `vm.network[0].ports[0].host: can't be 65536 (1 to 65535)`},
		{ports(PortForward{Host: 8022, Guest: -22}), `vm.network[0].ports[0].guest: can't be -22 (1 to 65535)`},
		{ports(PortForward{Host: 8022, Protocol: "TCP"}), `vm.network[0].ports[0].protocol: can't be "TCP" (did you mean tcp? It can be tcp or udp)`},
		{ports(PortForward{Host: 8022, Address: "here"}), `vm.network[0].ports[0].address: "here" is not an IP address`},
		{
			ports(PortForward{Host: 8022}, PortForward{Host: 8022, Guest: 22}),
			`vm.network[0].ports[1].host: tcp port 8022 is taken (by vm.network[0].ports[0].host)`,
		},
	} {
		require.Equal(t, []string{fault.want}, faults(fault.spec))
	}
}

func TestDriveFaults(t *testing.T) {
	t.Parallel()
	with := func(d ...Drive) Spec { return Spec{Drives: d} }
	nbd := func(n NBD) Spec { return with(Drive{NBD: &n}) }
	for _, fault := range []struct {
		spec Spec
		want string
	}{
		{with(Drive{}), `vm.drives[0]: has no source of data (give file, device, resource or nbd)`},
		{with(Drive{File: "a", Resource: "b"}), `vm.drives[0].resource: file and resource are given (give one of them)`},
		{with(Drive{Type: "cd"}), `vm.drives[0].type: can't be "cd" (it can be raw or ide-cd)`},
		{
			with(Drive{Type: DriveIDECD, Device: "/dev/sr0"}),
			`vm.drives[0].device: is not for a CD drive (its medium is given by file)`,
		},
		{with(Drive{Type: DriveIDECD, Bus: "usb"}), `vm.drives[0].bus: can't be "usb" (it can be ide or scsi)`},
		{with(Drive{File: "a", Bus: "ide"}), `vm.drives[0].bus: is for CD drives only (a disk is attached by virtio)`},
		{with(Drive{File: "a", Format: "vmdk"}), `vm.drives[0].format: can't be "vmdk" (it can be raw or qcow2)`},
		{with(Drive{File: "a", Bootindex: new(-1)}), `vm.drives[0].bootindex: can't be -1 (0 or more, lowest first)`},
		{
			with(Drive{File: "a", Bootindex: new(1)}, Drive{File: "b", Bootindex: new(1)}),
			`vm.drives[1].bootindex: 1 is taken (by vm.drives[0].bootindex)`,
		},
		{with(Drive{File: "a", Size: MiB + 1}), `vm.drives[0].size: is not a whole number of MiB: 1048577 B (1 MiB or 2 MiB are)`},
		{with(Drive{Resource: "a", Size: MiB}), `vm.drives[0].size: is for a disk that is a file (give file)`},
		{
			with(Drive{File: "a", Format: "qcow2", Size: MiB}),
			`vm.drives[0].size: is for a raw image (qemu-img makes others)`,
		},
		{
			with(Drive{File: "a", ReadOnly: true, Size: MiB}),
			`vm.drives[0].size: a read-only image can't be created (leave out size or readOnly)`,
		},
		{with(Drive{Type: DriveIDECD, Size: MiB}), `vm.drives[0].size: is not for a CD drive (an image is created only for a disk)`},
		{with(Drive{File: "a", Serial: "a b"}), `vm.drives[0].serial: can't be "a b" (letters, digits and ._-)`},
		{with(Drive{File: "a", Serial: strings.Repeat("a", 21)}), `vm.drives[0].serial: has 21 bytes (at most 20)`},
		{
			with(Drive{File: "a", Serial: "x"}, Drive{File: "b", Serial: "x"}),
			`vm.drives[1].serial: "x" is taken (by vm.drives[0].serial)`,
		},
		{nbd(NBD{}), `vm.drives[0].nbd.host: missing (the server's name or address)`},
		{nbd(NBD{Host: "nbd://a/b"}), `vm.drives[0].nbd.host: "nbd://a/b" is neither a name nor an address ` +
			`(such as disks.example.org; port, export and tls are separate keys)`},
		{nbd(NBD{Host: "a", Port: 65536}), `vm.drives[0].nbd.port: can't be 65536 (1 to 65535)`},
		{
			nbd(NBD{Host: "a", Export: strings.Repeat("x", 4097)}),
			`vm.drives[0].nbd.export: has 4097 bytes (the maximum is 4096)`,
		},
		{with(Drive{File: "a", NBD: &NBD{Host: "a"}}), `vm.drives[0].nbd: file and nbd are given (give one of them)`},
		{
			with(Drive{Format: "qcow2", NBD: &NBD{Host: "a"}}),
			`vm.drives[0].format: a disk of an NBD server is raw (leave format out)`,
		},
		{
			with(Drive{Bootindex: new(0), NBD: &NBD{Host: "a"}}),
			`vm.drives[0].bootindex: the VM can't boot from a disk of an NBD server, which it gets when it runs`,
		},
		{
			with(Drive{Type: DriveIDECD, File: "a", NBD: &NBD{Host: "a"}}),
			`vm.drives[0].nbd: file and nbd are given (give one of them)`,
		},
		{
			with(Drive{Type: DriveIDECD, NBD: &NBD{}}),
			`vm.drives[0].nbd.host: missing (the server's name or address)`,
		},
		{
			with(Drive{NBD: &NBD{Host: "a"}}, Drive{File: "b"}),
			`vm.drives[1]: comes after a drive with nbd (drives with nbd come last: the VM is started without them)`,
		},
		{with(make([]Drive, 1001)...), `vm.drives: has 1001 drives (the maximum is 1000)`},
		{Spec{Network: make([]Network, 1001)}, `vm.network: has 1001 interfaces (the maximum is 1000)`},
	} {
		require.Equal(t, []string{fault.want}, faults(fault.spec))
	}
}

func TestDisplayFaults(t *testing.T) {
	t.Parallel()
	spice := func(s Spice) Spec { return Spec{Display: &Display{Spice: &s}} }
	vnc := func(v VNC) Spec { return Spec{Display: &Display{VNC: &v}} }
	for _, fault := range []struct {
		spec Spec
		want string
	}{
		{Spec{Display: &Display{Outputs: 17}}, `vm.display.outputs: can't be 17 (1 to 16)`},
		{spice(Spice{Port: 70000}), `vm.display.spice.port: can't be 70000 (1 to 65535)`},
		{spice(Spice{Address: "a b"}), `vm.display.spice.address: "a b" is not an address to listen on (such as 127.0.0.1, ::1 or localhost)`},
		{spice(Spice{StreamingVideo: "on"}), `vm.display.spice.streamingVideo: can't be "on" (it can be off, all or filter)`},
		{spice(Spice{USBRedirects: new(15)}), `vm.display.spice.usbRedirects: can't be 15 (0 to 14)`},
		{vnc(VNC{Port: 80}), `vm.display.vnc.port: can't be 80 (5900 to 65535)`},
		{vnc(VNC{Address: "::1"}), `vm.display.vnc.address: has no effect without a port (give port as well)`},
		{
			Spec{Display: &Display{Spice: &Spice{}, VNC: &VNC{Port: 5900}}},
			`vm.display.vnc.port: tcp port 5900 is taken (by vm.display.spice.port)`,
		},
	} {
		require.Equal(t, []string{fault.want}, faults(fault.spec))
	}
}

func TestAllFaultsAtOnce(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		`vm.firmware: can't be "efi" (did you mean uefi? It can be bios, uefi, uefi-4m, secure or secure-4m)`,
		`vm.currentCpus: can't be 9 (1 to 2, which is maximumCpus)`,
		`vm.network[0].mac: "x" is not a hardware address (six pairs of hexadecimal digits, such as 52:54:00:12:34:56)`,
		`vm.drives[0]: has no source of data (give file, device, resource or nbd)`,
	}, faults(Spec{
		Firmware: "efi", MaximumCPUs: 2, CurrentCPUs: 9,
		Network: []Network{{MAC: "x"}}, Drives: []Drive{{}},
	}))
}

func TestResourcesBecomeWhatTheyAre(t *testing.T) {
	t.Parallel()
	stat := func(path string) (fs.FileMode, error) {
		switch path {
		case "/images/a.img":
			return 0o600, nil
		case "/dev/vg/b":
			return fs.ModeDevice, nil
		case "/dev/null":
			return fs.ModeDevice | fs.ModeCharDevice, nil
		case "/images":
			return fs.ModeDir, nil
		case "/secret":
			return 0, errors.New("stat /secret: permission denied")
		}
		return 0, fs.ErrNotExist
	}
	given := Spec{Drives: []Drive{
		{Resource: "/images/a.img"},
		{Resource: "/dev/vg/b"},
		{File: "/not/looked/at"},
		{Type: DriveIDECD},
		{Resource: "/images"},
		{Resource: "/dev/null"},
		{Resource: "/gone"},
		{Resource: "/secret"},
	}}
	resolved, found := ResolveResources(given, stat)
	require.Equal(t, []Drive{
		{File: "/images/a.img"},
		{Device: "/dev/vg/b"},
		{File: "/not/looked/at"},
		{Type: DriveIDECD},
	}, resolved.Drives[:4])
	require.Equal(t, "/images/a.img", given.Drives[0].Resource, "the argument is left alone")
	require.Equal(t, []Fault{
		{Path: "vm.drives[4].resource", Message: `"/images" is neither a file nor a block device`},
		{Path: "vm.drives[5].resource", Message: `"/dev/null" is neither a file nor a block device`},
		{Path: "vm.drives[6].resource", Message: `"/gone" does not exist`},
		{Path: "vm.drives[7].resource", Message: `stat /secret: permission denied`},
	}, found)
}
