package netsetup

import (
	"encoding/binary"
	"net"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Offsets into the headers of Ethernet, ARP (RFC 826) and UDP.
const (
	hardwareOffset   = 6 // of the sender
	etherTypeOffset  = 12
	arpSenderOffset  = 8
	sourcePortOffset = 0
	etherLength      = 14
	protocolOffset   = 9 // in the header of IPv4
)

// bridgeFilter is NF_BR_PRI_FILTER_BRIDGED of linux/netfilter_bridge.h.
const bridgeFilter = -200

// fromGuest returns the rules for packets from the guest behind a tap. In nft syntax, with vm0, 10.66.10.14 and
// 02:00:00:00:00:01:
//
//	from-guest: type filter hook ingress device "vm0" priority filter
//	    ether type ip udp dport 67 drop
//	    ether saddr != 02:00:00:00:00:01 drop
//	    ether type ip udp sport 67 drop
//	    ether type ip ip saddr 10.66.10.14 accept
//	    ether type arp arp htype 1 arp ptype ip arp hlen 6 arp plen 4 \
//	        arp saddr ether 02:00:00:00:00:01 arp saddr ip 10.66.10.14 accept
//	    the same with arp saddr ip 0.0.0.0 (a probe, RFC 5227) accept
//	    drop
//
// Without Lease.Filter only the first rule exists.
//
// The hook runs before the bridge, because a bridge learns the senders of some frames, for example LLDP, without
// consulting its own rules.
//
// See docs/decisions/0099-lease-on-a-tap.md.
func fromGuest(l Lease) chain {
	drop, accept := rule{&expr.Verdict{Kind: expr.VerdictDrop}}, rule{&expr.Verdict{Kind: expr.VerdictAccept}}
	rules := []rule{slices.Concat(etherType(unix.ETH_P_IP), toPort(unix.IPPROTO_UDP, dhcpv4.ServerPort), drop)}
	if l.Filter {
		// Ethernet, IPv4, and their address lengths.
		arp := compareField(expr.PayloadBaseNetworkHeader, 0, []byte{0, 1, 8, 0, 6, 4}, true)
		sender := func(ip []byte) rule {
			return compareField(expr.PayloadBaseNetworkHeader, arpSenderOffset, slices.Concat(l.MAC, ip), true)
		}
		own := l.Address.Addr()
		rules = append(rules,
			slices.Concat(compareField(expr.PayloadBaseLLHeader, hardwareOffset, l.MAC, false), drop),
			slices.Concat(etherType(unix.ETH_P_IP), matchProtocol(unix.IPPROTO_UDP),
				compareField(expr.PayloadBaseTransportHeader,
					sourcePortOffset, binary.BigEndian.AppendUint16(nil, dhcpv4.ServerPort), true), drop),
			slices.Concat(etherType(unix.ETH_P_IP), matchAddress(sourceOffset, own, true), accept),
			slices.Concat(etherType(unix.ETH_P_ARP), arp, sender(own.AsSlice()), accept),
			slices.Concat(etherType(unix.ETH_P_ARP), arp, sender(make([]byte, 4)), accept),
			drop)
	}
	return chain{
		name: "from-guest", kind: nftables.ChainTypeFilter, hook: nftables.ChainHookIngress,
		priority: nftables.ChainPriorityFilter, rules: rules,
	}
}

// fromCard returns the rules for packets from a guest without a lease. They keep the guest to the hardware address
// of its card:
//
//	from-guest: type filter hook ingress device "vm0" priority filter
//	    ether saddr != 02:00:00:00:00:01 drop
//	    ether type arp arp saddr ether != 02:00:00:00:00:01 drop
//	    meta protocol ip udp sport 67 drop
//	    meta protocol ip6 udp sport 547 drop
//	    meta protocol ip6 icmpv6 type nd-router-advert drop
//	    meta protocol ip6 icmpv6 type nd-redirect drop
//
// At this hook the kernel has already removed the VLAN tag from the packet, so the last four rules match the
// contents.
//
// See docs/decisions/0181-bridges-of-a-node.md.
func fromCard(mac net.HardwareAddr) chain {
	drop := rule{&expr.Verdict{Kind: expr.VerdictDrop}}
	sent := func(family uint16, transport byte, offset uint32, want ...byte) rule {
		return slices.Concat(packetOf(family), matchProtocol(transport),
			compareField(expr.PayloadBaseTransportHeader, offset, want, true), drop)
	}
	const dhcpv6Server, routerAdvertisement, redirect = 547, 134, 137 // RFC 8415, RFC 4861
	return chain{
		name: "from-guest", kind: nftables.ChainTypeFilter, hook: nftables.ChainHookIngress,
		priority: nftables.ChainPriorityFilter, rules: []rule{
			slices.Concat(compareField(expr.PayloadBaseLLHeader, hardwareOffset, mac, false), drop),
			slices.Concat(packetOf(unix.ETH_P_ARP),
				compareField(expr.PayloadBaseNetworkHeader, arpSenderOffset, mac, false), drop),
			sent(unix.ETH_P_IP, unix.IPPROTO_UDP, sourcePortOffset,
				binary.BigEndian.AppendUint16(nil, dhcpv4.ServerPort)...),
			sent(unix.ETH_P_IPV6, unix.IPPROTO_UDP, sourcePortOffset,
				binary.BigEndian.AppendUint16(nil, dhcpv6Server)...),
			sent(unix.ETH_P_IPV6, unix.IPPROTO_ICMPV6, 0, routerAdvertisement),
			sent(unix.ETH_P_IPV6, unix.IPPROTO_ICMPV6, 0, redirect),
		},
	}
}

// packetOf matches a packet's protocol, even inside a VLAN.
func packetOf(etherType uint16) rule {
	return rule{
		&expr.Meta{Key: expr.MetaKeyPROTOCOL, Register: 1},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binary.BigEndian.AppendUint16(nil, etherType)},
	}
}

// toGuest returns the rules for packets from others to the guest:
//
//	to-guest: type filter hook postrouting priority filter
//	    oif "vm0" ether type ip udp dport 68 drop
//	    oif "vm0" ether type ip6 drop
//
// The second rule exists with Lease.Filter only: a guest that took an IPv6 address from a router could not use it.
// The rules identify the interface by its index, so rules that the kernel keeps after a killed process never match
// another interface. Packets that the runner itself sends on the tap aren't bridged.
func toGuest(link netlink.Link, l Lease) chain {
	drop := rule{&expr.Verdict{Kind: expr.VerdictDrop}}
	out := rule{
		&expr.Meta{Key: expr.MetaKeyOIF, Register: 1},
		&expr.Cmp{
			Op: expr.CmpOpEq, Register: 1, Data: binary.NativeEndian.AppendUint32(nil, uint32(link.Attrs().Index)),
		},
	}
	rules := []rule{
		slices.Concat(out, etherType(unix.ETH_P_IP), toPort(unix.IPPROTO_UDP, dhcpv4.ClientPort), drop),
	}
	if l.Filter {
		rules = append(rules, slices.Concat(out, etherType(unix.ETH_P_IPV6), drop))
	}
	return chain{
		name: "to-guest", kind: nftables.ChainTypeFilter, hook: nftables.ChainHookPostrouting,
		priority: nftables.ChainPriorityRef(bridgeFilter), rules: rules,
	}
}

// guardLease sets the rules for a lease.
func guardLease(doing string, t *table, link netlink.Link, l Lease) error {
	if err := t.addChains(doing, nftables.TableFamilyNetdev, link.Attrs().Name, fromGuest(l)); err != nil {
		return err
	}
	return t.addChains(doing, nftables.TableFamilyBridge, "", toGuest(link, l))
}

// etherType matches the type of a frame's payload. A frame with a VLAN tag has the VLAN's own type.
func etherType(number uint16) rule {
	return compareField(expr.PayloadBaseLLHeader, etherTypeOffset, binary.BigEndian.AppendUint16(nil, number), true)
}

// compareField compares bytes in a header.
func compareField(base expr.PayloadBase, offset uint32, want []byte, equal bool) rule {
	return rule{
		&expr.Payload{DestRegister: 1, Base: base, Offset: offset, Len: uint32(len(want))},
		&expr.Cmp{Op: comparison(equal), Register: 1, Data: want},
	}
}
