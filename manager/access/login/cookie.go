package login

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"
)

// The cookies, without their name prefix.
const (
	sessionCookie = "vmop-session"
	attemptCookie = "vmop-login" // an OIDC log-in in progress
	knownCookie   = "vmop-known" // a user who has logged in with this browser
)

// needsTLS reports whether browsers send cookies only over TLS.
func (s *Service) needsTLS() bool { return s.opts.Link == "" && !s.config.Load().PlainHTTP }

// cookieName returns the full name of a cookie. The prefix __Host- makes browsers accept the cookie from this
// host alone. On a loopback address the name includes the port, because all ports of a host share their cookies.
func (s *Service) cookieName(r *http.Request, name string) string {
	switch {
	case s.needsTLS():
		return "__Host-" + name
	case s.opts.Link != "":
		if _, port, err := net.SplitHostPort(r.Host); err == nil {
			return name + "-" + port
		}
	}
	return name
}

// newCookie returns a cookie that scripts can't read. Browsers keep it for age if age is positive, until they exit
// if age is 0, and delete it if age is -1. SameSite is Lax, not Strict, because the request after an OIDC log-in
// comes from the provider's site.
func (s *Service) newCookie(r *http.Request, name, value string, age time.Duration) *http.Cookie {
	seconds := int(age / time.Second)
	if age < 0 {
		seconds = -1
	}
	return &http.Cookie{
		Name: s.cookieName(r, name), Value: value, Path: "/", MaxAge: seconds,
		Secure: s.needsTLS(), HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
}

type contextKey struct{}

// FromContext returns the session of the request that a context belongs to, or nil.
func FromContext(ctx context.Context) *Session {
	session, _ := ctx.Value(contextKey{}).(*Session)
	return session
}

// Middleware puts the session of a request into its context. It passes requests without a session on to next. A
// bearer token takes precedence over a cookie, even if the token is invalid.
//
// Middleware answers two kinds of requests itself:
//
//   - An invalid bearer token: it calls refuse with an HTTP status.
//   - A request for another host, if one-time links are in use: it sends status 421.
func (s *Service) Middleware(
	next http.Handler, refuse func(http.ResponseWriter, *http.Request, int, error),
) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.opts.Link != "" && !s.isHere(r.Host) { // for example a foreign site's name that resolves to this address
			http.Error(w, "These pages have a separate address. To see it, run: vmmanager local link",
				http.StatusMisdirectedRequest)
			return
		}
		var session *Session
		if token, given := bearerToken(r); given {
			var err error
			by := s.byToken
			if s.opts.Link != "" {
				by = s.byOwnToken
			}
			if session, err = by(r, token); err != nil {
				w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
				refuse(w, r, refusalStatus(err), err)
				return
			}
		} else if session = s.resumeSession(r, !beginsStream(r)); session != nil {
			s.renewCookie(w, r, session)
		}
		if session != nil {
			r = r.WithContext(context.WithValue(r.Context(), contextKey{}, session))
		}
		next.ServeHTTP(w, r)
	})
}

// beginsStream reports whether a request starts a stream. Browsers repeat such requests without user activity.
func beginsStream(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream") || r.Header.Get("Upgrade") != ""
}

// renewCookie sets the cookie again from time to time, to let other managers know that the session is in use.
func (s *Service) renewCookie(w http.ResponseWriter, r *http.Request, session *Session) {
	s.mu.Lock()
	due := session.used.Sub(time.Unix(session.seen, 0)) >= s.config.Load().idleTimeout()/30
	if due {
		session.seen = session.used.Unix()
	}
	t := session.ticket
	t.Seen = session.seen
	s.mu.Unlock()
	if !due {
		return
	}
	if cookie, err := s.keys.Load().session.sealValue(t); err == nil {
		http.SetCookie(w, s.newCookie(r, sessionCookie, cookie, s.cookieAge()))
	}
}

// cookieAge is how long browsers keep a session's cookie: until they exit, or, if one-time links are in use, for
// the lifetime of a session.
func (s *Service) cookieAge() time.Duration {
	if s.opts.Link == "" {
		return 0
	}
	return s.config.Load().sessionLifetime()
}

// isLoopbackHost reports whether a host, with or without a port, is this computer. It accepts loopback addresses and
// the names that browsers resolve without asking a server (RFC 6761, section 6.3).
func isLoopbackHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	host = strings.ToLower(host)
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}
