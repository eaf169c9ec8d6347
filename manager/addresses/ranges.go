package addresses

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"vmop/vmspec"
)

// Range is a subnet of addresses for VMs, from the manager's configuration.
type Range struct {
	// CIDR is the subnet: "10.66.10.0/24". A configuration may contain the CIDR in place of the whole range.
	CIDR string `yaml:"cidr" scalar:"true"`
	// Gateway is the router to all other networks, in the subnet. It may be empty.
	Gateway string `yaml:"gateway"`
	// Nameservers are the guests' name servers.
	Nameservers *vmspec.Nameservers `yaml:"nameservers"`
	// Routes lead to networks behind other routers.
	Routes []vmspec.Route `yaml:"routes"`
	// Exclude lists addresses that no VM gets. Each entry is an address, from-to, or a subnet.
	Exclude []string `yaml:"exclude"`
	// Filter restricts guests to their addresses. nil means true.
	Filter *bool `yaml:"filter"`
	// Retired stops leasing addresses from the range. VMs with such an address keep it.
	Retired bool `yaml:"retired"`

	// Check sets the following fields.
	subnet   netip.Prefix
	gateway  netip.Addr
	excluded []span
}

// Example returns examples of a range in a configuration.
func (Range) Example() string {
	return "10.66.10.0/24, or {cidr: 10.66.10.0/24, gateway: 10.66.10.1}"
}

// span is an inclusive range of addresses.
type span struct{ first, last netip.Addr }

func (s span) containsAddress(a netip.Addr) bool { return !a.Less(s.first) && !s.last.Less(a) }

// Ranges are the ranges of a configuration. Check must have read them.
type Ranges []Range

// Problem is an error in a configuration: where it is, what is wrong, and how to correct it.
type Problem struct{ Path, Message, Hint string }

// Sizes of subnets. A smaller subnet contains only network and broadcast addresses.
const (
	largestSubnet  = 8
	smallestSubnet = 30
)

// Check reads the ranges and returns all errors. The paths in errors start with at. Ranges with errors must not
// be used.
func (r Ranges) Check(at string) (faults []Problem) {
	for i := range r {
		one, path := &r[i], fmt.Sprintf("%s[%d]", at, i)
		add := func(key, message, hint string) { faults = append(faults, Problem{path + "." + key, message, hint}) }
		one.readRange(add)
		for j := range i {
			if other := &r[j]; one.subnet.IsValid() && other.subnet.IsValid() && one.subnet.Overlaps(other.subnet) {
				add("cidr", fmt.Sprintf("%s overlaps %s of %s[%d]", one.CIDR, other.CIDR, at, j),
					"each address must be in one range")
			}
		}
	}
	return faults
}

// readRange reads one range.
func (r *Range) readRange(add func(key, message, hint string)) {
	const such = "such as 10.66.10.0/24"
	subnet, err := netip.ParsePrefix(r.CIDR)
	switch {
	case r.CIDR == "":
		add("cidr", "missing", such)
	case err != nil:
		add("cidr", fmt.Sprintf("%q is not a subnet", r.CIDR), such)
	case !subnet.Addr().Is4():
		add("cidr", fmt.Sprintf("%s is not IPv4", r.CIDR), "ranges are of IPv4, "+such)
	case subnet.Bits() < largestSubnet || subnet.Bits() > smallestSubnet:
		add("cidr", fmt.Sprintf("%s can't be /%d", r.CIDR, subnet.Bits()),
			fmt.Sprintf("/%d to /%d", largestSubnet, smallestSubnet))
	case subnet != subnet.Masked():
		add("cidr", r.CIDR+" is the address of a host", "of its subnet it is "+subnet.Masked().String())
	default:
		r.subnet = subnet
	}
	if r.Gateway != "" {
		r.gateway = r.readRouter("gateway", r.Gateway, add)
	}
	if r.Nameservers != nil {
		for i, text := range r.Nameservers.Addresses {
			readHost(fmt.Sprintf("nameservers.addresses[%d]", i), text, add)
		}
	}
	for i, route := range r.Routes {
		if to, err := netip.ParsePrefix(route.To); err != nil || !to.Addr().Is4() || to != to.Masked() {
			add(fmt.Sprintf("routes[%d].to", i), fmt.Sprintf("%q is not an IPv4 subnet", route.To),
				"such as 10.0.0.0/8")
		}
		r.readRouter(fmt.Sprintf("routes[%d].via", i), route.Via, add)
	}
	r.excluded = nil
	for i, text := range r.Exclude {
		s, err := readSpan(text)
		if err != nil || r.subnet.IsValid() && !(r.subnet.Contains(s.first) && r.subnet.Contains(s.last)) {
			add(fmt.Sprintf("exclude[%d]", i), fmt.Sprintf("%q is not in %s", text, r.CIDR),
				"an address, such as 10.66.10.2; from-to, such as 10.66.10.2-10.66.10.9; or a subnet, such as 10.66.10.64/28")
			continue
		}
		r.excluded = append(r.excluded, s)
	}
	if r.subnet.IsValid() && !r.Retired {
		if _, ok := r.freeFrom(r.firstHost(), func(netip.Addr) bool { return false }); !ok {
			add("exclude", "leaves no address of "+r.CIDR, "exclude fewer, or set retired: true")
		}
	}
}

// readRouter reads the address of a router, which must be a host in the subnet.
func (r *Range) readRouter(key, text string, add func(key, message, hint string)) netip.Addr {
	a := readHost(key, text, add)
	if a.IsValid() && r.subnet.IsValid() && !r.isHost(a) {
		add(key, fmt.Sprintf("%s is not a host address of %s", text, r.CIDR),
			"a guest reaches only routers in its subnet")
	}
	return a
}

// readHost reads an IPv4 address.
func readHost(key, text string, add func(key, message, hint string)) netip.Addr {
	a, err := netip.ParseAddr(text)
	if err != nil || !a.Is4() {
		add(key, fmt.Sprintf("%q is not an IPv4 address", text), "such as 10.66.10.1")
		return netip.Addr{}
	}
	return a
}

// readSpan reads an address, from-to, or a subnet.
func readSpan(text string) (span, error) {
	if subnet, err := netip.ParsePrefix(text); err == nil && subnet.Addr().Is4() {
		return span{subnet.Masked().Addr(), broadcastAddress(subnet)}, nil
	}
	from, to, isSpan := strings.Cut(text, "-")
	if !isSpan {
		to = from
	}
	a, err := netip.ParseAddr(strings.TrimSpace(from))
	if err != nil {
		return span{}, err
	}
	b, err := netip.ParseAddr(strings.TrimSpace(to))
	if err != nil {
		return span{}, err
	}
	if !a.Is4() || !b.Is4() || b.Less(a) {
		return span{}, fmt.Errorf("%q is not a span of addresses", text)
	}
	return span{a, b}, nil
}

// broadcastAddress returns the broadcast address of a subnet.
func broadcastAddress(subnet netip.Prefix) netip.Addr {
	return fromNumber(ipv4Number(subnet.Masked().Addr()) | (1<<(32-subnet.Bits()) - 1))
}

func ipv4Number(a netip.Addr) uint32 {
	four := a.As4()
	return binary.BigEndian.Uint32(four[:])
}

func fromNumber(n uint32) netip.Addr {
	var four [4]byte
	binary.BigEndian.PutUint32(four[:], n)
	return netip.AddrFrom4(four)
}

func (r *Range) firstHost() netip.Addr { return r.subnet.Addr().Next() }

// isHost reports whether an address belongs to the subnet, and is not its network address or broadcast address.
func (r *Range) isHost(a netip.Addr) bool {
	return r.subnet.Contains(a) && a != r.subnet.Addr() && a != broadcastAddress(r.subnet)
}

// Unusable returns the reason why VMs can't get an IPv4 address, or "".
func (r Ranges) Unusable(a netip.Addr) string {
	one := r.rangeOf(a)
	switch {
	case one == nil:
		return fmt.Sprintf("%s is in none of the ranges of the manager's configuration (%s)", a, r)
	case a == one.subnet.Addr():
		return fmt.Sprintf("%s is the address of the network %s itself", a, one.CIDR)
	case a == broadcastAddress(one.subnet):
		return fmt.Sprintf("%s is the broadcast address of %s", a, one.CIDR)
	case a == one.gateway:
		return fmt.Sprintf("%s is the gateway of %s", a, one.CIDR)
	case one.isExcluded(a):
		return fmt.Sprintf("%s is excluded in the manager's configuration", a)
	case one.Retired:
		return fmt.Sprintf("%s is in %s, but addresses of that range are no longer leased", a, one.CIDR)
	}
	return ""
}

func (r *Range) isExcluded(a netip.Addr) bool {
	return slices.ContainsFunc(r.excluded, func(s span) bool { return s.containsAddress(a) })
}

// String lists the subnets that are not retired.
func (r Ranges) String() string {
	var all []string
	for _, one := range r {
		if !one.Retired {
			all = append(all, one.CIDR)
		}
	}
	if len(all) == 0 {
		return "there are none"
	}
	return strings.Join(all, ", ")
}

func (r Ranges) rangeOf(a netip.Addr) *Range {
	for i := range r {
		if r[i].subnet.Contains(a) {
			return &r[i]
		}
	}
	return nil
}

// Lease contains the settings that a guest gets with its address.
type Lease struct {
	vmspec.Lease

	// Filter restricts the guest to its address.
	Filter bool
}

// Lease returns the settings for a guest with an address, or nil if the address is in no range.
func (r Ranges) Lease(a netip.Addr) *Lease {
	one := r.rangeOf(a)
	if one == nil {
		return nil
	}
	return &Lease{vmspec.Lease{
		Address: netip.PrefixFrom(a, one.subnet.Bits()).String(), Gateway: one.Gateway,
		Nameservers: one.Nameservers, Routes: one.Routes,
	}, one.Filter == nil || *one.Filter}
}

// Leasing reports whether any range still leases addresses.
func (r Ranges) Leasing() bool {
	return slices.ContainsFunc(r, func(one Range) bool { return !one.Retired })
}

// Free returns an address that can be leased and for which taken returns false. It starts at a random address.
// random returns a number from 0 to below n. ok is false if all addresses are taken.
func (r Ranges) Free(random func(n uint64) uint64, taken func(netip.Addr) bool) (a netip.Addr, ok bool) {
	var sum uint64
	for i := range r {
		sum += r[i].countHosts()
	}
	if sum == 0 {
		return a, false
	}
	at, begin := random(sum), 0
	for ; at >= r[begin].countHosts(); begin++ {
		at -= r[begin].countHosts()
	}
	for i := range r { // each range once, starting with the range of the random address
		one := &r[(begin+i)%len(r)]
		if one.countHosts() == 0 {
			continue
		}
		from := one.firstHost()
		if i == 0 {
			from = fromNumber(ipv4Number(from) + uint32(at))
		}
		if a, ok := one.freeFrom(from, taken); ok {
			return a, true
		}
	}
	return a, false
}

// countHosts returns the number of hosts in the subnet, or 0 if the range is retired.
func (r *Range) countHosts() uint64 {
	if r.Retired {
		return 0
	}
	return 1<<(32-r.subnet.Bits()) - 2
}

// freeFrom returns the first free address starting at from. After the last address, it continues with the first
// address.
func (r *Range) freeFrom(from netip.Addr, taken func(netip.Addr) bool) (netip.Addr, bool) {
	end := broadcastAddress(r.subnet)
	for a, left := from, r.countHosts(); left > 0; left-- {
		skip := slices.IndexFunc(r.excluded, func(s span) bool { return s.containsAddress(a) })
		switch {
		case skip >= 0: // skip the whole span
			to := min(ipv4Number(r.excluded[skip].last), ipv4Number(end)-1)
			left -= min(uint64(to-ipv4Number(a)), left-1)
			a = fromNumber(to)
		case a != r.gateway && !taken(a):
			return a, true
		}
		if a = a.Next(); a == end {
			a = r.firstHost()
		}
	}
	return netip.Addr{}, false
}
