package outbound_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/internal/outbound"
)

func TestInternalAddressesAreRefused(t *testing.T) {
	t.Parallel()
	for text, kind := range map[string]string{
		"127.0.0.1": "loopback", "127.8.9.1": "loopback", "::1": "loopback", "0.0.0.0": "unspecified",
		"::": "unspecified", "0.1.2.3": "unspecified",
		"169.254.169.254": "link-local", "fe80::1": "link-local", "fe80::1%eth0": "link-local",
		"224.0.0.1": "multicast", "ff02::1": "multicast", "255.255.255.255": "broadcast",
		"::ffff:127.0.0.1": "loopback", "::ffff:169.254.169.254": "link-local", "::127.0.0.1": "loopback",
		"2002:7f00:1::": "loopback", "2002:a9fe:a9fe::1": "link-local", "2002:7f00:1::%eth0": "loopback",
		"64:ff9b::169.254.169.254": "link-local", "64:ff9b::7f00:1": "loopback", "64:ff9b:1::a9fe:a9fe": "link-local",
		"168.63.129.16": "metadata", "100.100.100.200": "metadata", "fd00:ec2::254": "metadata",
		"fd20:ce::254": "metadata", "192.0.0.192": "metadata",
		"fd00:42::42": "metadata", "64:ff9b::168.63.129.16": "metadata",
	} {
		require.ErrorContains(t, outbound.Rule{}.Check(to(text)), kind, text)
	}
	for _, text := range []string{
		"10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd12::1", "64:ff9b::10.0.0.1", "::ffff:10.0.0.1",
		"192.0.2.1", "2001:db8::1", "1.1.1.1", "64:ff9b::1.1.1.1", "2002:101:101::",
	} {
		require.NoError(t, outbound.Rule{}.Check(to(text)), text)
	}
}

func to(address string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(address), 80) }

func TestPrivateAddressesAreRefusedBySwitch(t *testing.T) {
	t.Parallel()
	rule := outbound.Rule{NoPrivate: true}
	for _, text := range []string{
		"10.1.2.3", "172.31.0.1", "192.168.1.1", "100.64.0.1", "fd12::1", "fec0::1", "64:ff9b::10.0.0.1",
		"::ffff:192.168.0.1", "2002:a00:1::", "127.0.0.1",
	} {
		require.Error(t, rule.Check(to(text)), text)
	}
	for _, text := range []string{"1.1.1.1", "172.32.0.1", "2001:db8::1", "2002:101:101::"} {
		require.NoError(t, rule.Check(to(text)), text)
	}
}

// Naming a server on this computer allows only the named port.
func TestNamedServers(t *testing.T) {
	t.Parallel()
	for server, permitted := range map[string]map[string]bool{
		"localhost:5000":       {"127.0.0.1:5000": true, "[::1]:5000": true, "127.0.0.1:631": false},
		"localhost:80":         {"169.254.169.254:80": false},
		"127.0.0.1":            {"127.0.0.1:80": true, "127.0.0.1:443": true, "127.0.0.1:22": false},
		"[::1]:8080":           {"[::1]:8080": true},
		"mirror.example":       {"127.0.0.1:80": false, "10.0.0.1:80": true},
		"169.254.169.254":      {"169.254.169.254:80": false},
		"localhost.example:80": {"127.0.0.1:80": false},
	} {
		for address, is := range permitted {
			err := outbound.Named(server).Check(netip.MustParseAddrPort(address))
			require.Equal(t, is, err == nil, "%s: %s", server, address)
		}
	}
}

// counting returns a server that counts requests, and its address.
func counting(t *testing.T, handler http.HandlerFunc) (address string, count *atomic.Int64) {
	t.Helper()
	count = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count.Add(1)
		handler(w, r)
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://"), count
}

func get(t *testing.T, rule outbound.Rule, base *http.Transport, address string) (string, error) {
	t.Helper()
	client := &http.Client{Transport: rule.Transport(base)}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	require.NoError(t, err)
	answer, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(text), nil
}

// An allowed server can't redirect to a forbidden server, by address or by name.
func TestRedirectsAndNamesLeadToNoInternalAddress(t *testing.T) {
	t.Parallel()
	secret, asked := counting(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secret") })
	_, port, _ := strings.Cut(secret, ":")
	target := ""
	front, _ := counting(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, target, http.StatusFound)
	})
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"} {
		target = "http://" + host + ":" + port
		for _, address := range []string{"http://" + front, target} {
			_, err := get(t, outbound.Named(front), &http.Transport{DisableKeepAlives: true}, address)
			require.ErrorAs(t, err, new(*outbound.RefusedError), "%s to %s", address, target)
		}
	}
	require.Zero(t, asked.Load())
	text, err := get(t, outbound.Named(front, secret), &http.Transport{DisableKeepAlives: true}, "http://"+secret)
	require.NoError(t, err)
	require.Equal(t, "secret", text)
}

// A proxy, which may run on this computer, receives no requests for internal addresses.
func TestAProxyIsNoWayAround(t *testing.T) {
	t.Parallel()
	address, asked := counting(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Host) })
	base := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: address}), DisableKeepAlives: true}
	for _, host := range []string{
		"169.254.169.254", "127.0.0.1", "[::1]", "127.1", "0x7f000001", "2130706433", "0177.0.0.1", "10.0x1",
		"localhost", "localhost.", "a.localhost", "[64:ff9b::a9fe:a9fe]", "169.254.169.254.",
	} {
		_, err := get(t, outbound.Rule{}, base, "http://"+host+"/")
		require.ErrorAs(t, err, new(*outbound.RefusedError), host)
	}
	_, err := get(t, outbound.Rule{NoPrivate: true}, base, "http://10.0.0.1/")
	require.ErrorAs(t, err, new(*outbound.RefusedError))
	require.Zero(t, asked.Load())
	for _, host := range []string{"10.0.0.1", "192.0.2.1", "known-to-the-proxy.invalid", "[64:ff9b::1.1.1.1]"} {
		text, err := get(t, outbound.Rule{}, base, "http://"+host+"/")
		require.NoError(t, err)
		require.Equal(t, host, text)
	}
}
