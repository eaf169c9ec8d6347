package netsetup

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	// maxName is the longest name of an interface in bytes: IFNAMSIZ without the closing NUL.
	maxName = unix.IFNAMSIZ - 1
	// markPrefix and the owner form the alias (ip link: "alias") that marks a tap, so that a later run recognizes
	// its own taps.
	markPrefix = "vmop:"
	tunDevice  = "/dev/net/tun"
)

// TapConfig describes a tap that is attached to an existing bridge.
type TapConfig struct {
	// Name is the interface's name, 1 to 15 bytes.
	Name string
	// Bridge is the name of the bridge to attach to.
	Bridge string
	// Owner identifies the tap's owner, for example by the VM's uuid. OpenTap replaces an interface called Name that
	// was created for the same owner, so the caller must ensure that no other process is running this VM. If Owner
	// is empty, OpenTap never replaces an interface.
	Owner string
	// Queues is the number of queues, at most 256; 0 means 1.
	Queues int
	// Lease contains what the guest gets via DHCP from this process and from no other server. If it is nil, a server
	// on the bridge may answer.
	Lease *Lease
	// MAC is the only hardware address that a guest without a lease may use. Such a guest cannot act as a DHCP
	// server or IPv6 router for others. If MAC is nil, the guest may use any hardware address.
	MAC net.HardwareAddr
}

// Tap is a network interface of the host that has one descriptor per queue.
type Tap struct {
	files []*os.File
	name  string
	mtu   int
	rules *table      // nil without a lease or MAC, and if QEMU inherited them
	dhcp  *dhcpServer // nil without a lease
}

// OpenTap creates a tap, sets the bridge's MTU, attaches the tap to the bridge and brings it up. The tap carries
// virtio-net headers but no packet information (IFF_VNET_HDR, IFF_NO_PI), as QEMU expects of inherited descriptors.
// It isn't persistent: the kernel removes it with the last descriptor.
//
// The tap's own hardware address begins with fe. A bridge without a fixed address uses the lowest address of its
// ports, so its address doesn't change when a VM starts.
//
// With a lease, OpenTap sets the rules before the tap joins the bridge, and answers DHCP requests until Close.
func OpenTap(cfg TapConfig, logger *slog.Logger) (*Tap, error) {
	doing := "open tap " + cfg.Name
	bridge, err := findBridge(doing, cfg.Bridge)
	if err != nil {
		return nil, err
	}
	tap, link, err := createTap(doing, cfg.Name, cfg.Owner, cfg.Queues)
	if err != nil {
		return nil, err
	}
	tap.mtu = bridge.Attrs().MTU
	own := highAddress(link.Attrs().HardwareAddr)
	// Set the MTU before joining the bridge, which uses the smallest MTU of its ports.
	if err := tap.prepareLink(doing, link, own); err != nil {
		return nil, errors.Join(err, tap.Close())
	}
	if err := tap.joinBridge(doing, link, bridge, cfg, logger); err != nil {
		return nil, errors.Join(err, tap.Close())
	}
	return tap, nil
}

// joinBridge sets the rules, attaches the tap to the bridge, brings it up and starts the DHCP server.
func (t *Tap) joinBridge(doing string, link, bridge netlink.Link, cfg TapConfig, logger *slog.Logger) error {
	if err := t.guardTap(doing, link, cfg); err != nil {
		return err
	}
	if err := netlink.LinkSetMaster(link, bridge); err != nil {
		return noAdmin(fmt.Sprintf("%s: attach it to bridge %s", doing, cfg.Bridge), err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return noAdmin(doing+": bring it up", err)
	}
	return t.serveLease(doing, link, cfg, logger)
}

// isGuarded reports whether the tap needs rules between guest and bridge.
func (cfg TapConfig) isGuarded() bool { return cfg.Lease != nil || cfg.MAC != nil }

// guardTap sets the rules for a lease or for a hardware address.
func (t *Tap) guardTap(doing string, link netlink.Link, cfg TapConfig) (err error) {
	if !cfg.isGuarded() {
		return nil
	}
	families := []nftables.TableFamily{nftables.TableFamilyNetdev}
	if cfg.Lease != nil {
		families = append(families, nftables.TableFamilyBridge)
	}
	if t.rules, err = openTable(doing, t.name, tableOwned, families...); err != nil {
		return err
	}
	if cfg.Lease == nil {
		return t.rules.addChains(doing, nftables.TableFamilyNetdev, link.Attrs().Name, fromCard(cfg.MAC))
	}
	return guardLease(doing, t.rules, link, *cfg.Lease)
}

// serveLease answers the guest's DHCP requests if the configuration has a lease.
func (t *Tap) serveLease(doing string, link netlink.Link, cfg TapConfig, logger *slog.Logger) (err error) {
	if cfg.Lease != nil {
		t.dhcp, err = serveLease(doing, link, *cfg.Lease, t.mtu, logger)
	}
	return err
}

// Files returns the descriptors for QEMU, one per queue. The Tap still owns them. For an adopted tap the list is
// empty, because only QEMU has the descriptors.
func (t *Tap) Files() []*os.File { return t.files }

// Inherit returns additional descriptors that QEMU should inherit, as Masquerade.Inherit does, because they keep the
// rules alive. Without rules the list is empty.
func (t *Tap) Inherit() []*os.File {
	if t.rules == nil {
		return nil
	}
	return []*os.File{t.rules.handle}
}

// Name returns the interface's name.
func (t *Tap) Name() string { return t.name }

// MTU returns the size of the largest packet in bytes, without the Ethernet header. The guest should use the same
// value (QEMU: host_mtu of virtio-net devices).
func (t *Tap) MTU() int { return t.mtu }

// Close closes the descriptors, stops the DHCP server and removes the rules. The kernel removes the interface when
// QEMU has also ended, or immediately if QEMU never received it.
func (t *Tap) Close() error { return runUnforked(t.tearDown) }

// runUnforked runs f while no process is being started. A child holds all descriptors of this process until it executes
// its program. A descriptor closed here in that moment would not be the last, so the kernel would remove what
// depends on it only a moment later.
func runUnforked(f func() error) error {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return f()
}

func (t *Tap) tearDown() error {
	var errs []error
	if t.dhcp != nil {
		errs = append(errs, t.dhcp.Close())
	}
	if t.rules != nil {
		errs = append(errs, t.rules.Close())
	}
	for _, file := range t.files {
		if err := file.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close tap %s: %w", t.name, err))
		}
	}
	return errors.Join(errs...)
}

// prepareLink sets the properties that the tap needs before it comes up.
func (t *Tap) prepareLink(doing string, link netlink.Link, own net.HardwareAddr) error {
	if err := netlink.LinkSetMTU(link, t.mtu); err != nil {
		return noAdmin(fmt.Sprintf("%s: set its MTU to %d", doing, t.mtu), err)
	}
	if err := netlink.LinkSetHardwareAddr(link, own); err != nil {
		return noAdmin(fmt.Sprintf("%s: set its address to %s", doing, own), err)
	}
	return nil
}

// highAddress returns a copy of a hardware address with the first byte fe, which sorts after all usual addresses.
func highAddress(mac net.HardwareAddr) net.HardwareAddr {
	high := append(net.HardwareAddr(nil), mac...)
	high[0] = 0xfe
	return high
}

func findBridge(doing, name string) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) || name == "" {
		return nil, &Error{
			Doing: doing, Fault: NoBridge,
			Detail: fmt.Sprintf("bridge %q does not exist", name),
			Remedy: fmt.Sprintf("create it with `ip link add %[1]s type bridge && ip link set %[1]s up`, "+
				"or choose another kind of network (masquerade, user)", orBr0(name)),
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: look up bridge %s: %w", doing, name, err)
	}
	if link.Type() != "bridge" {
		return nil, &Error{
			Doing: doing, Fault: NotABridge,
			Detail: fmt.Sprintf("%s is not a bridge but an interface of kind %q", name, link.Type()),
			Remedy: "name the bridge that this interface belongs to",
		}
	}
	return link, nil
}

func orBr0(name string) string {
	if name == "" {
		return "br0"
	}
	return name
}

// createTap creates a tap that did not exist before and marks it with its owner.
func createTap(doing, name, owner string, queues int) (*Tap, netlink.Link, error) {
	if err := checkName(doing, name); err != nil {
		return nil, nil, err
	}
	if err := removeLeftOver(doing, name, owner); err != nil {
		return nil, nil, err
	}
	tap := &Tap{name: name}
	for range max(queues, 1) {
		if err := tap.addQueue(doing, queues > 1); err != nil {
			return nil, nil, errors.Join(err, tap.Close())
		}
	}
	link, err := tap.findOwned(doing, owner)
	if err != nil {
		return nil, nil, errors.Join(err, tap.Close())
	}
	return tap, link, nil
}

// addQueue turns a newly opened device into an interface, or into an additional queue of that interface. Source:
// Documentation/networking/tuntap.rst of Linux.
func (t *Tap) addQueue(doing string, several bool) error {
	file, err := openTun(doing)
	if err != nil {
		return err
	}
	first := len(t.files) == 0
	t.files = append(t.files, file)
	request, err := unix.NewIfreq(t.name)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	flags := uint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if several {
		flags |= unix.IFF_MULTI_QUEUE
	}
	if first {
		flags |= unix.IFF_TUN_EXCL
	}
	request.SetUint16(flags)
	err = unix.IoctlIfreq(int(file.Fd()), unix.TUNSETIFF, request)
	switch {
	case errors.Is(err, unix.EBUSY) && first:
		return nameTaken(doing, t.name, err)
	case errors.Is(err, unix.E2BIG):
		return fmt.Errorf("%s: the kernel allows %d queues: %w", doing, len(t.files)-1, err)
	case err != nil:
		return noAdmin(doing, os.NewSyscallError("TUNSETIFF", err))
	}
	return nil
}

// findOwned returns the interface and marks it with its owner.
func (t *Tap) findOwned(doing, owner string) (netlink.Link, error) {
	link, err := netlink.LinkByName(t.name)
	if err != nil {
		return nil, fmt.Errorf("%s: look it up: %w", doing, err)
	}
	if owner == "" {
		return link, nil
	}
	if err := netlink.LinkSetAlias(link, markPrefix+owner); err != nil {
		return nil, noAdmin(doing+": mark it", err)
	}
	return link, nil
}

// openTun opens the device in blocking mode: this process doesn't read from it, and a tun device cannot be polled
// before it is an interface.
func openTun(doing string) (*os.File, error) {
	fd, err := unix.Open(tunDevice, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err == nil {
		return os.NewFile(uintptr(fd), tunDevice), nil
	}
	fault := &Error{Doing: doing, Fault: NoTunDevice, Err: err}
	switch {
	case errors.Is(err, fs.ErrPermission):
		fault.Detail = tunDevice + " may not be opened"
		fault.Remedy = "make it readable and writable for the program's user and, in a container, allow the device"
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.ENXIO):
		fault.Detail = tunDevice + " does not exist"
		fault.Remedy = "load the kernel module tun (`modprobe tun`) or, in a container, mount the device"
	default:
		return nil, fmt.Errorf("%s: open %s: %w", doing, tunDevice, err)
	}
	return nil, fault
}

// removeLeftOver removes an interface of the same name and owner. It returns an error if the interface has another
// owner.
func removeLeftOver(doing, name, owner string) error {
	link, err := netlink.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: look for a left-over: %w", doing, err)
	}
	if !isOwn(link, owner) {
		return nameTaken(doing, name, nil)
	}
	if err := netlink.LinkDel(link); err != nil {
		return noAdmin(doing+": remove the left-over of an earlier run", err)
	}
	return nil
}

// isOwn reports whether an interface is a tap that carries the owner's mark.
func isOwn(link netlink.Link, owner string) bool {
	_, isTap := link.(*netlink.Tuntap)
	return isTap && owner != "" && link.Attrs().Alias == markPrefix+owner
}

func nameTaken(doing, name string, err error) error {
	return &Error{
		Doing: doing, Fault: NameTaken, Err: err,
		Detail: fmt.Sprintf("an interface %s exists already and is not this VM's", name),
		Remedy: fmt.Sprintf("choose another name, or see who made it with `ip -details link show %s`", name),
	}
}

// checkName applies the kernel's rule for interface names (dev_valid_name). It also refuses %, which TUNSETIFF would
// interpret as a pattern.
func checkName(doing, name string) error {
	detail := ""
	switch {
	case name == "":
		detail = "the interface has no name"
	case len(name) > maxName:
		detail = fmt.Sprintf("the name has %d bytes, an interface's name has at most %d", len(name), maxName)
	case name == "." || name == ".." || strings.ContainsAny(name, "/:% \t\n\v\f\r\x00"):
		detail = fmt.Sprintf("%q cannot be the name of an interface", name)
	default:
		return nil
	}
	return &Error{
		Doing: doing, Fault: NameInvalid, Detail: detail,
		Remedy: "use at most 15 letters, digits, dots and dashes",
	}
}
