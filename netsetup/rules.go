package netsetup

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sys/unix"
)

// chain is a base chain of the network's table and its rules, in order.
type chain struct {
	name     string
	kind     nftables.ChainType
	hook     *nftables.ChainHook
	priority *nftables.ChainPriority
	rules    []rule
}

// rule is a list of conditions with an action at its end, in the kernel's terms
// (`nft --debug=netlink` shows those of any rule).
type rule []expr.Any

// domainPort is that of name servers (RFC 1035).
const domainPort = 53

// sources of conditions and offsets into the IPv4 header (RFC 791).
const (
	sourceOffset      = 12
	destinationOffset = 16
	portOffset        = 2 // of the destination, in the headers of TCP and UDP
	// dstNATBit is IPS_DST_NAT of linux/netfilter/nf_conntrack_common.h.
	dstNATBit = 1 << 5
)

// chains are the rules that hide a machine behind the namespace it runs in.
// In the syntax of nft, with vm0 and 10.0.2.2:
//
//	guard:       iifname "vm0" meta nfproto != ipv4 drop
//	             iifname "vm0" ip saddr != 10.0.2.2 ip saddr != 0.0.0.0 drop
//	             iifname "vm0" ip daddr 127.0.0.0/8 drop
//	             iifname "vm0" udp dport 53 accept
//	             iifname "vm0" tcp dport 53 accept
//	             iifname "vm0" ip daddr 169.254.0.0/16 drop
//	self:        iifname "vm0" ct state established,related accept
//	             iifname "vm0" meta l4proto icmp accept
//	             iifname "vm0" udp dport 53 accept
//	             iifname "vm0" tcp dport 53 accept
//	             iifname "vm0" udp dport 67 accept
//	             iifname "vm0" drop
//	private:     oifname "vm0" ct state new ct status ! dnat drop
//	forward-in:  iifname != "vm0" meta nfproto ipv4 fib daddr type local tcp dport 2222 \
//	             dnat ip to 10.0.2.2:22
//	             iifname != "vm0" iifname != "lo" meta nfproto ipv4 fib daddr type local \
//	             tcp flags & (fin | syn | rst | ack) == syn dnat ip to 10.0.2.2 (see AllPorts)
//	forward-own: the same ports for what the namespace itself sends
//	masquerade:  ip saddr 10.0.2.2 oifname != "vm0" masquerade
//	             oifname "vm0" ip saddr 127.0.0.0/8 masquerade
//
// The guard keeps the machine to its one address (zero is that of its DHCP
// requests), and away from the loopback addresses, which forwarding from them
// opens on this interface (sysctl route_localnet, CVE-2020-8558). IPv6 has
// no masquerade here and would be a way around it. Link-local addresses are those
// of services that trust who is on this computer, a cloud's metadata above all,
// but may be those of name servers, too. Self is what the namespace itself, which
// may be a node's, has for its machine: addresses, names and echoes, and answers
// to what was asked by a forwarded port. Private means that
// neighbours of the namespace cannot reach the machine by a route of their own.
//
// See docs/decisions/0045-kept-off-the-host.md.
func chains(tap string, guest netip.Addr, forwards []Forward, all *AllPorts) []chain {
	loopback := netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8)
	linkLocal := netip.PrefixFrom(netip.AddrFrom4([4]byte{169, 254}), 16)
	in, out := name(expr.MetaKeyIIFNAME, tap, true), name(expr.MetaKeyOIFNAME, tap, true)
	notIn, notOut := name(expr.MetaKeyIIFNAME, tap, false), name(expr.MetaKeyOIFNAME, tap, false)
	drop, accept := rule{&expr.Verdict{Kind: expr.VerdictDrop}}, rule{&expr.Verdict{Kind: expr.VerdictAccept}}
	nameServers := []rule{
		slices.Concat(in, toPort(unix.IPPROTO_UDP, domainPort), accept),
		slices.Concat(in, toPort(unix.IPPROTO_TCP, domainPort), accept),
	}
	var forwardIn, forwardOwn []rule
	for _, f := range forwards {
		forwardIn = append(forwardIn, slices.Concat(notIn, forwardTo(f, guest)))
		forwardOwn = append(forwardOwn, forwardTo(f, guest))
	}
	forwardIn = append(forwardIn, all.rules(notIn, guest)...)
	return []chain{
		{
			"guard", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw,
			slices.Concat([]rule{
				slices.Concat(in, family(false), drop),
				slices.Concat(in, family(true), address(sourceOffset, guest, false),
					address(sourceOffset, netip.IPv4Unspecified(), false), drop),
				slices.Concat(in, family(true), within(destinationOffset, loopback), drop),
			}, nameServers, []rule{
				slices.Concat(in, family(true), within(destinationOffset, linkLocal), drop),
			}),
		},
		{"self", nftables.ChainTypeFilter, nftables.ChainHookInput, nftables.ChainPriorityFilter, slices.Concat([]rule{
			slices.Concat(in, tracked(expr.CtKeySTATE, expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED, true),
				accept),
			slices.Concat(in, protocol(unix.IPPROTO_ICMP), accept),
		}, nameServers, []rule{
			slices.Concat(in, toPort(unix.IPPROTO_UDP, dhcpv4.ServerPort), accept),
			slices.Concat(in, drop),
		})},
		{"private", nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter, []rule{
			slices.Concat(out, tracked(expr.CtKeySTATE, expr.CtStateBitNEW, true),
				tracked(expr.CtKeySTATUS, dstNATBit, false), drop),
		}},
		{"forward-in", nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest, forwardIn},
		{"forward-own", nftables.ChainTypeNAT, nftables.ChainHookOutput, nftables.ChainPriorityNATDest, forwardOwn},
		{"masquerade", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource, []rule{
			slices.Concat(family(true), address(sourceOffset, guest, true), notOut, rule{&expr.Masq{}}),
			slices.Concat(out, family(true), within(sourceOffset, loopback), rule{&expr.Masq{}}),
		}},
	}
}

// forwardTo sends what arrives at a forwarded port to the guest's port.
func forwardTo(f Forward, guest netip.Addr) rule {
	destination := toHere()
	if !f.everywhere() {
		destination = address(destinationOffset, f.Address, true)
	}
	return slices.Concat(family(true), destination, toPort(f.protocolNumber(), f.HostPort), rule{
		&expr.Immediate{Register: 1, Data: guest.AsSlice()},
		&expr.Immediate{Register: 2, Data: binary.BigEndian.AppendUint16(nil, f.GuestPort)},
		&expr.NAT{
			Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4,
			RegAddrMin: 1, RegProtoMin: 2, Specified: true,
		},
	})
}

// toHere looks for an address of the namespace.
func toHere() rule {
	return rule{
		&expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.NativeEndian.AppendUint32(nil, unix.RTN_LOCAL)},
	}
}

// protocol looks for what is above the Internet Protocol.
func protocol(number byte) rule {
	return rule{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{number}},
	}
}

// toPort looks for a protocol and the port that is addressed.
func toPort(number byte, port uint16) rule {
	return append(protocol(number),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: portOffset, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, port)})
}

// is returns the comparison for a condition or its opposite.
func is(equal bool) expr.CmpOp {
	if equal {
		return expr.CmpOpEq
	}
	return expr.CmpOpNeq
}

// name compares the name of the interface a packet comes in or goes out by.
func name(key expr.MetaKey, device string, equal bool) rule {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, device)
	return rule{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: is(equal), Register: 1, Data: padded}}
}

// family compares the version of the Internet Protocol.
func family(ipv4 bool) rule {
	return rule{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: is(ipv4), Register: 1, Data: []byte{unix.NFPROTO_IPV4}},
	}
}

// address compares an address in the IPv4 header.
func address(offset uint32, a netip.Addr, equal bool) rule {
	return field(expr.PayloadBaseNetworkHeader, offset, a.AsSlice(), equal)
}

// within looks for an address of a prefix that ends at a byte.
func within(offset uint32, p netip.Prefix) rule {
	length := p.Bits() / 8
	return rule{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(length)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Addr().AsSlice()[:length]},
	}
}

// tracked looks whether one of some bits is set, or none, in what connection tracking knows of a packet.
func tracked(key expr.CtKey, bits uint32, set bool) rule {
	return rule{
		&expr.Ct{Key: key, Register: 1},
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: 4,
			Mask: binary.NativeEndian.AppendUint32(nil, bits), Xor: make([]byte, 4),
		},
		&expr.Cmp{Op: is(!set), Register: 1, Data: make([]byte, 4)},
	}
}
