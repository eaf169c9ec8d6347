package addresses

import (
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
		"10.66.30.9":  "10.66.30.9 is in 10.66.30.0/24, of which no address is leased any more",
		"192.168.0.1": "192.168.0.1 is in none of the ranges of the manager's configuration (10.66.10.0/29, 10.66.20.0/30)",
	} {
		require.Equal(t, want, r.Unusable(addr(text)))
	}
	require.Equal(t, "10.0.0.1 is in none of the ranges of the manager's configuration (there are none)",
		Ranges(nil).Unusable(addr("10.0.0.1")))
}

// Whatever the ranges and wherever it begins, Free finds each usable address once, and then none.
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

// An address is random in all ranges together, by their size.
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
	require.Regexp(t, `^linux-vm-[b-z2-9]{5}$`, AutomaticName("default", "linux-vm"))
	require.Equal(t, AutomaticName("default", "linux-vm"), AutomaticName("default", "linux-vm"))
	require.NotEqual(t, AutomaticName("default", "linux-vm"), AutomaticName("other", "linux-vm"))
}
