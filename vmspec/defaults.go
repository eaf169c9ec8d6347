package vmspec

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// A Default says what is used for a key of the vm section that is absent.
type Default struct {
	// Path of the key: "vm.display.spice.port", "vm.network[].mac".
	Path string
	// Value is what is used; "" if it is not always the same.
	Value string
	// Unit in which Value counts; "" for names and switches.
	Unit string
	// Note says how the value is found, or what absence means.
	Note string

	set func(*Spec)
}

// Defaults returns the defaults of all keys in the order of the documentation.
// WithDefaults applies this very table, in this order.
func Defaults() []Default {
	return slices.Concat(machineDefaults(), cpuAndMemoryDefaults(), networkDefaults(), leaseDefaults(),
		driveDefaults(), displayDefaults())
}

// WithDefaults returns a copy in which everything that has a default is set.
// The copy shares nothing with s. What derives from the uuid (hardware
// addresses, names of taps) stays unset as long as the uuid is unknown. Values
// that are given are never changed, not even wrong ones: Check finds these.
func (s Spec) WithDefaults() Spec {
	copied := s.clone()
	for _, d := range Defaults() {
		if d.set != nil {
			d.set(&copied)
		}
	}
	return copied
}

func machineDefaults() []Default {
	return []Default{
		noted("vm.name", "required"),
		noted("vm.uuid", "the first line of uuid.txt in the data directory, else a random one that is written there"),
		noted("vm.machineType", "what the VM type chooses"),
		fixed("vm.accelerator", AcceleratorAuto, "", one(func(s *Spec) *Accelerator { return &s.Accelerator })),
		fixed("vm.firmware", FirmwareUEFI, "", one(func(s *Spec) *Firmware { return &s.Firmware })),
		off("vm.bootMenu"),
		noted("vm.kernel", "boot from a drive"),
		noted("vm.kernel.image", "required in kernel"),
		noted("vm.kernel.initrd", "none"),
		noted("vm.kernel.commandLine", "empty"),
		off("vm.useTpm"),
		noted("vm.options", "none"),
		fixed("vm.rtcBase", "utc", "", one(func(s *Spec) *string { return &s.RTCBase })),
		fixed("vm.rtcClock", "rt", "", one(func(s *Spec) *string { return &s.RTCClock })),
		pointed("vm.powerdownTimeout", Seconds(900), "seconds", one(func(s *Spec) **Seconds {
			return &s.PowerdownTimeout
		})),
		derived("vm.serialConsole", "a serial port without a log", func(s *Spec) {
			if s.SerialConsole == nil {
				s.SerialConsole = &SerialConsole{}
			}
		}),
		pointed("vm.serialConsole.enabled", true, "", one(func(s *Spec) **bool { return &s.SerialConsole.Enabled })),
		noted("vm.serialConsole.log", "none"),
	}
}

func cpuAndMemoryDefaults() []Default {
	return []Default{
		fixed("vm.cpuModel", "host", "", one(func(s *Spec) *string { return &s.CPUModel })),
		zero("vm.sockets", "a level that QEMU chooses"),
		zero("vm.diesPerSocket", "a level that QEMU chooses"),
		zero("vm.coresPerDie", "a level that QEMU chooses"),
		zero("vm.threadsPerCore", "a level that QEMU chooses"),
		derived("vm.maximumCpus", "the product of the topology if one is given, else currentCpus, else 1", func(s *Spec) {
			switch {
			case s.MaximumCPUs != 0:
			case s.hasTopology():
				s.MaximumCPUs = s.topologyProduct()
			default:
				s.MaximumCPUs = max(1, s.CurrentCPUs)
			}
		}),
		derived("vm.currentCpus", "maximumCpus", func(s *Spec) {
			// See docs/decisions/0013-current-cpus.md.
			if s.CurrentCPUs == 0 {
				s.CurrentCPUs = s.MaximumCPUs
			}
		}),
		fixed("vm.maximumRam", GiB, "bytes", one(func(s *Spec) *Bytes { return &s.MaximumRAM })),
		derived("vm.currentRam", "maximumRam", func(s *Spec) {
			if s.CurrentRAM == 0 {
				s.CurrentRAM = s.MaximumRAM
			}
		}),
	}
}

// DefaultBridge is the bridge of a tap that names none.
const DefaultBridge = "br0"

func networkDefaults() []Default {
	return []Default{
		derived("vm.network", "one tap, or one user network where there is no bridge br0; an empty list means none", func(s *Spec) {
			if s.Network == nil {
				s.Network = []Network{{Type: NetworkTap}}
			}
		}),
		fixed("vm.network[].type", NetworkTap, "", eachNIC(func(n *Network) *NetworkType { return &n.Type })),
		fixed("vm.network[].device", "virtio-net-pci", "", eachNIC(func(n *Network) *string { return &n.Device })),
		derived("vm.network[].mac", "derived from uuid and position", func(s *Spec) {
			for i := range s.Network {
				if n := &s.Network[i]; n.MAC == "" && s.UUID != "" {
					n.MAC = MAC(s.UUID, i)
				}
			}
		}),
		derived("vm.network[].bridge", DefaultBridge+" for a tap", func(s *Spec) {
			for i := range s.Network {
				if n := &s.Network[i]; n.Bridge == "" && n.Type == NetworkTap {
					n.Bridge = DefaultBridge
				}
			}
		}),
		derived("vm.network[].ifname", "derived from uuid and position, for a tap and masquerade", func(s *Spec) {
			for i := range s.Network {
				if n := &s.Network[i]; n.Ifname == "" && n.hasTap() && s.UUID != "" {
					n.Ifname = Ifname(s.UUID, i)
				}
			}
		}),
		noted("vm.network[].net", "masquerade: a subnet that is free; user: QEMU's choice, 10.0.2.0/24"),
		noted("vm.network[].ports", "none"),
		off("vm.network[].hostLoopback"),
		noted("vm.network[].allPorts", "only `ports` lead to the guest"),
		noted("vm.network[].allPorts.keep", "none"),
		fixed("vm.network[].ports[].protocol", "tcp", "", eachPort(func(p *PortForward) *string {
			return &p.Protocol
		})),
		noted("vm.network[].ports[].address", "127.0.0.1 with user and passt, every address with masquerade"),
		noted("vm.network[].ports[].host", "required in ports"),
		derived("vm.network[].ports[].guest", "the same as host", func(s *Spec) {
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
		noted("vm.network[].lease", "a DHCP server on the bridge gives addresses"),
		noted("vm.network[].lease.address", "required in lease"),
		noted("vm.network[].lease.gateway", "none"),
		noted("vm.network[].lease.nameservers", "none"),
		noted("vm.network[].lease.nameservers.addresses", "none"),
		noted("vm.network[].lease.nameservers.search", "none"),
		noted("vm.network[].lease.routes", "none"),
		noted("vm.network[].lease.routes[].to", "required in routes"),
		noted("vm.network[].lease.routes[].via", "required in routes"),
		derived("vm.network[].filter", "true with a lease", func(s *Spec) {
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
		noted("vm.drives", "none"),
		fixed("vm.drives[].type", DriveRaw, "", eachDrive(func(d *Drive) *DriveType { return &d.Type })),
		noted("vm.drives[].bootindex", "no place in the boot order"),
		noted("vm.drives[].file", "an empty CD drive; a disk needs one of file, device, resource and nbd"),
		noted("vm.drives[].device", "see file"),
		noted("vm.drives[].resource", "see file"),
		noted("vm.drives[].nbd", "see file"),
		noted("vm.drives[].nbd.host", "required in nbd"),
		fixed("vm.drives[].nbd.port", nbdPort, "", func(s *Spec) (fields []*int) {
			for i := range s.Drives {
				if nbd := s.Drives[i].NBD; nbd != nil {
					fields = append(fields, &nbd.Port)
				}
			}
			return fields
		}),
		noted("vm.drives[].nbd.export", "the server's default export"),
		noted("vm.drives[].nbd.tls", "neither encryption nor certificates"),
		fixed("vm.drives[].format", "raw", "", eachDrive(func(d *Drive) *string { return &d.Format })),
		derived("vm.drives[].bus", "ide for a CD drive", func(s *Spec) {
			for i := range s.Drives {
				if d := &s.Drives[i]; d.Bus == "" && d.Type == DriveIDECD {
					d.Bus = "ide"
				}
			}
		}),
		{Path: "vm.drives[].size", Note: "the image must be there, or its source", Unit: "bytes"},
		noted("vm.drives[].source", "none: the image is there, or is made empty, with size"),
		noted("vm.drives[].sourceChecksum", "not checked; that of its publisher for an image that is given by name"),
		off("vm.drives[].readOnly"),
		derived("vm.drives[].serial", "the name of the image, device or export; `cd0`, `cd1` … for CD drives", nameSerials),
	}
}

func displayDefaults() []Default {
	return []Default{
		noted("vm.display", "no screen that can be reached"),
		fixed("vm.display.outputs", 1, "monitors", one(func(s *Spec) *int {
			if s.Display == nil {
				return nil
			}
			return &s.Display.Outputs
		})),
		noted("vm.display.loggedInUser", "no user is logged in automatically"),
		off("vm.display.withoutPassword"),
		noted("vm.display.spice", "no SPICE server"),
		fixed("vm.display.spice.port", 5900, "", ofSpice(func(v *Spice) *int { return &v.Port })),
		noted("vm.display.spice.address", "every address"),
		noted("vm.display.spice.streamingVideo", "QEMU's choice"),
		pointed("vm.display.spice.usbRedirects", 2, "devices", ofSpice(func(v *Spice) **int {
			return &v.USBRedirects
		})),
		noted("vm.display.vnc", "no VNC server"),
		zero("vm.display.vnc.port", "only the socket vnc.sock in the runtime directory"),
		noted("vm.display.vnc.address", "127.0.0.1"),
	}
}

// fixed is the default of keys that are always the same.
func fixed[T comparable](path string, value T, unit string, fields func(*Spec) []*T) Default {
	return Default{Path: path, Value: fmt.Sprint(value), Unit: unit, set: func(s *Spec) {
		var absent T
		for _, field := range fields(s) {
			if *field == absent {
				*field = value
			}
		}
	}}
}

// pointed is fixed for keys whose zero means something.
func pointed[T any](path string, value T, unit string, fields func(*Spec) []**T) Default {
	return Default{Path: path, Value: fmt.Sprint(value), Unit: unit, set: func(s *Spec) {
		for _, field := range fields(s) {
			if *field == nil {
				*field = new(value)
			}
		}
	}}
}

// derived is a default that depends on other keys.
func derived(path, note string, set func(*Spec)) Default {
	return Default{Path: path, Note: note, set: set}
}

// noted is a key without a default.
func noted(path, note string) Default { return Default{Path: path, Note: note} }

// off is a switch that is off unless switched on.
func off(path string) Default { return Default{Path: path, Value: strconv.FormatBool(false)} }

// zero is a number that is 0 unless given.
func zero(path, note string) Default {
	return Default{Path: path, Value: strconv.Itoa(0), Note: note}
}

// The functions below turn "the field of one" into "the fields of all"; a nil
// field is left out.

func one[T any](field func(*Spec) *T) func(*Spec) []*T {
	return func(s *Spec) []*T { return present(field(s)) }
}

func ofSpice[T any](field func(*Spice) *T) func(*Spec) []*T {
	return func(s *Spec) []*T {
		if s.Display == nil || s.Display.Spice == nil {
			return nil
		}
		return present(field(s.Display.Spice))
	}
}

func eachNIC[T any](field func(*Network) *T) func(*Spec) []*T {
	return func(s *Spec) (fields []*T) {
		for i := range s.Network {
			fields = append(fields, present(field(&s.Network[i]))...)
		}
		return fields
	}
}

func eachPort[T any](field func(*PortForward) *T) func(*Spec) []*T {
	return func(s *Spec) (fields []*T) {
		for i := range s.Network {
			for j := range s.Network[i].Ports {
				fields = append(fields, present(field(&s.Network[i].Ports[j]))...)
			}
		}
		return fields
	}
}

func eachDrive[T any](field func(*Drive) *T) func(*Spec) []*T {
	return func(s *Spec) (fields []*T) {
		for i := range s.Drives {
			fields = append(fields, present(field(&s.Drives[i]))...)
		}
		return fields
	}
}

func present[T any](field *T) []*T {
	if field == nil {
		return nil
	}
	return []*T{field}
}

// clone returns a deep copy. Nil stays nil and empty stays empty: an empty list
// of networks means none.
func (s Spec) clone() Spec {
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
		s.Drives[i].Bootindex, s.Drives[i].NBD = clonePointer(s.Drives[i].Bootindex), clonePointer(s.Drives[i].NBD)
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
