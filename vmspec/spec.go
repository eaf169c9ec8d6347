package vmspec

import "slices"

// A Spec is the vm section: what one virtual machine looks like, in the
// user's terms. The zero value of a field means "not given"; WithDefaults says
// what is used then. A field tagged min can't be given as less than that, so
// that an explicit 0 is distinguished from an absent key when the file is read.
type Spec struct {
	// Name of the VM; also QEMU's -name and part of default directories.
	Name string `yaml:"name"`
	// UUID of the machine (SMBIOS); kept in the data directory if absent.
	UUID string `yaml:"uuid"`

	// MachineType is QEMU's -machine type or alias. Empty means what the VM
	// type chooses (q35 in the standard type). An alias is pinned to the
	// concrete version at the VM's first start.
	MachineType string `yaml:"machineType"`
	// Accelerator that runs the guest's code.
	Accelerator Accelerator `yaml:"accelerator"`
	// Firmware the guest boots from.
	Firmware Firmware `yaml:"firmware"`
	// BootMenu shows the firmware's boot menu.
	BootMenu bool `yaml:"bootMenu"`
	// Kernel boots a Linux kernel directly, without a boot loader.
	Kernel *Kernel `yaml:"kernel"`
	// UseTPM adds a TPM 2.0, emulated by swtpm.
	UseTPM bool `yaml:"useTpm"`

	// CPUModel is QEMU's -cpu: a model name and its properties.
	CPUModel string `yaml:"cpuModel"`
	// MaximumCPUs is how many CPUs may be plugged while the VM runs.
	MaximumCPUs int `yaml:"maximumCpus" min:"1"`
	// CurrentCPUs is how many CPUs the guest sees now, at most MaximumCPUs;
	// live changeable.
	CurrentCPUs int `yaml:"currentCpus" min:"1"`
	// Sockets, DiesPerSocket, CoresPerDie and ThreadsPerCore are the CPU
	// topology. 0 leaves a level to QEMU. Their product is MaximumCPUs.
	Sockets        int `yaml:"sockets"`
	DiesPerSocket  int `yaml:"diesPerSocket"`
	CoresPerDie    int `yaml:"coresPerDie"`
	ThreadsPerCore int `yaml:"threadsPerCore"`

	// MaximumRAM is the memory the machine is started with: whole MiB.
	MaximumRAM Bytes `yaml:"maximumRam" min:"1"`
	// CurrentRAM is the memory the guest may use now (balloon): whole MiB, at
	// most MaximumRAM; live changeable.
	CurrentRAM Bytes `yaml:"currentRam" min:"1"`

	// RTCBase is QEMU's -rtc base: utc, localtime or a date-time.
	RTCBase string `yaml:"rtcBase"`
	// RTCClock is QEMU's -rtc clock: host, rt or vm.
	RTCClock string `yaml:"rtcClock"`

	// PowerdownTimeout is how long a guest may take to shut down before it is
	// stopped by force; 0 stops it by force at once. Live changeable. Never nil
	// after WithDefaults.
	PowerdownTimeout *Seconds `yaml:"powerdownTimeout"`

	// Network lists the network interfaces. Absent means one tap, or for the runner one
	// user network where there is no DefaultBridge; an empty list means none.
	Network []Network `yaml:"network"`
	// Drives lists disks and CD drives.
	Drives []Drive `yaml:"drives"`
	// Display says how the screen can be reached; absent means no screen.
	Display *Display `yaml:"display"`
	// SerialConsole is the guest's first serial port (ttyS0).
	SerialConsole *SerialConsole `yaml:"serialConsole"`

	// Options are what the VM type takes beyond the vm section; the type declares
	// and checks them. The values are nil, bool, int64, float64, string, []any and
	// map[string]any.
	Options map[string]any `yaml:"options"`
}

// Accelerator names what runs the guest's code; see QEMU's -accel.
type Accelerator string

// The accelerators.
const (
	AcceleratorAuto Accelerator = "auto" // kvm where it can be used, else tcg
	AcceleratorKVM  Accelerator = "kvm"
	AcceleratorTCG  Accelerator = "tcg"
	AcceleratorNone Accelerator = "none" // no -accel option at all
)

// Firmware names what the guest boots from.
type Firmware string

// The kinds of firmware. The 4M kinds use the larger flash image that current
// distributions prefer; the secure kinds have secure boot (and SMM).
const (
	FirmwareBIOS     Firmware = "bios"
	FirmwareUEFI     Firmware = "uefi"
	FirmwareUEFI4M   Firmware = "uefi-4m"
	FirmwareSecure   Firmware = "secure"
	FirmwareSecure4M Firmware = "secure-4m"
)

// Kernel is a Linux kernel that QEMU loads itself (-kernel, -initrd, -append).
type Kernel struct {
	Image       string `yaml:"image"`
	Initrd      string `yaml:"initrd"`
	CommandLine string `yaml:"commandLine"`
}

// Network is one network interface and what is behind it.
type Network struct {
	// Type is "tap" (a host bridge), "user" (QEMU's user-mode network), "passt" (the
	// same by a process beside QEMU) or "masquerade" (a private subnet behind the runner's
	// network namespace).
	Type NetworkType `yaml:"type"`
	// Device is the QEMU device of the card, virtio-net-pci by default.
	Device string `yaml:"device"`
	// MAC is the hardware address; derived from the uuid if absent.
	MAC string `yaml:"mac"`
	// Bridge is the host bridge of a tap.
	Bridge string `yaml:"bridge"`
	// Ifname is the name of the tap on the host; derived from the uuid if absent.
	Ifname string `yaml:"ifname"`
	// Net is the guest's IPv4 subnet (user, masquerade), as CIDR.
	Net string `yaml:"net"`
	// Ports are forwarded from the host to the guest (user, passt, masquerade).
	Ports []PortForward `yaml:"ports"`
	// HostLoopback lets the guest reach what listens on loopback addresses of the host (user, passt). One
	// user network with it is enough for all of the VM's.
	HostLoopback bool `yaml:"hostLoopback"`
	// AllPorts hands all ports of the namespace's addresses to the guest (masquerade); nil:
	// those of Ports only. At most one network has it.
	AllPorts *AllPorts `yaml:"allPorts"`
	// Lease is the address that the runner gives the guest by DHCP (tap); nil: a server on
	// the bridge does. The keys are those of cloud-init's network configuration v2.
	Lease *Lease `yaml:"lease"`
	// Filter keeps the guest of a tap to its card's hardware address, and to the address of Lease. Without a Lease it
	// drops answers of DHCP servers and routers from the guest. With a Lease never nil after WithDefaults.
	Filter *bool `yaml:"filter"`
}

// ReachesLoopback reports whether the guest may reach loopback addresses of the host by a type of network. QEMU
// connects for all user networks, so one with HostLoopback is enough.
func (s Spec) ReachesLoopback(by NetworkType) bool {
	return slices.ContainsFunc(s.Network, func(n Network) bool { return n.Type == by && n.HostLoopback })
}

// Lease is what a guest learns by DHCP, all of it IPv4.
type Lease struct {
	// Address is the guest's, with the length of its subnet: "10.66.10.14/24".
	Address string `yaml:"address"`
	// Gateway is the router to everything outside; empty: none.
	Gateway     string       `yaml:"gateway"`
	Nameservers *Nameservers `yaml:"nameservers"`
	// Routes lead to what is behind other routers.
	Routes []Route `yaml:"routes"`
}

// Nameservers answer for names.
type Nameservers struct {
	Addresses []string `yaml:"addresses"`
	// Search are the domains for names without a dot.
	Search []string `yaml:"search"`
}

// Route leads to a subnet by a router.
type Route struct {
	// To is a subnet, as CIDR; Via a router in the guest's subnet.
	To  string `yaml:"to"`
	Via string `yaml:"via"`
}

// Example returns how one is written in a configuration.
func (Route) Example() string { return "{to: 10.7.0.0/16, via: 10.66.10.2}" }

// AllPorts hands all ports to the guest, but those of other networks and of the display.
type AllPorts struct {
	// Keep are the ports, of TCP and UDP, that stay the namespace's.
	Keep []int `yaml:"keep"`
}

// NetworkType names what is behind a network interface.
type NetworkType string

// The types of networks.
const (
	NetworkTap        NetworkType = "tap"
	NetworkUser       NetworkType = "user"
	NetworkPasst      NetworkType = "passt"
	NetworkMasquerade NetworkType = "masquerade"
)

// PortForward makes a port of the guest reachable on the host.
type PortForward struct {
	// Protocol is "tcp" (default) or "udp".
	Protocol string `yaml:"protocol"`
	// Address of the host to listen on; empty means 127.0.0.1 with a user or
	// passt network and every address with masquerade.
	Address string `yaml:"address"`
	// Host is the port on the host, Guest the port in the guest (default: the
	// same).
	Host  int `yaml:"host"`
	Guest int `yaml:"guest" min:"1"`
}

// Example returns how one is written in a configuration.
func (PortForward) Example() string { return "{host: 2222, guest: 22}" }

// Drive is a disk or a CD drive.
type Drive struct {
	// Type is "raw" (a disk, the default) or "ide-cd" (a CD drive).
	Type DriveType `yaml:"type"`
	// Bootindex orders boot devices, lowest first; absent means not bootable
	// by order.
	Bootindex *int `yaml:"bootindex"`
	// File is an image file of the host, or a URL for a CD. A CD drive without
	// a file is empty.
	File string `yaml:"file"`
	// Device is a block device of the host.
	Device string `yaml:"device"`
	// Resource is a file or a block device; which one is found out at start.
	Resource string `yaml:"resource"`
	// NBD is an export of a server, which the machine gets when it runs; nil: the disk, or the medium of a CD
	// drive, is one of the others. It is the runner's matter: VM types don't see the drive.
	NBD *NBD `yaml:"nbd" vmtype:"-"`
	// Format of the image: "raw" (default) or "qcow2".
	Format string `yaml:"format"`
	// Bus of a CD drive: "ide" (default) or "scsi".
	Bus string `yaml:"bus"`
	// Size makes the runner make File, a raw image, where there is none, and let it
	// grow: whole MiB. 0 means that File must be there, or a Source.
	Size Bytes `yaml:"size" min:"1"`
	// Source is the image of which File, a raw image, is made where there is none: a URL, a
	// path or a name; see SourceKindOf. It is the runner's matter: VM types don't see it.
	Source string `yaml:"source" vmtype:"-"`
	// SourceChecksum is what Source must have as it is transferred: "sha256:", "sha512:" or
	// "md5:" and hexadecimal digits. Empty means that it is not checked, but for an image that
	// is given by name: its publisher has one.
	SourceChecksum string `yaml:"sourceChecksum" vmtype:"-"`
	// ReadOnly disks can't be written by the guest.
	ReadOnly bool `yaml:"readOnly"`
	// Serial is the serial number by which the guest knows the drive, in Linux below
	// /dev/disk/by-id: at most LongestSerial letters, digits and "._-". The default is the
	// name of the image or device.
	Serial string `yaml:"serial"`
}

// NBD is an export of a server of network block devices; see "The NBD protocol".
type NBD struct {
	// Host is the server's name or address, and Port its TCP port.
	Host string `yaml:"host"`
	Port int    `yaml:"port" min:"1"`
	// Export is its name; empty is the server's default export.
	Export string `yaml:"export"`
	// TLS is a folder with the certificates of both sides, as QEMU names the files (package
	// nbdexport). Empty means that the connection is neither encrypted nor authenticated.
	TLS string `yaml:"tls"`
}

// WithoutNBD returns a copy with the drives that a machine is started with: those of NBD servers
// come when it runs. They are the last ones, so the places of the others are the same.
func (s Spec) WithoutNBD() Spec {
	s.Drives = slices.DeleteFunc(slices.Clone(s.Drives), func(d Drive) bool { return d.NBD != nil })
	return s
}

// DriveType tells disks from CD drives.
type DriveType string

// The types of drives.
const (
	DriveRaw   DriveType = "raw"
	DriveIDECD DriveType = "ide-cd"
)

// Display says how the guest's screen can be reached.
type Display struct {
	// Outputs is the number of monitors.
	Outputs int `yaml:"outputs" min:"1"`
	// LoggedInUser is logged in by the agent in the guest; live changeable.
	LoggedInUser string `yaml:"loggedInUser"`
	// WithoutPassword allows displays that others than the users of the host reach to
	// be without a password.
	WithoutPassword bool   `yaml:"withoutPassword"`
	Spice           *Spice `yaml:"spice"`
	VNC             *VNC   `yaml:"vnc"`
}

// Spice is a SPICE server; see QEMU's -spice.
type Spice struct {
	// Port is the TCP port to listen on.
	Port int `yaml:"port" min:"1"`
	// Address to listen on; empty means all.
	Address string `yaml:"address"`
	// StreamingVideo is off, all or filter.
	StreamingVideo string `yaml:"streamingVideo"`
	// USBRedirects is how many of the client's USB devices the guest can have.
	USBRedirects *int `yaml:"usbRedirects"`
}

// VNC is a VNC server on a unix socket in the runtime directory, "vnc.sock".
type VNC struct {
	// Port makes the server listen on TCP port Port as well, if not 0; 5900 or
	// more, since QEMU counts displays from there.
	Port int `yaml:"port"`
	// Address to listen on if Port is set; empty means 127.0.0.1.
	Address string `yaml:"address"`
}

// SerialConsole is the guest's first serial port.
type SerialConsole struct {
	// Enabled is true unless switched off.
	Enabled *bool `yaml:"enabled"`
	// Log is a file to which the output is appended; empty means none.
	Log string `yaml:"log"`
}
