package guest_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/guest"
)

// tells returns an agent that answers every question with a value.
func tells(t *testing.T, value string) *guest.Agent {
	return dial(t, agentThat(t, sensible(func(q question) string { return q.answer(value) })))
}

func TestInterfaces(t *testing.T) {
	t.Parallel()
	address := func(text string, prefix int) string {
		return fmt.Sprintf(`{"ip-address": %q, "ip-address-type": "ipv4", "prefix": %d}`, text, prefix)
	}
	card := func(name, mac string, addresses ...string) string {
		return fmt.Sprintf(`{"name": %q, "hardware-address": %q, "ip-addresses": [%s], "statistics": {"rx-bytes": 1}}`,
			name, mac, strings.Join(addresses, ","))
	}
	const mac = "52:54:00:12:34:56"
	eth0 := guest.Interface{Name: "eth0", MAC: mac, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.2.15/24")}}
	tests := []struct {
		what string
		said []string
		want []guest.Interface
	}{
		{"nothing", nil, nil},
		{"one", []string{card("eth0", mac, address("10.0.2.15", 24))}, []guest.Interface{eth0}},
		{
			"loopback is left out",
			[]string{
				card("lo", "00:00:00:00:00:00", address("127.0.0.1", 8), address("::1", 128)),
				card("Loopback Pseudo-Interface 1", "", address("::1", 128)),
				card("lo", "00:00:00:00:00:00"),
				card("eth0", "52-54-00-12-34-56", address("10.0.2.15", 24)),
			},
			[]guest.Interface{eth0},
		},
		{
			"but not the addresses a service has on it",
			[]string{card("lo", "00:00:00:00:00:00", address("127.0.0.1", 8), address("192.0.2.1", 32))},
			[]guest.Interface{{Name: "lo", Addresses: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}}},
		},
		{
			"both families, and no zone",
			[]string{card("eth0", mac, address("2001:db8::1", 64), address("fe80::1%eth0", 64))},
			[]guest.Interface{{
				Name: "eth0", MAC: mac,
				Addresses: []netip.Prefix{
					netip.MustParsePrefix("2001:db8::1/64"),
					netip.MustParsePrefix("fe80::1/64"),
				},
			}},
		},
		{
			"what cannot be",
			[]string{
				card("eth0", mac, address("10.0.2.15", 24), address("10.0.2.15", 33), address("10.0.2.15", -1),
					address("x", 8),
					address("0.0.0.0", 0), address("224.0.0.1", 4), address("10.0.2.15/24", 24),
					address("1.2.3.4\x1b", 8)),
				card("", mac),
				card("eth1", "52:54:00:12:34"),
				`{"name": "eth2"}`,
			},
			[]guest.Interface{eth0, {Name: "eth1"}, {Name: "eth2"}},
		},
		{"escape codes", []string{card("\x1b[2Jé", "\x1b")}, []guest.Interface{{Name: "\ufffd[2Jé"}}},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			said := strings.ReplaceAll("["+strings.Join(tt.said, ",")+"]", `\x1b`, `\u001b`)
			got, err := tells(t, said).Interfaces(timeout(t))
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
}

func TestInterfacesAreBounded(t *testing.T) {
	t.Parallel()
	addresses := strings.Repeat(`{"ip-address": "10.0.2.15", "prefix": 24},`, 2*guest.MaxAddresses)
	one := fmt.Sprintf(`{"name": "%s", "ip-addresses": [%s]},`, strings.Repeat("x", 1000), strings.Trim(addresses, ","))
	got, err := tells(t, "["+strings.Trim(strings.Repeat(one, 2*guest.MaxInterfaces), ",")+"]").Interfaces(timeout(t))
	require.NoError(t, err)
	require.Len(t, got, guest.MaxInterfaces)
	require.Len(t, got[0].Addresses, guest.MaxAddresses)
	require.Equal(t, strings.Repeat("x", guest.MaxText-1)+"…", got[0].Name)

	_, err = tells(t, `{"name": "eth0"}`).Interfaces(timeout(t))
	require.ErrorContains(t, err, "guest agent guest-network-get-interfaces: read the reply")
}

func TestFreezing(t *testing.T) {
	t.Parallel()
	frozen := 0
	a := dial(t, agentThat(t, sensible(func(q question) string {
		switch q.Execute {
		case "guest-fsfreeze-freeze":
			frozen = 2
			return q.answer("2")
		case "guest-fsfreeze-thaw":
			n := frozen
			frozen = 0
			return q.answer(fmt.Sprint(n))
		case "guest-fsfreeze-status":
			return q.answer([]string{`"thawed"`, "", `"frozen"`}[frozen])
		}
		return fmt.Sprintf(`{"error": {"class": "CommandNotFound", "desc": "x"}, "id": %d}`+"\n", q.ID)
	})))
	ctx := timeout(t)
	state := func() guest.FreezeState {
		s, err := a.FSFreezeStatus(ctx)
		require.NoError(t, err)
		return s
	}
	require.Equal(t, guest.Thawed, state())
	n, err := a.FreezeFS(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, guest.Frozen, state())
	n, err = a.ThawFS(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, n)
	require.Equal(t, guest.Thawed, state())
	n, err = a.ThawFS(ctx)
	require.NoError(t, err)
	require.Zero(t, n)

	_, err = tells(t, `"melting\u001b"`).FSFreezeStatus(ctx)
	require.EqualError(t, err,
		"guest agent guest-fsfreeze-status: the state \"melting\ufffd\" is neither thawed nor frozen")
	limited, cancel := context.WithCancel(ctx)
	silent := dial(t, agentThat(t, func(n int, q question) string {
		if n == 0 {
			return q.sync()
		}
		cancel()
		return ""
	}))
	_, err = silent.FreezeFS(limited)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, guest.ErrUnsent, "it may freeze yet")
	limited, cancel = context.WithCancel(ctx)
	defer cancel()
	_, err = silent.FreezeFS(limited)
	require.ErrorIs(t, err, guest.ErrUnsent, "it does not even answer guest-sync-delimited")
	_, err = tells(t, `-1`).FreezeFS(ctx)
	require.EqualError(t, err, "guest agent guest-fsfreeze-freeze: -1 is not a number of file systems")
	_, err = tells(t, `"two"`).ThawFS(ctx)
	require.ErrorContains(t, err, "guest agent guest-fsfreeze-thaw: read the reply")
}
