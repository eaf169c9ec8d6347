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

// rate allows burst consecutive attempts, and one per interval in the long run.
type rate struct {
	burst    int
	interval time.Duration
}

// attemptRates returns the rates of failed attempts. An address can't use up a user's rate alone, so the user can still
// log in from other addresses. A browser that a user has logged in with before has its own rate, so that attempts
// from elsewhere, however many, don't lock the user out.
func attemptRates() (address, user, known rate) {
	return rate{20, 4 * time.Second}, rate{40, 2 * time.Second}, rate{5, 2 * time.Second}
}

const (
	// longestDelay is the maximum delay of an attempt. Attempts that would wait longer are refused.
	longestDelay = 5 * time.Second
	// mostDelayed is the maximum number of delayed attempts. Further attempts are refused.
	mostDelayed = 256
	// mostBuckets is the number of remembered buckets. The least recently used buckets are dropped.
	mostBuckets = 20_000
)

// bucketKey is a hash, because names can be long.
type bucketKey [16]byte

// limiter counts attempts by key. Each key has a rate. The limiter stores only the time when a bucket will be
// full again (GCRA).
type limiter struct {
	now func() time.Time

	mu      sync.Mutex
	buckets map[bucketKey]*list.Element
	order   *list.List // of *bucket, most recently used first
	delayed int
}

type bucket struct {
	key  bucketKey
	full time.Time
}

func newLimiter(now func() time.Time) *limiter {
	return &limiter{now: now, buckets: map[bucketKey]*list.Element{}, order: list.New()}
}

// claim is the part of a bucket that an attempt has used.
type claim struct {
	key  bucketKey
	rate rate
}

func newClaim(of rate, kind string, parts ...string) claim {
	sum := sha256.Sum256([]byte(kind + "\x00" + strings.Join(parts, "\x00")))
	return claim{bucketKey(sum[:16]), of}
}

// reserveAttempt takes an attempt from all buckets and returns how long to wait before the attempt. If the wait would
// be too long, or too many attempts are waiting, it takes no attempt and returns false.
func (l *limiter) reserveAttempt(claims ...claim) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for _, c := range claims {
		if e, known := l.buckets[c.key]; known {
			wait = max(wait, l.waitTime(e, c.rate, now))
		}
	}
	if wait > longestDelay || wait > 0 && l.delayed >= mostDelayed {
		return wait, false
	}
	for _, c := range claims {
		b := l.bucketFor(c.key)
		b.full = laterOf(b.full, now).Add(c.rate.interval)
	}
	if wait > 0 {
		l.delayed++
	}
	return wait, true
}

// endWait records that an attempt has stopped waiting.
func (l *limiter) endWait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delayed--
}

// giveBack returns the claims of an attempt that did not fail.
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

// waitTime returns the time until a bucket has room for an attempt.
func (l *limiter) waitTime(e *list.Element, of rate, now time.Time) time.Duration {
	b, ok := e.Value.(*bucket)
	if !ok {
		return 0
	}
	room := time.Duration(of.burst-1) * of.interval
	return max(0, b.full.Sub(now)-room)
}

// bucketFor returns the bucket for a key. If there are too many buckets, it drops the least recently used bucket.
func (l *limiter) bucketFor(key bucketKey) *bucket {
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

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// clientAddress returns the client's address: the last address that does not belong to a trusted proxy. It is for
// limits and the log, not for rights.
func (s *Service) clientAddress(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	address := peer.Addr().Unmap()
	trusted := s.config.Load().TrustedProxies
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && isTrustedProxy(trusted, address); i-- {
		hop, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		address = hop.Unmap().WithZone("")
	}
	return address.String()
}

// Encrypted reports whether the browser of a request uses encryption, which it requires to send cookies back
// unless Config.PlainHTTP is set. One of these must hold:
//
//   - The request came over TLS.
//   - A proxy states that it received the request over TLS, or the sender is a trusted proxy.
//   - The browser connects to its own computer, as with kubectl port-forward. The pod then sees a connection from
//     its loopback address.
func (s *Service) Encrypted(r *http.Request) bool {
	if r.TLS != nil || isLoopbackHost(r.Host) && isLoopbackHost(r.RemoteAddr) {
		return true
	}
	if proto := r.Header.Get("X-Forwarded-Proto"); proto != "" {
		return proto == "https"
	}
	return s.ByProxy(r.RemoteAddr)
}

// Scheme returns the scheme that the browser used to reach the pages, http or https. It believes the request's
// own header only if the request comes from a trusted proxy.
func (s *Service) Scheme(r *http.Request) string {
	proto := r.Header.Get("X-Forwarded-Proto")
	if r.TLS != nil || s.ByProxy(r.RemoteAddr) && (proto == "" || proto == "https") {
		return "https"
	}
	return "http"
}

// ByProxy reports whether an address with a port belongs to a trusted proxy.
func (s *Service) ByProxy(address string) bool {
	peer, err := netip.ParseAddrPort(address)
	return err == nil && isTrustedProxy(s.config.Load().TrustedProxies, peer.Addr().Unmap())
}

// isTrustedProxy reports whether an address belongs to a trusted proxy.
func isTrustedProxy(proxies []string, address netip.Addr) bool {
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

// networkOf returns the unit with its own rate: an IPv4 address, or the /64 of an IPv6 address, because one
// computer can use all addresses of a /64.
func networkOf(address string) string {
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
