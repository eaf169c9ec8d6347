package login

import (
	"container/list"
	"crypto/sha256"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
)

// A rate allows burst attempts at once, and one per interval in the long run.
type rate struct {
	burst    int
	interval time.Duration
}

// The rates of attempts that fail. One address alone can't use up that of a user: other users'
// addresses remain. A browser with which a user has logged in before has a rate of its own, so
// that attempts from elsewhere, be they from everywhere, don't keep the user out.
func rates() (address, user, known rate) {
	return rate{20, 4 * time.Second}, rate{40, 2 * time.Second}, rate{5, 2 * time.Second}
}

const (
	// longestDelay is how long an attempt is delayed; beyond that it is refused.
	longestDelay = 5 * time.Second
	// mostDelayed are delayed at once, others are refused.
	mostDelayed = 256
	// mostBuckets are remembered, those used last.
	mostBuckets = 20_000
)

// A bucketKey is a hash: names can be long.
type bucketKey [16]byte

// A limiter counts attempts by keys, each of which has a rate: the time at which a bucket is
// full again is all that is kept of it (GCRA).
type limiter struct {
	now func() time.Time

	mu      sync.Mutex
	buckets map[bucketKey]*list.Element
	order   *list.List // of *bucket, those used last in front
	delayed int
}

type bucket struct {
	key  bucketKey
	full time.Time
}

func newLimiter(now func() time.Time) *limiter {
	return &limiter{now: now, buckets: map[bucketKey]*list.Element{}, order: list.New()}
}

// A claim is what an attempt has taken from a bucket.
type claim struct {
	key  bucketKey
	rate rate
}

func newClaim(of rate, kind string, parts ...string) claim {
	sum := sha256.Sum256([]byte(kind + "\x00" + strings.Join(parts, "\x00")))
	return claim{bucketKey(sum[:16]), of}
}

// reserve takes an attempt from all buckets, and returns how long to wait before it. If that is too
// long, or too many wait, it takes nothing and reports false.
func (l *limiter) reserve(claims ...claim) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, c := range claims {
		if e, known := l.buckets[c.key]; known {
			wait = max(wait, l.wait(e, c.rate, now))
		}
	}
	if wait > longestDelay || wait > 0 && l.delayed >= mostDelayed {
		return wait, false
	}
	for _, c := range claims {
		b := l.bucket(c.key)
		b.full = later(b.full, now).Add(c.rate.interval)
	}
	if wait > 0 {
		l.delayed++
	}
	return wait, true
}

// waited notes that an attempt no longer waits.
func (l *limiter) waited() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delayed--
}

// giveBack returns what an attempt has taken that was no failure.
func (l *limiter) giveBack(claims ...claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range claims {
		if e, known := l.buckets[c.key]; known {
			if b, ok := e.Value.(*bucket); ok {
				b.full = b.full.Add(-c.rate.interval)
			}
		}
	}
}

// wait returns how long until a bucket has room for an attempt.
func (l *limiter) wait(e *list.Element, of rate, now time.Time) time.Duration {
	b, ok := e.Value.(*bucket)
	if !ok {
		return 0
	}
	room := time.Duration(of.burst-1) * of.interval
	return max(0, b.full.Sub(now)-room)
}

// bucket returns that of a key. If there are too many, the one not used for longest is forgotten.
func (l *limiter) bucket(key bucketKey) *bucket {
	if e, known := l.buckets[key]; known {
		l.order.MoveToFront(e)
		if b, ok := e.Value.(*bucket); ok {
			return b
		}
	}
	b := &bucket{key: key}
	l.buckets[key] = l.order.PushFront(b)
	if len(l.buckets) > mostBuckets {
		if oldest, ok := l.order.Remove(l.order.Back()).(*bucket); ok {
			delete(l.buckets, oldest.key)
		}
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// address returns the address of the client: the last one that is not of a trusted proxy. It is
// for limits and the log, not for rights.
func (s *Service) address(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	address := peer.Addr().Unmap()
	trusted := s.config.Load().TrustedProxies
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && trusts(trusted, address); i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		address = hop.Unmap().WithZone("")
	}
	return address.String()
}

// Encrypted reports whether the browser of a request encrypts: as far as here, as far as a proxy, which
// says so or is trusted, or not, but to its own computer, as with kubectl port-forward, whose connections come from the
// loopback address of the pod. Without that it wouldn't send cookies back, unless Config.PlainHTTP.
func (s *Service) Encrypted(r *http.Request) bool {
	if r.TLS != nil || isLoopback(r.Host) && isLoopback(r.RemoteAddr) {
		return true
	}
	if proto := r.Header.Get("X-Forwarded-Proto"); proto != "" {
		return proto == "https"
	}
	return s.ByProxy(r.RemoteAddr)
}

// Scheme returns how the browser of a request has reached the pages, http or https. What the request
// says of that itself counts if it comes from a trusted proxy.
func (s *Service) Scheme(r *http.Request) string {
	proto := r.Header.Get("X-Forwarded-Proto")
	if r.TLS != nil || s.ByProxy(r.RemoteAddr) && (proto == "" || proto == "https") {
		return "https"
	}
	return "http"
}

// ByProxy reports whether an address, with a port, is that of a trusted proxy.
func (s *Service) ByProxy(address string) bool {
	peer, err := netip.ParseAddrPort(address)
	return err == nil && trusts(s.config.Load().TrustedProxies, peer.Addr().Unmap())
}

// trusts reports whether an address is one of a proxy.
func trusts(proxies []string, address netip.Addr) bool {
	for _, proxy := range proxies {
		if prefix, err := parsePrefix(proxy); err == nil && prefix.Contains(address) {
			return true
		}
	}
	return false
}

// parsePrefix reads an address or a prefix.
func parsePrefix(text string) (netip.Prefix, error) {
	if !strings.Contains(text, "/") {
		address, err := netip.ParseAddr(text)
		return netip.PrefixFrom(address, address.BitLen()), err
	}
	prefix, err := netip.ParsePrefix(text)
	return prefix.Masked(), err
}

// network returns what has a rate of its own: an IPv4 address, or the /64 of an IPv6 address,
// all of whose addresses one computer can have.
func network(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Is4() {
		return address
	}
	prefix, err := ip.Prefix(64)
	if err != nil {
		return address
	}
	return prefix.String()
}
