package outbound

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// resolverPatience is how long a name may take that a proxy is asked for.
const resolverPatience = 5 * time.Second

// Dialer returns a dialer that makes no connection that the rule refuses. It judges resolved addresses.
func (r Rule) Dialer() *net.Dialer {
	return &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return r.Check(to)
	}}
}

// Transport returns a transport that makes requests as base does and refuses those to internal addresses, even after a
// redirect. The administrator chooses the proxy of base, whose address may be internal. A URL is resolved and judged
// before the proxy is asked for it. Names that only the proxy can resolve are the proxy's decision.
func (r Rule) Transport(base *http.Transport) http.RoundTripper {
	t := &transport{rule: r, proxy: base.Proxy, direct: base.Clone(), proxied: base}
	t.direct.Proxy, t.direct.DialContext = nil, r.Dialer().DialContext
	return t
}

type transport struct {
	rule            Rule
	proxy           func(*http.Request) (*url.URL, error)
	direct, proxied *http.Transport
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.proxy == nil {
		return t.direct.RoundTrip(req)
	}
	by, err := t.proxy(req)
	if err != nil {
		return nil, err
	}
	if by == nil {
		return t.direct.RoundTrip(req)
	}
	if err := t.rule.CheckURL(req.Context(), req.URL); err != nil {
		return nil, err
	}
	return t.proxied.RoundTrip(req)
}

// CheckURL returns a RefusedError if the host of a URL is or resolves to a refused address. It is for connections that
// another program makes: a name that isn't known here is permitted, and may resolve differently there.
func (r Rule) CheckURL(ctx context.Context, u *url.URL) error {
	port, err := strconv.ParseUint(cmp.Or(u.Port(), map[string]string{"https": "443"}[u.Scheme], "80"), 10, 16)
	if err != nil {
		return err
	}
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if a, err := netip.ParseAddr(host); err == nil {
		return r.Check(netip.AddrPortFrom(a, uint16(port)))
	}
	labels := strings.Split(host, ".")
	switch last := labels[len(labels)-1]; {
	case last == "localhost":
		if r.Check(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port))) != nil {
			return &RefusedError{host, "a loopback address"}
		}
		return nil
	case isNumber(last):
		return &RefusedError{host, "an address in a form that programs understand differently"}
	}
	short, cancel := context.WithTimeout(ctx, resolverPatience)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(short, "ip", host)
	if err != nil {
		return ctx.Err()
	}
	for _, a := range found {
		if err := r.Check(netip.AddrPortFrom(a, uint16(port))); err != nil {
			return err
		}
	}
	return nil
}

// isNumber reports whether the last label of a host makes it an IPv4 address for programs that also read 127.1,
// 0x7f000001 or 017700000001.
func isNumber(label string) bool {
	hex := strings.TrimPrefix(label, "0x")
	return strings.Trim(label, "0123456789") == "" || hex != label && strings.Trim(hex, "0123456789abcdef") == ""
}
