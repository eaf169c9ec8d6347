package netsetup

import (
	"encoding/binary"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

const (
	// leaseTime lets a VM keep its address while its runner restarts; the address never changes while the network
	// exists.
	leaseTime  = 24 * time.Hour
	serverPort = 67
	clientPort = 68
)

// lease is the only lease that the DHCP server offers.
type lease struct {
	mac      net.HardwareAddr // the only client that receives an answer
	guest    netip.Prefix     // the client's address in its subnet
	server   netip.Addr       // the server's address as the client sees it
	gateway  netip.Addr       // router; may be invalid
	routes   []Route          // via other routers, may be empty
	dns      []netip.Addr     // may be empty
	search   []string         // domains for names without a dot, may be empty
	mtu      int              // bytes
	hostname string           // may be empty
}

// reply is an answer with its destination.
type reply struct {
	message *dhcpv4.DHCPv4
	to      netip.AddrPort
}

// answerRequest computes the answer to a request; ok is false if the server must stay silent. Sources: RFC 2131
// sections 4.3 (answers) and 4.1 (destinations), RFC 6842 (client identifier), RFC 3397 (search domains).
//
// All requests come from a link with a single VM on it. A client without an address receives a broadcast, which it
// accepts regardless of its broadcast flag.
func (l lease) answerRequest(request *dhcpv4.DHCPv4) (r reply, ok bool, err error) {
	kind, ok := l.kindOfAnswer(request)
	if !ok {
		return reply{}, false, nil
	}
	options := []dhcpv4.Modifier{
		dhcpv4.WithMessageType(kind),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(l.server.AsSlice())),
		dhcpv4.WithOptionCopied(request, dhcpv4.OptionClientIdentifier),
	}
	if kind != dhcpv4.MessageTypeNak {
		options = append(options, l.leaseOptions()...)
	}
	renewing := request.ClientIPAddr != nil && !request.ClientIPAddr.IsUnspecified()
	switch {
	case kind == dhcpv4.MessageTypeNak:
		renewing = false
	case request.MessageType() == dhcpv4.MessageTypeInform:
		// The client already has its address: send parameters only.
	default:
		options = append(options,
			dhcpv4.WithYourIP(l.guest.Addr().AsSlice()),
			dhcpv4.WithOption(dhcpv4.OptIPAddressLeaseTime(leaseTime)))
	}
	message, err := dhcpv4.NewReplyFromRequest(request, options...)
	if err != nil {
		return reply{}, false, err
	}
	to := netip.AddrPortFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), clientPort)
	if renewing {
		to = netip.AddrPortFrom(l.guest.Addr(), clientPort)
	}
	return reply{message, to}, true, nil
}

func (l lease) kindOfAnswer(request *dhcpv4.DHCPv4) (dhcpv4.MessageType, bool) {
	relayed := request.GatewayIPAddr != nil && !request.GatewayIPAddr.IsUnspecified()
	if request.OpCode != dhcpv4.OpcodeBootRequest || relayed || request.ClientHWAddr.String() != l.mac.String() {
		return 0, false
	}
	switch request.MessageType() {
	case dhcpv4.MessageTypeDiscover:
		return dhcpv4.MessageTypeOffer, true
	case dhcpv4.MessageTypeInform:
		return dhcpv4.MessageTypeAck, true
	case dhcpv4.MessageTypeRequest:
		if server := request.ServerIdentifier(); server != nil && !server.Equal(l.server.AsSlice()) {
			return 0, false // the client took another server's offer
		}
		wanted := request.RequestedIPAddress()
		if wanted == nil || wanted.IsUnspecified() {
			wanted = request.ClientIPAddr
		}
		if !wanted.Equal(l.guest.Addr().AsSlice()) {
			return dhcpv4.MessageTypeNak, true
		}
		return dhcpv4.MessageTypeAck, true
	default:
		return 0, false
	}
}

// leaseOptions returns the options of an answer other than the address.
func (l lease) leaseOptions() []dhcpv4.Modifier {
	mask := net.CIDRMask(l.guest.Bits(), 32)
	mtu := binary.BigEndian.AppendUint16(nil, uint16(l.mtu))
	options := []dhcpv4.Modifier{
		dhcpv4.WithNetmask(mask),
		dhcpv4.WithGeneric(dhcpv4.OptionInterfaceMTU, mtu),
	}
	routes := l.routes
	if l.gateway.IsValid() {
		options = append(options, dhcpv4.WithRouter(l.gateway.AsSlice()))
		// A client that accepts routes ignores the router option (RFC 3442).
		everything := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		routes = append([]Route{{To: everything, Via: l.gateway}}, routes...)
	}
	if len(l.routes) > 0 {
		list := make(dhcpv4.Routes, len(routes))
		for i, r := range routes {
			list[i] = &dhcpv4.Route{Dest: toIPNet(r.To), Router: r.Via.AsSlice()}
		}
		options = append(options, dhcpv4.WithOption(dhcpv4.Option{
			Code: dhcpv4.OptionClasslessStaticRoute, Value: list,
		}))
	}
	if len(l.dns) > 0 {
		servers := make([]net.IP, len(l.dns))
		for i, server := range l.dns {
			servers[i] = server.AsSlice()
		}
		options = append(options, dhcpv4.WithDNS(servers...))
	}
	if len(l.search) > 0 {
		options = append(options,
			dhcpv4.WithOption(dhcpv4.OptDomainName(l.search[0])),
			dhcpv4.WithDomainSearchList(l.search...))
	}
	if l.hostname != "" {
		options = append(options, dhcpv4.WithOption(dhcpv4.OptHostName(l.hostname)))
	}
	return options
}
