package netsetup

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Forward leads from a port of the namespace to a port of the VM.
type Forward struct {
	// Protocol is "tcp" or "udp"; empty means tcp.
	Protocol string
	// Address is the IPv4 address of the namespace to accept connections on. The zero value and 0.0.0.0 mean all
	// addresses, including the loopback address.
	Address netip.Addr
	// HostPort is the namespace's port, 1 to 65535.
	HostPort uint16
	// GuestPort is the VM's port; 0 means HostPort.
	GuestPort uint16
}

// String returns for example "tcp 127.0.0.1:2222 to port 22".
func (f Forward) String() string {
	address := f.Address
	if !address.IsValid() {
		address = netip.IPv4Unspecified()
	}
	return fmt.Sprintf("%s %s to port %d", f.Protocol, netip.AddrPortFrom(address, f.HostPort), f.GuestPort)
}

func (f Forward) withDefaults() Forward {
	if f.Protocol == "" {
		f.Protocol = "tcp"
	}
	if f.GuestPort == 0 {
		f.GuestPort = f.HostPort
	}
	return f
}

func (f Forward) isEverywhere() bool { return !f.Address.IsValid() || f.Address.IsUnspecified() }

// viaLoopback reports whether the port can be reached at 127.0.0.1.
func (f Forward) viaLoopback() bool { return f.isEverywhere() || f.Address.IsLoopback() }

func (f Forward) protocolNumber() byte {
	if f.Protocol == "udp" {
		return unix.IPPROTO_UDP
	}
	return unix.IPPROTO_TCP
}

// checkForwards returns the forwards with their defaults, or an error for the first invalid forward.
func checkForwards(doing string, forwards []Forward) ([]Forward, error) {
	checked := make([]Forward, 0, len(forwards))
	for _, f := range forwards {
		f = f.withDefaults()
		fault := &Error{Doing: doing, Fault: ForwardInvalid}
		switch {
		case f.Protocol != "tcp" && f.Protocol != "udp":
			fault.Detail = fmt.Sprintf("protocol %q of a forwarded port is neither tcp nor udp", f.Protocol)
		case f.HostPort == 0:
			fault.Detail = "a forwarded port has no number"
		case f.Address.IsValid() && !f.Address.Is4():
			fault.Detail = fmt.Sprintf("address %s of forwarded port %d is not an IPv4 address", f.Address, f.HostPort)
		default:
			checked = append(checked, f)
			continue
		}
		return nil, fault
	}
	return checked, nil
}

// reservation keeps other programs from using a forwarded port. Without it, the rules would silently divert their
// traffic.
type reservation struct{ sockets []*os.File }

// reservePorts binds all ports but does not listen on them, so connections that aren't forwarded are still refused.
func reservePorts(doing string, forwards []Forward) (*reservation, error) {
	r := &reservation{}
	for _, f := range forwards {
		socket, err := bindPort(doing, f)
		if err != nil {
			return nil, errors.Join(err, r.Close())
		}
		r.sockets = append(r.sockets, socket)
	}
	return r, nil
}

func bindPort(doing string, f Forward) (*os.File, error) {
	doing += ": forward " + f.String()
	kind := unix.SOCK_STREAM
	if f.Protocol == "udp" {
		kind = unix.SOCK_DGRAM
	}
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: open a socket: %w", doing, err)
	}
	socket := os.NewFile(uintptr(fd), f.String())
	local := &unix.SockaddrInet4{Port: int(f.HostPort)}
	if !f.isEverywhere() {
		local.Addr = f.Address.As4()
	}
	if err := unix.Bind(fd, local); err != nil {
		return nil, errors.Join(bindRefused(doing, f, err), socket.Close())
	}
	return socket, nil
}

func bindRefused(doing string, f Forward, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return noLowPort(doing, err)
	case errors.Is(err, unix.EADDRINUSE):
		return &Error{
			Doing: doing, Fault: PortTaken, Err: err,
			Detail: fmt.Sprintf("%s port %d is in use", f.Protocol, f.HostPort),
			Remedy: "choose another port or end the program that uses it (`ss -lnp`)",
		}
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return &Error{
			Doing: doing, Fault: ForwardInvalid, Err: err,
			Detail: fmt.Sprintf("%s is not an address of this computer", f.Address),
			Remedy: "leave the address out to use all of them",
		}
	default:
		return fmt.Errorf("%s: bind: %w", doing, err)
	}
}

// Close frees the ports.
func (r *reservation) Close() error {
	var errs []error
	for _, socket := range r.sockets {
		errs = append(errs, socket.Close())
	}
	r.sockets = nil
	return errors.Join(errs...)
}
