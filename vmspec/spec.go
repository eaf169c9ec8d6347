package vmspec

import "slices"

// A Spec is the vm section: the description of a virtual machine in the user's terms. The zero value of a field
// means that the key is absent; WithDefaults then sets the default. The tag min is the minimum of a given value.
// With it, the reader of the file can distinguish an explicit 0 from an absent key.
type Spec struct {
	// Name of the VM, also used for QEMU's -name and in default directories.
	Name string `yaml:"name"`
	// UUID of the machine (SMBIOS). If it is absent, a uuid is stored in the data directory.
	UUID string `yaml:"uuid"`

	// MachineType is QEMU's -machine type or alias. If it is empty, the VM type chooses the type (q35 in the
	// standard type). At the VM's first start, an alias is pinned to the concrete version.
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
	// MaximumCPUs is the maximum number of CPUs while the VM is running.
	MaximumCPUs int `yaml:"maximumCpus" min:"1"`
	// CurrentCPUs is the number of CPUs visible to the guest, at most MaximumCPUs; live changeable.
	CurrentCPUs int `yaml:"currentCpus" min:"1"`
	// Sockets, DiesPerSocket, CoresPerDie and ThreadsPerCore are the CPU topology. If a level is 0, QEMU chooses
	// it. Their product is MaximumCPUs.
	Sockets        int `yaml:"sockets"`
	DiesPerSocket  int `yaml:"diesPerSocket"`
	CoresPerDie    int `yaml:"coresPerDie"`
	ThreadsPerCore int `yaml:"threadsPerCore"`

	// MaximumRAM is the machine's memory at the start: whole MiB.
	MaximumRAM Bytes `yaml:"maximumRam" min:"1"`
	// CurrentRAM is the memory that the guest may currently use (balloon): whole MiB, at most MaximumRAM; live
	// changeable.
	CurrentRAM Bytes `yaml:"currentRam" min:"1"`

	// RTCBase is QEMU's -rtc base: utc, localtime or a date-time.
	RTCBase string `yaml:"rtcBase"`
	// RTCClock is QEMU's -rtc clock: host, rt or vm.
	RTCClock string `yaml:"rtcClock"`

	// PowerdownTimeout is the time for a guest to shut down. After that, it is stopped by force; 0 means
	// immediately. Live changeable. Never nil after WithDefaults.
	PowerdownTimeout *Seconds `yaml:"powerdownTimeout"`

	// Network lists the network interfaces. If it is absent, the VM has one tap, or, if a runner finds no
	// DefaultBridge, one user network. An empty list means that the VM has no network.
	Network []Network `yaml:"network"`
	// Drives lists disks and CD drives.
	Drives []Drive `yaml:"drives"`
	// Display defines how the screen can be reached; absent means no screen.
	Display *Display `yaml:"display"`
	// SerialConsole is the guest's first serial port (ttyS0).
	SerialConsole *SerialConsole `yaml:"serialConsole"`

	// Options are the additional settings of the VM type, which declares and checks them. The values are nil,
	// bool, int64, float64, string, []any and map[string]any.
	Options map[string]any `yaml:"options"`
}

// Accelerator is the component that runs the guest's code; see QEMU's -accel.
type Accelerator string

// The accelerators.
const (
	AcceleratorAuto Accelerator = "auto" // kvm if it is available, otherwise tcg
	AcceleratorKVM  Accelerator = "kvm"
	AcceleratorTCG  Accelerator = "tcg"
	AcceleratorNone Accelerator = "none" // without the option -accel
)

// Firmware is the kind of firmware.
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

// Network is a network interface with its backend.
type Network struct {
	// Type is "tap" (a host bridge), "user" (QEMU's user-mode network), "passt" (a user-mode network in a process
	// next to QEMU) or "masquerade" (a private subnet behind the runner's network namespace).
	Type NetworkType `yaml:"type"`
	// Device is the QEMU device of the card, virtio-net-pci by default.
	Device string `yaml:"device"`
	// MAC is the hardware address; derived from the uuid if absent.
	MAC string `yaml:"mac"`
	// Link is "up", or "down" for a card without a connection to its network, as if its cable were pulled.
	Link LinkState `yaml:"link"`
	// Bridge is the host bridge of a tap.
	Bridge string `yaml:"bridge"`
	// Ifname is the name of the tap on the host; derived from the uuid if absent.
	Ifname string `yaml:"ifname"`
	// Net is the guest's IPv4 subnet (user, masquerade), as CIDR.
	Net string `yaml:"net"`
	// Ports are forwarded from the host to the guest (user, passt, masquerade).
	Ports []PortForward `yaml:"ports"`
	// HostLoopback allows the guest to reach services on loopback addresses of the host (user, passt). One user
	// network with it is enough for all user networks of the VM.
	HostLoopback bool `yaml:"hostLoopback"`
	// AllPorts forwards all ports of the namespace's addresses to the guest (masquerade). nil means that only
	// Ports are forwarded. At most one network may have it.
	AllPorts *AllPorts `yaml:"allPorts"`
	// Lease is the address that the runner assigns to the guest over DHCP (tap). nil means that a server on the
	// bridge does that. The keys are the same as in cloud-init's network configuration v2.
	Lease *Lease `yaml:"lease"`
	// Filter restricts the guest of a tap to its card's hardware address, and to the address of Lease. Without a
	// Lease, it drops answers of DHCP servers and routers from the guest. With a Lease it is never nil after
	// WithDefaults.
	Filter *bool `yaml:"filter"`
}

// ReachesLoopback reports whether the guest may reach loopback addresses of the host via networks of a type. QEMU
// connects for all user networks, so one network with HostLoopback is enough.
func (s Spec) ReachesLoopback(by NetworkType) bool {
	return slices.ContainsFunc(s.Network, func(n Network) bool { return n.Type == by && n.HostLoopback })
}

// Lease contains the IPv4 settings that a guest receives over DHCP.
type Lease struct {
	// Address is the guest's address with the length of its subnet: "10.66.10.14/24".
	Address string `yaml:"address"`
	// Gateway is the default router; may be empty.
	Gateway     string       `yaml:"gateway"`
	Nameservers *Nameservers `yaml:"nameservers"`
	// Routes are routes via other routers.
	Routes []Route `yaml:"routes"`
}

// Nameservers are DNS servers.
type Nameservers struct {
	Addresses []string `yaml:"addresses"`
	// Search are the domains for names without a dot.
	Search []string `yaml:"search"`
}

// Route is a route to a subnet via a router.
type Route struct {
	// To is a subnet, as CIDR. Via is a router in the guest's subnet.
	To  string `yaml:"to"`
	Via string `yaml:"via"`
}

// Example returns a route in the notation of a configuration.
func (Route) Example() string { return "{to: 10.7.0.0/16, via: 10.66.10.2}" }

// AllPorts forwards all ports to the guest, except the ports of other networks and of the display.
type AllPorts struct {
	// Keep are the excluded ports, for TCP and UDP.
	Keep []int `yaml:"keep"`
}

// LinkState is the state of a network card's link.
type LinkState string

// The link states.
const (
	LinkUp   LinkState = "up"
	LinkDown LinkState = "down"
)

// NetworkType is the backend of a network interface.
type NetworkType string

// The types of networks.
const (
	NetworkTap        NetworkType = "tap"
	NetworkUser       NetworkType = "user"
	NetworkPasst      NetworkType = "passt"
	NetworkMasquerade NetworkType = "masquerade"
)

// PortForward forwards a port of the host to a port of the guest.
type PortForward struct {
	// Protocol is "tcp" (default) or "udp".
	Protocol string `yaml:"protocol"`
	// Address is the host's address to listen on. If it is empty, it is 127.0.0.1 for a user or passt network,
	// and every address for masquerade.
	Address string `yaml:"address"`
	// Host is the port on the host. Guest is the port in the guest; its default is Host.
	Host  int `yaml:"host"`
	Guest int `yaml:"guest" min:"1"`
}

// Example returns a port forward in the notation of a configuration.
func (PortForward) Example() string { return "{host: 2222, guest: 22}" }

// Drive is a disk or a CD drive.
type Drive struct {
	// Type is "raw" (a disk, the default) or "ide-cd" (a CD drive).
	Type DriveType `yaml:"type"`
	// Bootindex is the position in the boot order, lowest first. A drive without it is excluded from the boot
	// order.
	Bootindex *int `yaml:"bootindex"`
	// File is an image file of the host, or a URL for a CD. A CD drive without a file is empty.
	File string `yaml:"file"`
	// Device is a block device of the host.
	Device string `yaml:"device"`
	// Resource is a file or a block device; the runner determines which when the VM starts.
	Resource string `yaml:"resource"`
	// NBD is an export of a server. It is attached when the machine is running. If it is nil, the disk, or the
	// medium of a CD drive, is one of the fields above. The runner handles NBD; the drive is hidden from VM
	// types.
	NBD *NBD `yaml:"nbd" vmtype:"-"`
	// Format of the image: "raw" (default) or "qcow2".
	Format string `yaml:"format"`
	// Bus of a CD drive: "ide" (default) or "scsi".
	Bus string `yaml:"bus"`
	// Size makes the runner create File, a raw image, if it is missing, and grow it if it is smaller: whole MiB.
	// If Size is 0, File must exist, or have a Source.
	Size Bytes `yaml:"size" min:"1"`
	// Source is the image for creating File, a raw image, if it is missing: a URL, a path or a name; see
	// SourceKindOf. The runner handles Source; it is hidden from VM types.
	Source string `yaml:"source" vmtype:"-"`
	// SourceChecksum is the checksum of Source as it is transferred: "sha256:", "sha512:" or "md5:", followed by
	// hexadecimal digits. If it is empty, only an image with a name is checked, with its publisher's checksum.
	SourceChecksum string `yaml:"sourceChecksum" vmtype:"-"`
	// ReadOnly protects the disk from the guest.
	ReadOnly bool `yaml:"readOnly"`
	// Serial is the drive's serial number in the guest, in Linux below /dev/disk/by-id: at most LongestSerial
	// letters, digits and "._-". The default is the name of the image or device.
	Serial string `yaml:"serial"`

	// The fields below tune a disk. A zero value means that the VM type decides.

	// Cache defines how the host caches the disk: "none", "writeback", "writethrough", "directsync" or "unsafe". See
	// the option cache of QEMU's -drive.
	Cache string `yaml:"cache"`
	// AIO is the host's interface for asynchronous requests: "threads", "native" or "io_uring".
	AIO string `yaml:"aio"`
	// IOThread is the thread of QEMU that processes the disk's requests.
	IOThread IOThread `yaml:"iothread"`
	// Discard defines whether space that the guest frees is freed on the host: "unmap" or "ignore".
	Discard string `yaml:"discard"`
	// DetectZeroes defines whether written zeroes are detected: "off", "on" or "unmap", which also frees their
	// space.
	DetectZeroes string `yaml:"detectZeroes"`
	// LogicalBlockSize and PhysicalBlockSize are the sizes of the disk's sectors in the guest: powers of 2, in bytes.
	LogicalBlockSize  Bytes `yaml:"logicalBlockSize" min:"1"`
	PhysicalBlockSize Bytes `yaml:"physicalBlockSize" min:"1"`
	// RotationRate is the disk's speed in rotations per minute; 1 is a disk that doesn't rotate.
	RotationRate int `yaml:"rotationRate" min:"1"`
	// Limits of the disk's speed; live changeable. nil means no limits.
	Limits *DiskLimits `yaml:"limits"`
}

// NBD is an export of a network block device server; see "The NBD protocol".
type NBD struct {
	// Host is the server's name or address, and Port its TCP port.
	Host string `yaml:"host"`
	Port int    `yaml:"port" min:"1"`
	// Export is the name of the export; empty means the server's default export.
	Export string `yaml:"export"`
	// TLS is a folder with the certificates of both sides, with QEMU's names for the files (package
	// diskimage/nbd). If it is empty, the connection is unencrypted and unauthenticated.
	TLS string `yaml:"tls"`
}

// WithoutNBD returns a copy without the drives of NBD servers. Drives of NBD servers are attached later. They are
// the last drives, so the other drives keep their indexes.
func (s Spec) WithoutNBD() Spec {
	s.Drives = slices.DeleteFunc(slices.Clone(s.Drives), func(d Drive) bool { return d.NBD != nil })
	return s
}

// DriveType distinguishes disks from CD drives.
type DriveType string

// The types of drives.
const (
	DriveRaw   DriveType = "raw"
	DriveIDECD DriveType = "ide-cd"
)

// Display defines how the guest's screen can be reached.
type Display struct {
	// Outputs is the number of monitors.
	Outputs int `yaml:"outputs" min:"1"`
	// LoggedInUser is the user that the agent in the guest logs in; live changeable.
	LoggedInUser string `yaml:"loggedInUser"`
	// WithoutPassword allows displays without a password, even if they are reachable for others than the users of
	// the host.
	WithoutPassword bool   `yaml:"withoutPassword"`
	Spice           *Spice `yaml:"spice"`
	VNC             *VNC   `yaml:"vnc"`
}

// Spice is a SPICE server; see QEMU's -spice.
type Spice struct {
	// Port is the TCP port to listen on.
	Port int `yaml:"port" min:"1"`
	// Address to listen on; empty means every address.
	Address string `yaml:"address"`
	// StreamingVideo is off, all or filter.
	StreamingVideo string `yaml:"streamingVideo"`
	// USBRedirects is the maximum number of the client's USB devices in the guest.
	USBRedirects *int `yaml:"usbRedirects"`
}

// VNC is a VNC server on a unix socket in the runtime directory, "vnc.sock".
type VNC struct {
	// Port makes the server listen on this TCP port as well, if it is not 0. It must be at least 5900, because
	// QEMU counts displays from there.
	Port int `yaml:"port"`
	// Address to listen on if Port is set; empty means 127.0.0.1.
	Address string `yaml:"address"`
}

// SerialConsole is the guest's first serial port.
type SerialConsole struct {
	// Enabled is true by default.
	Enabled *bool `yaml:"enabled"`
	// Log is a file for the output, which is appended; empty means no file.
	Log string `yaml:"log"`
}
