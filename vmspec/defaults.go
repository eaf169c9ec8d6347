package vmspec

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// A Default describes the default of a key in the vm section.
type Default struct {
	// Path is the path of the key: "vm.display.spice.port", "vm.network[].mac".
	Path string
	// Value is the default; "" if it is not always the same.
	Value string
	// Unit is the unit of Value; "" for names and switches.
	Unit string
	// Note explains how the value is determined, or what an absent key means.
	Note string

	set func(*Spec)
}

// Defaults returns the defaults of all keys in the order of the documentation. WithDefaults applies exactly this
// table, in this order.
func Defaults() []Default {
	return slices.Concat(machineDefaults(), cpuAndMemoryDefaults(), networkDefaults(), leaseDefaults(),
		driveDefaults(), displayDefaults())
}

// WithDefaults returns a deep copy with all defaults set. Fields that derive from the uuid (hardware addresses,
// names of taps) stay unset as long as the uuid is unknown. Given values never change, not even invalid values,
// which Check finds.
func (s Spec) WithDefaults() Spec {
	return s.cloneSpec().withDefaults(Defaults())
}

// WithSize returns a copy with only the defaults of CPUs and memory, which takes a tenth of the time. The copy
// shares the rest with s.
func (s Spec) WithSize() Spec { return s.withDefaults(cpuAndMemoryDefaults()) }

func (s Spec) withDefaults(all []Default) Spec {
	for _, d := range all {
		if d.set != nil {
			d.set(&s)
		}
	}
	return s
}

func machineDefaults() []Default {
	return []Default{
		notedDefault("vm.name", "required"),
		notedDefault("vm.uuid", "the first line of uuid.txt in the data directory, which is created with a random UUID"),
		notedDefault("vm.machineType", "what the VM type chooses"),
		fixedDefault("vm.accelerator", AcceleratorAuto, "",
			singleField(func(s *Spec) *Accelerator { return &s.Accelerator })),
		fixedDefault("vm.firmware", FirmwareUEFI, "", singleField(func(s *Spec) *Firmware { return &s.Firmware })),
		switchedOff("vm.bootMenu"),
		notedDefault("vm.kernel", "boot from a drive"),
		notedDefault("vm.kernel.image", "required in kernel"),
		notedDefault("vm.kernel.initrd", "none"),
		notedDefault("vm.kernel.commandLine", "empty"),
		switchedOff("vm.useTpm"),
		notedDefault("vm.options", "none"),
		fixedDefault("vm.rtcBase", "utc", "", singleField(func(s *Spec) *string { return &s.RTCBase })),
		notedDefault("vm.rtcClock", "what the VM type chooses: host, or rt for VMs of types before the generation 2026.1"),
		pointedDefault("vm.powerdownTimeout", Seconds(900), "seconds", singleField(func(s *Spec) **Seconds {
			return &s.PowerdownTimeout
		})),
		derivedDefault("vm.serialConsole", "a serial port without a log", func(s *Spec) {
			if s.SerialConsole == nil {
				s.SerialConsole = &SerialConsole{}
			}
		}),
		pointedDefault("vm.serialConsole.enabled", true, "",
			singleField(func(s *Spec) **bool { return &s.SerialConsole.Enabled })),
		notedDefault("vm.serialConsole.log", "none"),
	}
}

func cpuAndMemoryDefaults() []Default {
	return []Default{
		fixedDefault("vm.cpuModel", "host", "", singleField(func(s *Spec) *string { return &s.CPUModel })),
		zeroDefault("vm.sockets", "a level that QEMU chooses"),
		zeroDefault("vm.diesPerSocket", "a level that QEMU chooses"),
		zeroDefault("vm.coresPerDie", "a level that QEMU chooses"),
		zeroDefault("vm.threadsPerCore", "a level that QEMU chooses"),
		derivedDefault("vm.maximumCpus", "the product of the topology if given, otherwise currentCpus, otherwise 1", func(s *Spec) {
			switch {
			case s.MaximumCPUs != 0:
			case s.hasTopology():
				s.MaximumCPUs = s.topologyProduct()
			default:
				s.MaximumCPUs = max(1, s.CurrentCPUs)
			}
		}),
		derivedDefault("vm.currentCpus", "maximumCpus", func(s *Spec) {
			// See docs/decisions/0013-current-cpus.md.
			if s.CurrentCPUs == 0 {
				s.CurrentCPUs = s.MaximumCPUs
			}
		}),
		fixedDefault("vm.maximumRam", GiB, "bytes", singleField(func(s *Spec) *Bytes { return &s.MaximumRAM })),
		derivedDefault("vm.currentRam", "maximumRam", func(s *Spec) {
			if s.CurrentRAM == 0 {
				s.CurrentRAM = s.MaximumRAM
			}
		}),
	}
}

// DefaultBridge is the bridge of a tap without a bridge in the configuration.
const DefaultBridge = "br0"

func networkDefaults() []Default {
	return []Default{
		derivedDefault("vm.network", "one tap, or one user network where there is no bridge br0; an empty list means none", func(s *Spec) {
			if s.Network == nil {
				s.Network = []Network{{Type: NetworkTap}}
			}
		}),
		fixedDefault("vm.network[].type", NetworkTap, "", eachNIC(func(n *Network) *NetworkType { return &n.Type })),
		fixedDefault("vm.network[].device", "virtio-net-pci", "",
			eachNIC(func(n *Network) *string { return &n.Device })),
		derivedDefault("vm.network[].mac", "derived from uuid and position", func(s *Spec) {
			for i := range s.Network {
				if n := &s.Network[i]; n.MAC == "" && s.UUID != "" {
					n.MAC = MAC(s.UUID, i)
				}
			}
		}),
		fixedDefault("vm.network[].link", LinkUp, "", eachNIC(func(n *Network) *LinkState { return &n.Link })),
		derivedDefault("vm.network[].bridge", DefaultBridge+" for a tap", func(s *Spec) {
			for i := range s.Network {
				if n := &s.Network[i]; n.Bridge == "" && n.Type == NetworkTap {
					n.Bridge = DefaultBridge
				}
			}
		}),
		derivedDefault("vm.network[].ifname", "derived from uuid and position, for a tap and masquerade",
			func(s *Spec) {
				for i := range s.Network {
					if n := &s.Network[i]; n.Ifname == "" && n.hasTap() && s.UUID != "" {
						n.Ifname = Ifname(s.UUID, i)
					}
				}
			}),
		notedDefault("vm.network[].net", "masquerade: a subnet that is free; user: QEMU's choice, 10.0.2.0/24"),
		notedDefault("vm.network[].ports", "none"),
		switchedOff("vm.network[].hostLoopback"),
		notedDefault("vm.network[].allPorts", "only `ports` lead to the guest"),
		notedDefault("vm.network[].allPorts.keep", "none"),
		fixedDefault("vm.network[].ports[].protocol", "tcp", "", eachPort(func(p *PortForward) *string {
			return &p.Protocol
		})),
		notedDefault("vm.network[].ports[].address", "127.0.0.1 with user and passt, every address with masquerade"),
		notedDefault("vm.network[].ports[].host", "required in ports"),
		derivedDefault("vm.network[].ports[].guest", "the same as host", func(s *Spec) {
			eachPort(func(p *PortForward) *int {
				if p.Guest == 0 {
					p.Guest = p.Host
				}
				return nil
			})(s)
		}),
	}
}

func leaseDefaults() []Default {
	return []Default{
		notedDefault("vm.network[].lease", "a DHCP server on the bridge gives addresses"),
		notedDefault("vm.network[].lease.address", "required in lease"),
		notedDefault("vm.network[].lease.gateway", "none"),
		notedDefault("vm.network[].lease.nameservers", "none"),
		notedDefault("vm.network[].lease.nameservers.addresses", "none"),
		notedDefault("vm.network[].lease.nameservers.search", "none"),
		notedDefault("vm.network[].lease.routes", "none"),
		notedDefault("vm.network[].lease.routes[].to", "required in routes"),
		notedDefault("vm.network[].lease.routes[].via", "required in routes"),
		derivedDefault("vm.network[].filter", "true with a lease", func(s *Spec) {
			for i := range s.Network {
				if n := &s.Network[i]; n.Filter == nil && n.Lease != nil && n.Type == NetworkTap {
					n.Filter = new(true)
				}
			}
		}),
	}
}

func driveDefaults() []Default {
	return []Default{
		notedDefault("vm.drives", "none"),
		fixedDefault("vm.drives[].type", DriveRaw, "", eachDrive(func(d *Drive) *DriveType { return &d.Type })),
		notedDefault("vm.drives[].bootindex", "no place in the boot order"),
		notedDefault("vm.drives[].file", "an empty CD drive; a disk needs one of file, device, resource and nbd"),
		notedDefault("vm.drives[].device", "see file"),
		notedDefault("vm.drives[].resource", "see file"),
		notedDefault("vm.drives[].nbd", "see file"),
		notedDefault("vm.drives[].nbd.host", "required in nbd"),
		fixedDefault("vm.drives[].nbd.port", nbdPort, "", func(s *Spec) (fields []*int) {
			for i := range s.Drives {
				if nbd := s.Drives[i].NBD; nbd != nil {
					fields = append(fields, &nbd.Port)
				}
			}
			return fields
		}),
		notedDefault("vm.drives[].nbd.export", "the server's default export"),
		notedDefault("vm.drives[].nbd.tls", "neither encryption nor certificates"),
		fixedDefault("vm.drives[].format", "raw", "", eachDrive(func(d *Drive) *string { return &d.Format })),
		derivedDefault("vm.drives[].bus", "ide for a CD drive", func(s *Spec) {
			for i := range s.Drives {
				if d := &s.Drives[i]; d.Bus == "" && d.Type == DriveIDECD {
					d.Bus = "ide"
				}
			}
		}),
		{Path: "vm.drives[].size", Note: "the image or its source must exist", Unit: "bytes"},
		notedDefault("vm.drives[].source", "none: the image exists, or is created empty with size"),
		notedDefault("vm.drives[].sourceChecksum", "not checked; for an image given by name, the publisher's checksum"),
		switchedOff("vm.drives[].readOnly"),
		derivedDefault("vm.drives[].serial", "the name of the image, device or export; `cd0`, `cd1` … for CD drives", nameSerials),
		notedDefault("vm.drives[].cache", "none if direct I/O is possible, writeback otherwise"),
		notedDefault("vm.drives[].aio", "native for a device; io_uring for an image if direct I/O is possible, threads otherwise"),
		notedDefault("vm.drives[].iothread", "true for a virtio disk on PCI and for SCSI disks of the type cloud, false otherwise"),
		notedDefault("vm.drives[].discard", "unmap"),
		notedDefault("vm.drives[].detectZeroes", "off"),
		{Path: "vm.drives[].logicalBlockSize", Note: "512 B", Unit: "bytes"},
		{Path: "vm.drives[].physicalBlockSize", Note: "logicalBlockSize", Unit: "bytes"},
		notedDefault("vm.drives[].rotationRate", "unknown to the guest"),
		notedDefault("vm.drives[].limits", "no limits"),
		notedDefault("vm.drives[].limits.iops", "no limit"),
		notedDefault("vm.drives[].limits.iopsRead", "no limit"),
		notedDefault("vm.drives[].limits.iopsWrite", "no limit"),
		{Path: "vm.drives[].limits.bytes", Note: "no limit", Unit: "bytes per second"},
		{Path: "vm.drives[].limits.bytesRead", Note: "no limit", Unit: "bytes per second"},
		{Path: "vm.drives[].limits.bytesWrite", Note: "no limit", Unit: "bytes per second"},
	}
}

func displayDefaults() []Default {
	return []Default{
		notedDefault("vm.display", "no screen that can be reached"),
		fixedDefault("vm.display.outputs", 1, "monitors", singleField(func(s *Spec) *int {
			if s.Display == nil {
				return nil
			}
			return &s.Display.Outputs
		})),
		notedDefault("vm.display.loggedInUser", "no user is logged in automatically"),
		switchedOff("vm.display.withoutPassword"),
		notedDefault("vm.display.spice", "no SPICE server"),
		fixedDefault("vm.display.spice.port", 5900, "", ofSpice(func(v *Spice) *int { return &v.Port })),
		notedDefault("vm.display.spice.address", "every address"),
		notedDefault("vm.display.spice.streamingVideo", "QEMU's choice"),
		pointedDefault("vm.display.spice.usbRedirects", 2, "devices", ofSpice(func(v *Spice) **int {
			return &v.USBRedirects
		})),
		notedDefault("vm.display.vnc", "no VNC server"),
		zeroDefault("vm.display.vnc.port", "only the socket vnc.sock in the runtime directory"),
		notedDefault("vm.display.vnc.address", "127.0.0.1"),
	}
}

// fixedDefault returns a default with the same value for all VMs.
func fixedDefault[T comparable](path string, value T, unit string, fields func(*Spec) []*T) Default {
	return Default{Path: path, Value: fmt.Sprint(value), Unit: unit, set: func(s *Spec) {
		var absent T
		for _, field := range fields(s) {
			if *field == absent {
				*field = value
			}
		}
	}}
}

// pointedDefault does the same as fixedDefault, for keys with a meaningful zero value.
func pointedDefault[T any](path string, value T, unit string, fields func(*Spec) []**T) Default {
	return Default{Path: path, Value: fmt.Sprint(value), Unit: unit, set: func(s *Spec) {
		for _, field := range fields(s) {
			if *field == nil {
				*field = new(value)
			}
		}
	}}
}

// derivedDefault returns a default that depends on other keys.
func derivedDefault(path, note string, set func(*Spec)) Default {
	return Default{Path: path, Note: note, set: set}
}

// notedDefault returns the entry of a key without a default.
func notedDefault(path, note string) Default { return Default{Path: path, Note: note} }

// switchedOff returns the default of a switch that is off by default.
func switchedOff(path string) Default { return Default{Path: path, Value: strconv.FormatBool(false)} }

// zeroDefault returns the default of a number that is 0 by default.
func zeroDefault(path, note string) Default {
	return Default{Path: path, Value: strconv.Itoa(0), Note: note}
}

// The functions below convert "the field of one element" to "the fields of all elements", without nil fields.

func singleField[T any](field func(*Spec) *T) func(*Spec) []*T {
	return func(s *Spec) []*T { return presentField(field(s)) }
}

func ofSpice[T any](field func(*Spice) *T) func(*Spec) []*T {
	return func(s *Spec) []*T {
		if s.Display == nil || s.Display.Spice == nil {
			return nil
		}
		return presentField(field(s.Display.Spice))
	}
}

func eachNIC[T any](field func(*Network) *T) func(*Spec) []*T {
	return func(s *Spec) (fields []*T) {
		for i := range s.Network {
			fields = append(fields, presentField(field(&s.Network[i]))...)
		}
		return fields
	}
}

func eachPort[T any](field func(*PortForward) *T) func(*Spec) []*T {
	return func(s *Spec) (fields []*T) {
		for i := range s.Network {
			for j := range s.Network[i].Ports {
				fields = append(fields, presentField(field(&s.Network[i].Ports[j]))...)
			}
		}
		return fields
	}
}

func eachDrive[T any](field func(*Drive) *T) func(*Spec) []*T {
	return func(s *Spec) (fields []*T) {
		for i := range s.Drives {
			fields = append(fields, presentField(field(&s.Drives[i]))...)
		}
		return fields
	}
}

func presentField[T any](field *T) []*T {
	if field == nil {
		return nil
	}
	return []*T{field}
}

// cloneSpec returns a deep copy. Nil stays nil and empty stays empty: an empty list of networks means that the VM has
// no network.
func (s Spec) cloneSpec() Spec {
	s.PowerdownTimeout = clonePointer(s.PowerdownTimeout)
	s.Kernel = clonePointer(s.Kernel)
	s.Network = slices.Clone(s.Network)
	for i := range s.Network {
		s.Network[i].Ports = slices.Clone(s.Network[i].Ports)
		if all := clonePointer(s.Network[i].AllPorts); all != nil {
			all.Keep = slices.Clone(all.Keep)
			s.Network[i].AllPorts = all
		}
		if l := clonePointer(s.Network[i].Lease); l != nil {
			if names := clonePointer(l.Nameservers); names != nil {
				names.Addresses, names.Search = slices.Clone(names.Addresses), slices.Clone(names.Search)
				l.Nameservers = names
			}
			l.Routes = slices.Clone(l.Routes)
			s.Network[i].Lease = l
		}
		s.Network[i].Filter = clonePointer(s.Network[i].Filter)
	}
	s.Drives = slices.Clone(s.Drives)
	for i := range s.Drives {
		d := &s.Drives[i]
		d.Bootindex, d.NBD, d.Limits = clonePointer(d.Bootindex), clonePointer(d.NBD), clonePointer(d.Limits)
	}
	if s.Display = clonePointer(s.Display); s.Display != nil {
		s.Display.VNC = clonePointer(s.Display.VNC)
		if s.Display.Spice = clonePointer(s.Display.Spice); s.Display.Spice != nil {
			s.Display.Spice.USBRedirects = clonePointer(s.Display.Spice.USBRedirects)
		}
	}
	if s.SerialConsole = clonePointer(s.SerialConsole); s.SerialConsole != nil {
		s.SerialConsole.Enabled = clonePointer(s.SerialConsole.Enabled)
	}
	if s.Options != nil {
		s.Options = cloneValue(s.Options).(map[string]any)
	}
	return s
}

func clonePointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

func cloneValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := maps.Clone(v)
		for key, element := range c {
			c[key] = cloneValue(element)
		}
		return c
	case []any:
		c := slices.Clone(v)
		for i, element := range c {
			c[i] = cloneValue(element)
		}
		return c
	default:
		return v
	}
}
