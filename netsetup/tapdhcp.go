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

// Lease is what the guest behind a tap on a bridge learns by DHCP.
type Lease struct {
	// MAC is the guest's hardware address, the only one that gets an answer.
	MAC net.HardwareAddr
	// Address is the guest's, with the length of its subnet.
	Address netip.Prefix
	// Gateway is the router to everything outside; invalid: none.
	Gateway netip.Addr
	// DNS, Search and Routes may be empty.
	DNS    []netip.Addr
	Search []string
	Routes []Route
	// Hostname is the guest's name; may be empty.
	Hostname string
	// Filter drops what the guest sends from other addresses than MAC and Address.
	Filter bool
}

// Route leads to a subnet by a router.
type Route struct {
	To  netip.Prefix
	Via netip.Addr
}

// server returns the address by which the runner's server is known to the guest: that of the
// gateway, so that the guest has a neighbor to send renewals to. They don't get there, for the
// rules drop them; the runner answers what it sees on the tap. Without a gateway it is another
// address of the subnet. Where no computer has that, the guest's renewal fails, and it asks all.
func (l Lease) server() netip.Addr {
	if l.Gateway.IsValid() {
		return l.Gateway
	}
	first := gatewayOf(l.Address.Masked())
	if first == l.Address.Addr() {
		return first.Next()
	}
	return first
}

// serveLease answers the DHCP requests of the guest behind a tap until Close. The guest's
// frames are those of a packet socket: it sees them before the rules and the bridge do, and
// what it sends goes to the guest alone.
func serveLease(doing string, link netlink.Link, l Lease, mtu int, logger *slog.Logger) (*dhcpServer, error) {
	own := highAddress(link.Attrs().HardwareAddr) // as prepare has set it
	requests, err := bpf.Assemble(dhcpRequests)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	device := &net.Interface{Index: link.Attrs().Index, Name: link.Attrs().Name}
	// A port of a bridge hands packets to sockets for all protocols only.
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
		logger.Debug("the DHCP server looks at packets for the guest, too", "err", err) // before Linux 4.20
	}
	toGuest := guestConn{raw, binary.BigEndian.AppendUint16(slices.Concat(l.MAC, own), unix.ETH_P_IP)}
	conn := tapConn{
		PacketConn: nclient4.NewBroadcastUDPConn(toGuest, &net.UDPAddr{Port: serverPort}),
		answers:    nclient4.NewBroadcastUDPConn(toGuest, &net.UDPAddr{IP: l.server().AsSlice(), Port: serverPort}),
	}
	return serveDHCP(conn, lease{
		mac: l.MAC, guest: l.Address, server: l.server(), gateway: l.Gateway, dns: l.DNS, search: l.Search,
		routes: l.Routes, mtu: mtu, hostname: l.Hostname,
	}, logger), nil
}

// dhcpRequests selects packets to the port of DHCP servers (see packet(7) and linux/filter.h).
var dhcpRequests = []bpf.Instruction{
	bpf.LoadExtension{Num: bpf.ExtType},
	bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.PACKET_OUTGOING, SkipTrue: 9},
	bpf.LoadExtension{Num: bpf.ExtVLANTagPresent}, // of another network
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

// ignoreOutgoing saves the copies of packets for the guest.
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

// guestConn carries packets of IP in frames to one hardware address.
type guestConn struct {
	*packet.Conn
	header []byte // of Ethernet, for the guest
}

// WriteTo sends to the guest, whatever the address.
func (c guestConn) WriteTo(p []byte, _ net.Addr) (int, error) {
	if _, err := c.Conn.WriteTo(slices.Concat(c.header, p), &packet.Addr{HardwareAddr: c.header[:6]}); err != nil {
		return 0, err
	}
	return len(p), nil
}

// ReadFrom continues when the interface has been down.
func (c guestConn) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		n, from, err := c.Conn.ReadFrom(p)
		if errors.Is(err, unix.ENETDOWN) {
			continue
		}
		return copy(p, p[min(n, etherLength):n]), from, err
	}
}

// tapConn reads what is sent to any address, and answers with that of the server.
type tapConn struct {
	net.PacketConn
	answers net.PacketConn
}

func (c tapConn) WriteTo(p []byte, to net.Addr) (int, error) { return c.answers.WriteTo(p, to) }
