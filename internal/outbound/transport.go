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

// resolverPatience is the time limit for resolving a name before a proxy receives the request.
const resolverPatience = 5 * time.Second

// Dialer returns a dialer that refuses connections as the rule does. It checks resolved addresses.
func (r Rule) Dialer() *net.Dialer {
	return &net.Dialer{Control: func(_, address string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(address)
		if err != nil {
			return err
		}
		return r.Check(to)
	}}
}

// Transport returns a transport that sends requests as base does, but refuses requests to internal addresses, even
// after a redirect. The address of base's proxy may be internal, because the administrator chooses it. Before the
// proxy receives a request, Transport resolves and checks the URL. The proxy itself decides about names that only it
// can resolve.
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

// CheckURL returns a RefusedError if the host of a URL is, or resolves to, a refused address. Use it for connections
// of another program. It permits names that can't be resolved here. The other program may also resolve a name
// differently.
func (r Rule) CheckURL(ctx context.Context, u *url.URL) error {
	host, port, err := hostOf(u)
	if err != nil {
		return err
	}
	if isName, err := r.checkSpelling(host, port); err != nil || !isName {
		return err
	}
	short, cancel := context.WithTimeout(ctx, resolverPatience)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(short, "ip", host)
	if err != nil {
		return ctx.Err()
	}
	for _, a := range found {
		if err := r.Check(netip.AddrPortFrom(a, port)); err != nil {
			return err
		}
	}
	return nil
}

// CheckSpelling is like CheckURL, but permits all names that need resolution.
func (r Rule) CheckSpelling(u *url.URL) error {
	host, port, err := hostOf(u)
	if err != nil {
		return err
	}
	_, err = r.checkSpelling(host, port)
	return err
}

// checkSpelling checks a host that needs no resolution. Otherwise it reports that the host is a name.
func (r Rule) checkSpelling(host string, port uint16) (isName bool, err error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return false, r.Check(netip.AddrPortFrom(a, port))
	}
	labels := strings.Split(host, ".")
	switch last := labels[len(labels)-1]; {
	case last == "localhost":
		if r.Check(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port)) != nil {
			return false, &RefusedError{host, "a loopback address"}
		}
		return false, nil
	case isNumber(last):
		return false, &RefusedError{host, "an address in a form that programs understand differently"}
	}
	return true, nil
}

func hostOf(u *url.URL) (host string, port uint16, err error) {
	number, err := strconv.ParseUint(cmp.Or(u.Port(), map[string]string{"https": "443"}[u.Scheme], "80"), 10, 16)
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), uint16(number), err
}

// isNumber reports whether the last label of a host makes it an IPv4 address for programs that also accept 127.1,
// 0x7f000001 or 017700000001.
func isNumber(label string) bool {
	hex := strings.TrimPrefix(label, "0x")
	return strings.Trim(label, "0123456789") == "" || hex != label && strings.Trim(hex, "0123456789abcdef") == ""
}
