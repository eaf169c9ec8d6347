// Package frames creates the network traffic of a guest, for network tests without a guest: Ethernet frames with ARP,
// TCP and UDP. They include packets that only a hostile guest would send, for example to 127.0.0.1.
//
//	conn.Write(frames.Framed(frames.SYN(own, netip.MustParseAddrPort("127.0.0.1:22"))))
package frames

import (
	"encoding/binary"
	"net/netip"
	"slices"
)

// Protocol numbers.
const (
	tcp     = 6
	udp     = 17
	ipv4    = 0x0800
	arp     = 0x0806
	ipv6    = 0x86dd
	hops    = 64
	window  = 65000
	flagSYN = 2
)

// card is the source hardware address of all frames.
var card = []byte{0x52, 0x54, 0, 0x12, 0x34, 0x56}

// router is the hardware address of libslirp's router. passt accepts any address.
var router = []byte{0x52, 0x55, 10, 0, 2, 2}

// Framed returns a frame in the format of QEMU's -netdev stream, with its length first.
func Framed(frame []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)
}

// Announcement returns a gratuitous ARP frame that assigns an IPv4 address to the card.
func Announcement(own netip.Addr) []byte {
	p := []byte{0, 1, 8, 0, 6, 4, 0, 1}
	p = slices.Concat(p, card, own.AsSlice(), make([]byte, 6), own.AsSlice())
	return newEthernet([]byte{255, 255, 255, 255, 255, 255}, arp, p)
}

// SYN returns a TCP connection request.
func SYN(from, to netip.AddrPort) []byte {
	p := portBytes(from, to)
	p = binary.BigEndian.AppendUint32(p, 1000) // the initial sequence number
	p = append(p, 0, 0, 0, 0, 5<<4, flagSYN)
	p = binary.BigEndian.AppendUint16(p, window)
	return newPacket(from.Addr(), to.Addr(), tcp, append(p, 0, 0, 0, 0), 16)
}

// Datagram returns a UDP datagram.
func Datagram(from, to netip.AddrPort, data string) []byte {
	p := binary.BigEndian.AppendUint16(portBytes(from, to), uint16(8+len(data)))
	return newPacket(from.Addr(), to.Addr(), udp, append(append(p, 0, 0), data...), 6)
}

func portBytes(from, to netip.AddrPort) []byte {
	return binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, from.Port()), to.Port())
}

// newPacket returns a frame with a packet. The payload's checksum is written at an offset.
func newPacket(from, to netip.Addr, protocol byte, payload []byte, at int) []byte {
	size := []byte{byte(len(payload) >> 8), byte(len(payload))}
	pseudo := slices.Concat(from.AsSlice(), to.AsSlice(), []byte{0, protocol}, size, payload)
	binary.BigEndian.PutUint16(payload[at:], internetChecksum(pseudo))
	if from.Is4() {
		header := []byte{0x45, 0, 0, 0, 0, 1, 0, 0, hops, protocol, 0, 0}
		header = slices.Concat(header, from.AsSlice(), to.AsSlice())
		binary.BigEndian.PutUint16(header[2:], uint16(len(header)+len(payload)))
		binary.BigEndian.PutUint16(header[10:], internetChecksum(header))
		return newEthernet(router, ipv4, append(header, payload...))
	}
	header := []byte{6 << 4, 0, 0, 0, size[0], size[1], protocol, hops}
	return newEthernet(router, ipv6, slices.Concat(header, from.AsSlice(), to.AsSlice(), payload))
}

func newEthernet(to []byte, kind uint16, payload []byte) []byte {
	return append(binary.BigEndian.AppendUint16(slices.Concat(to, card), kind), payload...)
}

// internetChecksum returns the Internet checksum (RFC 1071).
func internetChecksum(text []byte) uint16 {
	var sum uint32
	if len(text)%2 == 1 {
		text = append(text, 0)
	}
	for i := 0; i < len(text); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(text[i:]))
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
