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

// rule is a list of conditions followed by an action, as kernel expressions (`nft --debug=netlink` shows them for
// any rule).
type rule []expr.Any

// domainPort is the port of name servers (RFC 1035).
const domainPort = 53

// Offsets into the IPv4 header (RFC 791), and a flag of connection tracking.
const (
	sourceOffset      = 12
	destinationOffset = 16
	portOffset        = 2 // of the destination, in the headers of TCP and UDP
	// dstNATBit is IPS_DST_NAT of linux/netfilter/nf_conntrack_common.h.
	dstNATBit = 1 << 5
)

// masqueradeChains returns the rules that hide a VM behind its namespace. In nft syntax, with vm0 and 10.0.2.2:
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
// The first three filter chains have these purposes:
//
//   - guard keeps the VM to its one address (0.0.0.0 is the sender of its DHCP requests) and away from the loopback
//     addresses, which this interface would otherwise route (sysctl route_localnet, CVE-2020-8558). It drops IPv6,
//     which has no masquerade here and would bypass it. It drops link-local addresses because services there trust
//     every sender on this computer, above all a cloud's metadata service. Name servers may have such addresses, so
//     DNS is allowed.
//   - self limits what the VM can reach in the namespace itself, which may be a node's: DHCP, DNS, ping, and answers
//     on forwarded ports.
//   - private keeps neighbors of the namespace from reaching the VM through a route.
//
// See docs/decisions/0045-kept-off-the-host.md.
func masqueradeChains(tap string, guest netip.Addr, forwards []Forward, all *AllPorts) []chain {
	loopback := netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8)
	linkLocal := netip.PrefixFrom(netip.AddrFrom4([4]byte{169, 254}), 16)
	in, out := matchDevice(expr.MetaKeyIIFNAME, tap, true), matchDevice(expr.MetaKeyOIFNAME, tap, true)
	notIn, notOut := matchDevice(expr.MetaKeyIIFNAME, tap, false), matchDevice(expr.MetaKeyOIFNAME, tap, false)
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
	forwardIn = append(forwardIn, all.diversionRules(notIn, guest)...)
	return []chain{
		{
			"guard", nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw,
			slices.Concat([]rule{
				slices.Concat(in, matchFamily(false), drop),
				slices.Concat(in, matchFamily(true), matchAddress(sourceOffset, guest, false),
					matchAddress(sourceOffset, netip.IPv4Unspecified(), false), drop),
				slices.Concat(in, matchFamily(true), matchPrefix(destinationOffset, loopback), drop),
			}, nameServers, []rule{
				slices.Concat(in, matchFamily(true), matchPrefix(destinationOffset, linkLocal), drop),
			}),
		},
		{"self", nftables.ChainTypeFilter, nftables.ChainHookInput, nftables.ChainPriorityFilter, slices.Concat([]rule{
			slices.Concat(in, matchTracking(expr.CtKeySTATE, expr.CtStateBitESTABLISHED|expr.CtStateBitRELATED, true),
				accept),
			slices.Concat(in, matchProtocol(unix.IPPROTO_ICMP), accept),
		}, nameServers, []rule{
			slices.Concat(in, toPort(unix.IPPROTO_UDP, dhcpv4.ServerPort), accept),
			slices.Concat(in, drop),
		})},
		{"private", nftables.ChainTypeFilter, nftables.ChainHookForward, nftables.ChainPriorityFilter, []rule{
			slices.Concat(out, matchTracking(expr.CtKeySTATE, expr.CtStateBitNEW, true),
				matchTracking(expr.CtKeySTATUS, dstNATBit, false), drop),
		}},
		{"forward-in", nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest, forwardIn},
		{"forward-own", nftables.ChainTypeNAT, nftables.ChainHookOutput, nftables.ChainPriorityNATDest, forwardOwn},
		{"masquerade", nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource, []rule{
			slices.Concat(matchFamily(true), matchAddress(sourceOffset, guest, true), notOut, rule{&expr.Masq{}}),
			slices.Concat(out, matchFamily(true), matchPrefix(sourceOffset, loopback), rule{&expr.Masq{}}),
		}},
	}
}

// forwardTo redirects packets for a forwarded port to the guest's port.
func forwardTo(f Forward, guest netip.Addr) rule {
	destination := toHere()
	if !f.isEverywhere() {
		destination = matchAddress(destinationOffset, f.Address, true)
	}
	return slices.Concat(matchFamily(true), destination, toPort(f.protocolNumber(), f.HostPort), rule{
		&expr.Immediate{Register: 1, Data: guest.AsSlice()},
		&expr.Immediate{Register: 2, Data: binary.BigEndian.AppendUint16(nil, f.GuestPort)},
		&expr.NAT{
			Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4,
			RegAddrMin: 1, RegProtoMin: 2, Specified: true,
		},
	})
}

// toHere matches destination addresses of the namespace.
func toHere() rule {
	return rule{
		&expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.NativeEndian.AppendUint32(nil, unix.RTN_LOCAL)},
	}
}

// matchProtocol matches the transport protocol.
func matchProtocol(number byte) rule {
	return rule{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{number}},
	}
}

// toPort matches a transport protocol and a destination port.
func toPort(number byte, port uint16) rule {
	return append(matchProtocol(number),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: portOffset, Len: 2},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, port)})
}

// comparison returns the comparison operator: equal or not equal.
func comparison(equal bool) expr.CmpOp {
	if equal {
		return expr.CmpOpEq
	}
	return expr.CmpOpNeq
}

// matchDevice compares the name of the incoming or outgoing interface.
func matchDevice(key expr.MetaKey, device string, equal bool) rule {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, device)
	return rule{&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: comparison(equal), Register: 1, Data: padded}}
}

// matchFamily matches IPv4 or everything else.
func matchFamily(ipv4 bool) rule {
	return rule{
		&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1},
		&expr.Cmp{Op: comparison(ipv4), Register: 1, Data: []byte{unix.NFPROTO_IPV4}},
	}
}

// matchAddress compares an address in the IPv4 header.
func matchAddress(offset uint32, a netip.Addr, equal bool) rule {
	return compareField(expr.PayloadBaseNetworkHeader, offset, a.AsSlice(), equal)
}

// matchPrefix matches an address in a prefix with a length of whole bytes.
func matchPrefix(offset uint32, p netip.Prefix) rule {
	length := p.Bits() / 8
	return rule{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: uint32(length)},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: p.Addr().AsSlice()[:length]},
	}
}

// matchTracking reports whether connection tracking has set at least one of the bits for a packet, or, if set is false,
// has set no bit.
func matchTracking(key expr.CtKey, bits uint32, set bool) rule {
	return rule{
		&expr.Ct{Key: key, Register: 1},
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: 4,
			Mask: binary.NativeEndian.AppendUint32(nil, bits), Xor: make([]byte, 4),
		},
		&expr.Cmp{Op: comparison(!set), Register: 1, Data: make([]byte, 4)},
	}
}
