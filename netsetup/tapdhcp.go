package netsetup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"slices"

	"github.com/insomniacslk/dhcp/dhcpv4/nclient4"
	"github.com/mdlayher/packet"
	"github.com/vishvananda/netlink"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Lease contains what the guest behind a tap on a bridge learns via DHCP.
type Lease struct {
	// MAC is the guest's hardware address. Only this hardware address receives answers.
	MAC net.HardwareAddr
	// Address is the guest's address, with the length of its subnet.
	Address netip.Prefix
	// Gateway is the router to all other networks; may be invalid.
	Gateway netip.Addr
	// DNS, Search and Routes may be empty.
	DNS    []netip.Addr
	Search []string
	Routes []Route
	// Hostname is the guest's name; may be empty.
	Hostname string
	// Filter drops packets from the guest that don't come from MAC and Address.
	Filter bool
}

// Route leads to a subnet via a router.
type Route struct {
	To  netip.Prefix
	Via netip.Addr
}

// serverAddress returns the address of the runner's DHCP server as the guest sees it.
//
// It is the gateway's address, so the guest has a neighbor to send renewals to. The rules drop those renewals, and
// the runner answers the copies that it sees on the tap. Without a gateway it is another address of the subnet. If
// no computer has that address, the guest's renewal fails, and the guest broadcasts its request.
func (l Lease) serverAddress() netip.Addr {
	if l.Gateway.IsValid() {
		return l.Gateway
	}
	first := gatewayOf(l.Address.Masked())
	if first == l.Address.Addr() {
		return first.Next()
	}
	return first
}

// serveLease answers the DHCP requests of the guest behind a tap until Close. It reads the guest's frames from a
// packet socket, which sees them before the rules and the bridge do. Frames that it sends on this socket reach only
// the guest.
func serveLease(doing string, link netlink.Link, l Lease, mtu int, logger *slog.Logger) (*dhcpServer, error) {
	own := highAddress(link.Attrs().HardwareAddr) // the address that prepareLink has set
	requests, err := bpf.Assemble(dhcpRequests)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	device := &net.Interface{Index: link.Attrs().Index, Name: link.Attrs().Name}
	// A bridge port passes packets only to sockets for all protocols.
	raw, err := packet.Listen(device, packet.Raw, unix.ETH_P_ALL, &packet.Config{Filter: requests})
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, &Error{
			Doing: doing, Fault: NoRight, Err: err,
			Detail: "the right to answer DHCP on a tap is missing",
			Remedy: "run as root or give the program the capability CAP_NET_RAW (in Kubernetes: " +
				"securityContext.capabilities.add: [NET_RAW]), or leave the lease out",
		}
	case err != nil:
		return nil, fmt.Errorf("%s: answer DHCP: %w", doing, err)
	}
	if err := ignoreOutgoing(raw); err != nil {
		logger.Debug("the DHCP server also looks at packets for the guest", "err", err) // before Linux 4.20
	}
	toGuest := guestConn{raw, binary.BigEndian.AppendUint16(slices.Concat(l.MAC, own), unix.ETH_P_IP)}
	conn := tapConn{
		PacketConn: nclient4.NewBroadcastUDPConn(toGuest, &net.UDPAddr{Port: serverPort}),
		answers: nclient4.NewBroadcastUDPConn(toGuest,
			&net.UDPAddr{IP: l.serverAddress().AsSlice(), Port: serverPort}),
	}
	return serveDHCP(conn, lease{
		mac: l.MAC, guest: l.Address, server: l.serverAddress(), gateway: l.Gateway, dns: l.DNS, search: l.Search,
		routes: l.Routes, mtu: mtu, hostname: l.Hostname,
	}, logger), nil
}

// dhcpRequests selects packets to the port of DHCP servers (see packet(7) and linux/filter.h).
var dhcpRequests = []bpf.Instruction{
	bpf.LoadExtension{Num: bpf.ExtType},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PACKET_OUTGOING, SkipTrue: 9},
	bpf.LoadExtension{Num: bpf.ExtVLANTagPresent}, // from another network
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: 0, SkipTrue: 7},
	bpf.LoadExtension{Num: bpf.ExtProto},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.ETH_P_IP, SkipTrue: 5},
	bpf.LoadAbsolute{Off: etherLength + protocolOffset, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_UDP, SkipTrue: 3},
	bpf.LoadMemShift{Off: etherLength},
	bpf.LoadIndirect{Off: etherLength + portOffset, Size: 2},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: serverPort, SkipTrue: 1},
	bpf.RetConstant{Val: 0},
	bpf.RetConstant{Val: maxDatagram},
}

// ignoreOutgoing keeps the kernel from copying packets for the guest to the socket.
func ignoreOutgoing(conn *packet.Conn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	controlErr := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1)
	})
	return errors.Join(controlErr, err)
}

// guestConn sends IP packets in frames to one hardware address.
type guestConn struct {
	*packet.Conn
	header []byte // the Ethernet header of frames to the guest
}

// WriteTo sends to the guest, regardless of the address.
func (c guestConn) WriteTo(p []byte, _ net.Addr) (int, error) {
	if _, err := c.Conn.WriteTo(slices.Concat(c.header, p), &packet.Addr{HardwareAddr: c.header[:6]}); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ReadFrom continues after the interface has been down.
func (c guestConn) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		n, from, err := c.Conn.ReadFrom(p)
		if errors.Is(err, unix.ENETDOWN) {
			continue
		}
		return copy(p, p[min(n, etherLength):n]), from, err
	}
}

// tapConn reads packets to any address and answers from the server's address.
type tapConn struct {
	net.PacketConn
	answers net.PacketConn
}

func (c tapConn) WriteTo(p []byte, to net.Addr) (int, error) { return c.answers.WriteTo(p, to) }
