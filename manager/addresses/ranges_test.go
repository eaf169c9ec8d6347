package addresses

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
)

func ranges(t testing.TB, all ...Range) Ranges {
	t.Helper()
	require.Empty(t, Ranges(all).Check("ranges"))
	return all
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// All errors in the configured ranges are reported together, each with its path.
func TestFaultsOfRanges(t *testing.T) {
	t.Parallel()
	one := func(change func(*Range)) Ranges {
		r := Range{CIDR: "10.66.10.0/24"}
		change(&r)
		return Ranges{r}
	}
	routes := func(to, via string) Ranges {
		return one(func(r *Range) { r.Routes = []vmspec.Route{{To: to, Via: via}} })
	}
	exclude := func(spans ...string) Ranges { return one(func(r *Range) { r.Exclude = spans }) }
	gateway := func(address string) Ranges { return one(func(r *Range) { r.Gateway = address }) }
	for _, row := range []struct {
		ranges Ranges
		want   []string
	}{
		{Ranges{{CIDR: "10.0.0.0/8"}, {CIDR: "11.0.0.0/30"}}, nil},
		{Ranges{{}}, []string{"ranges[0].cidr: missing"}},
		{Ranges{{CIDR: "10.66.10.0"}}, []string{`ranges[0].cidr: "10.66.10.0" is not a subnet`}},
		{Ranges{{CIDR: "fd00::/64"}}, []string{"ranges[0].cidr: fd00::/64 is not IPv4"}},
		{Ranges{{CIDR: "10.0.0.0/7"}}, []string{"ranges[0].cidr: 10.0.0.0/7 can't be /7"}},
		{Ranges{{CIDR: "10.0.0.0/31"}}, []string{"ranges[0].cidr: 10.0.0.0/31 can't be /31"}},
		{Ranges{{CIDR: "10.66.10.1/24"}}, []string{"ranges[0].cidr: 10.66.10.1/24 is the address of a host"}},
		{
			Ranges{{CIDR: "10.66.0.0/16"}, {CIDR: "10.66.10.0/24"}, {}},
			[]string{
				"ranges[1].cidr: 10.66.10.0/24 overlaps 10.66.0.0/16 of ranges[0]", "ranges[2].cidr: missing",
			},
		},
		{gateway("10.66.10.254"), nil},
		{gateway("router"), []string{`ranges[0].gateway: "router" is not an IPv4 address`}},
		{gateway("fd00::1"), []string{`ranges[0].gateway: "fd00::1" is not an IPv4 address`}},
		{gateway("10.66.11.1"), []string{"ranges[0].gateway: 10.66.11.1 is not a host address of 10.66.10.0/24"}},
		{gateway("10.66.10.0"), []string{"ranges[0].gateway: 10.66.10.0 is not a host address of 10.66.10.0/24"}},
		{gateway("10.66.10.255"), []string{"ranges[0].gateway: 10.66.10.255 is not a host address of 10.66.10.0/24"}},
		{Ranges{{CIDR: "x", Gateway: "10.0.0.1"}}, []string{`ranges[0].cidr: "x" is not a subnet`}},
		{one(func(r *Range) {
			r.Nameservers = &vmspec.Nameservers{Addresses: []string{"10.66.10.2", "8.8.8.8", "dns"}}
		}), []string{`ranges[0].nameservers.addresses[2]: "dns" is not an IPv4 address`}},
		{routes("10.0.0.0/8", "10.66.10.3"), nil},
		{routes("10.0.0.1/8", "10.66.10.3"), []string{`ranges[0].routes[0].to: "10.0.0.1/8" is not an IPv4 subnet`}},
		{routes("fd00::/8", "10.66.10.3"), []string{`ranges[0].routes[0].to: "fd00::/8" is not an IPv4 subnet`}},
		{routes("there", "10.66.11.3"), []string{
			`ranges[0].routes[0].to: "there" is not an IPv4 subnet`,
			"ranges[0].routes[0].via: 10.66.11.3 is not a host address of 10.66.10.0/24",
		}},
		{exclude("10.66.10.2", "10.66.10.4-10.66.10.4", "10.66.10.64/28"), nil},
		{exclude("10.66.10.1-10.66.10.253"), nil},
		{exclude("10.66.10.0/24"), []string{"ranges[0].exclude: leaves no address of 10.66.10.0/24"}},
		{Ranges{{CIDR: "10.66.10.0/24", Exclude: []string{"10.66.10.0/24"}, Retired: true}}, nil},
	} {
		var got []string
		for _, fault := range row.ranges.Check("ranges") {
			require.NotEmpty(t, fault.Hint)
			got = append(got, fault.Path+": "+fault.Message)
		}
		require.Equal(t, row.want, got)
	}
	for _, span := range []string{
		"10.66.10.9-10.66.10.2", "10.66.10.9-10.66.11.2", "10.66.9.9-10.66.10.2", "fd00::/120", "10.66.10.1-fd00::",
		"fd00::1-10.66.10.1", "10.66.10.3-x", "x",
	} {
		faults := exclude("10.66.10.5", span).Check("")
		require.Len(t, faults, 1, span)
		require.Equal(t, "[0].exclude[1]", faults[0].Path)
		require.Equal(t, fmt.Sprintf("%q is not in 10.66.10.0/24", span), faults[0].Message)
	}
	again := exclude("10.66.10.2")
	require.Empty(t, again.Check(""))
	require.Empty(t, again.Check(""))
	require.Len(t, again[0].excluded, 1, "a configuration that is read again counts once")
}

// The search begins at the drawn address, in any range, and skips addresses that can't be leased.
func TestFreeBeginsAtTheDrawnAddress(t *testing.T) {
	t.Parallel()
	r := ranges(t, Range{CIDR: "10.66.10.0/29", Gateway: "10.66.10.3"}, Range{CIDR: "10.66.15.0/24", Retired: true},
		Range{CIDR: "10.66.20.0/30"}, Range{CIDR: "10.66.30.0/29", Exclude: []string{"10.66.30.2-10.66.30.5"}})
	for at, want := range []string{
		"10.66.10.1", "10.66.10.2", "10.66.10.4", "10.66.10.4", "10.66.10.5", "10.66.10.6",
		"10.66.20.1", "10.66.20.2",
		"10.66.30.1", "10.66.30.6", "10.66.30.6", "10.66.30.6", "10.66.30.6", "10.66.30.6",
	} {
		a, ok := r.Free(func(n uint64) uint64 {
			require.EqualValues(t, 14, n)
			return uint64(at)
		}, func(netip.Addr) bool { return false })
		require.True(t, ok)
		require.Equal(t, want, a.String(), at)
	}
}

func TestOnlyHostsAreUsable(t *testing.T) {
	t.Parallel()
	r := ranges(t, Range{
		CIDR: "10.66.10.0/29", Gateway: "10.66.10.1", Exclude: []string{"10.66.10.5", "10.66.10.2 - 10.66.10.3"},
	},
		Range{CIDR: "10.66.20.0/30"}, Range{CIDR: "10.66.30.0/24", Retired: true})
	for text, want := range map[string]string{
		"10.66.10.4":  "",
		"10.66.20.2":  "",
		"10.66.10.0":  "10.66.10.0 is the address of the network 10.66.10.0/29 itself",
		"10.66.10.7":  "10.66.10.7 is the broadcast address of 10.66.10.0/29",
		"10.66.10.1":  "10.66.10.1 is the gateway of 10.66.10.0/29",
		"10.66.10.3":  "10.66.10.3 is excluded in the manager's configuration",
		"10.66.10.5":  "10.66.10.5 is excluded in the manager's configuration",
		"10.66.30.9":  "10.66.30.9 is in 10.66.30.0/24, but addresses of that range are no longer leased",
		"192.168.0.1": "192.168.0.1 is in none of the ranges of the manager's configuration (10.66.10.0/29, 10.66.20.0/30)",
	} {
		require.Equal(t, want, r.Unusable(addr(text)))
	}
	require.Equal(t, "10.0.0.1 is in none of the ranges of the manager's configuration (there are none)",
		Ranges(nil).Unusable(addr("10.0.0.1")))
}

// From any starting point, Free returns each usable address of the ranges exactly once.
func TestFreeFindsAllAddresses(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		all := Ranges{
			{CIDR: "10.66.10.0/26"}, {CIDR: "10.66.20.0/30"}, {CIDR: "10.66.30.0/27"}, {CIDR: "10.66.40.0/28"},
		}
		all[0].Exclude = []string{"10.66.10.48/28", "10.66.10.0/30", "10.66.10.20-10.66.10.33", "10.66.10.30"}
		all[0].Gateway, all[2].Gateway = "10.66.10.9", "10.66.30.30"
		all[3].Retired = true
		all[1].Retired = seed%2 == 0
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = ranges(t, all...)
		usable := map[netip.Addr]bool{}
		for _, r := range all {
			for a := r.subnet.Addr(); r.subnet.Contains(a); a = a.Next() {
				if all.Unusable(a) == "" {
					usable[a] = true
				}
			}
		}
		found := map[netip.Addr]bool{}
		for range usable {
			a, ok := all.Free(random.Uint64N, func(a netip.Addr) bool { return found[a] })
			require.True(t, ok)
			require.True(t, usable[a], a)
			require.False(t, found[a], a)
			found[a] = true
		}
		_, ok := all.Free(random.Uint64N, func(a netip.Addr) bool { return found[a] })
		require.False(t, ok, "all are taken")
	}
	_, ok := Ranges{}.Free(rand.Uint64N, func(netip.Addr) bool { return false })
	require.False(t, ok)
}

// Addresses are drawn at random from all ranges, in proportion to their sizes.
func TestFreeIsRandom(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	r := ranges(t, Range{CIDR: "10.66.0.0/24"}, Range{CIDR: "10.67.0.0/22"})
	inFirst := 0
	for range 10_000 {
		a, ok := r.Free(random.Uint64N, func(netip.Addr) bool { return false })
		require.True(t, ok)
		if r[0].subnet.Contains(a) {
			inFirst++
		}
	}
	require.InDelta(t, 10_000*254/(254+1022), inFirst, 200)
}

func TestLeaseHasWhatTheRangeHas(t *testing.T) {
	t.Parallel()
	names := &vmspec.Nameservers{Addresses: []string{"10.66.10.2"}}
	routes := []vmspec.Route{{To: "10.0.0.0/8", Via: "10.66.10.3"}}
	r := ranges(t, Range{CIDR: "10.66.10.0/24", Gateway: "10.66.10.1", Nameservers: names, Routes: routes},
		Range{CIDR: "10.66.20.0/25", Filter: new(false), Retired: true})
	require.Equal(t, &Lease{vmspec.Lease{
		Address: "10.66.10.14/24", Gateway: "10.66.10.1", Nameservers: names, Routes: routes,
	}, true}, r.Lease(addr("10.66.10.14")))
	require.Equal(t, &Lease{vmspec.Lease{Address: "10.66.20.9/25"}, false}, r.Lease(addr("10.66.20.9")))
	require.Nil(t, r.Lease(addr("10.66.30.1")))
	require.True(t, r.Leasing())
	require.False(t, r[1:].Leasing())
}

func TestNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, "ip-10-66-10-14", LeaseName(addr("10.66.10.14")))
	require.Equal(t, addr("10.66.10.14"), AddressOf("ip-10-66-10-14"))
	for _, wrong := range []string{
		"", "ip-", "ip-10-66-10", "10-66-10-14", "ip-10-66-10-014", "ip-10.66.10.14", "ip-10-66-10-300",
	} {
		require.False(t, AddressOf(wrong).IsValid(), wrong)
	}
	require.Equal(t, "linux-vm-p6kcs", AutomaticName("default", "linux-vm"), "every manager makes the same name")
	require.NotEqual(t, AutomaticName("default", "linux-vm"), AutomaticName("other", "linux-vm"))
}
