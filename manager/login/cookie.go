package login

import (
	"context"
	"net"
	"net/http"
	"strings"
	"time"
)

// The cookies, without the prefix of their names.
const (
	sessionCookie = "vmop-session"
	attemptCookie = "vmop-login" // an OIDC log-in that has begun
	knownCookie   = "vmop-known" // a user who has logged in with this browser
)

// secure reports whether cookies are sent by TLS only.
func (s *Service) secure() bool { return s.opts.Link == "" && !s.config.Load().PlainHTTP }

// cookieName returns the name of a cookie: with the prefix __Host- browsers accept it from this
// host alone. On a loopback address it has the port, since cookies are those of all ports.
func (s *Service) cookieName(r *http.Request, name string) string {
	switch {
	case s.secure():
		return "__Host-" + name
	case s.opts.Link != "":
		if _, port, err := net.SplitHostPort(r.Host); err == nil {
			return name + "-" + port
		}
	}
	return name
}

// cookie returns one that scripts can't read. A positive age is how long the browser keeps it;
// with 0 that is until it ends, with -1 it forgets it. SameSite is Lax and not Strict: the
// request after an OIDC log-in comes from the provider's site.
func (s *Service) cookie(r *http.Request, name, value string, age time.Duration) *http.Cookie {
	seconds := int(age / time.Second)
	if age < 0 {
		seconds = -1
	}
	return &http.Cookie{
		Name: s.cookieName(r, name), Value: value, Path: "/", MaxAge: seconds,
		Secure: s.secure(), HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
}

type contextKey struct{}

// FromContext returns the session of the request that a context belongs to; nil if there is
// none.
func FromContext(ctx context.Context) *Session {
	session, _ := ctx.Value(contextKey{}).(*Session)
	return session
}

// Middleware puts the session of a request into its context. A request without one is handed on,
// too; one with a bearer token that isn't accepted is answered by refuse, with a code of HTTP, and,
// where there are one-time links, one for another host with 421. A token takes the place of a cookie,
// even if it isn't accepted.
func (s *Service) Middleware(
	next http.Handler, refuse func(http.ResponseWriter, *http.Request, int, error),
) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.opts.Link != "" && !s.isHere(r.Host) { // such as a name of a foreign site that leads here
			http.Error(w, "These pages have an address of their own. To see it, run: vmmanager local link",
				http.StatusMisdirectedRequest)
			return
		}
		var session *Session
		if token, given := bearer(r); given {
			var err error
			by := s.byToken
			if s.opts.Link != "" {
				by = s.byOwnToken
			}
			if session, err = by(r, token); err != nil {
				w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
				refuse(w, r, status(err), err)
				return
			}
		} else if session = s.resume(r, !stream(r)); session != nil {
			s.renew(w, r, session)
		}
		if session != nil {
			r = r.WithContext(context.WithValue(r.Context(), contextKey{}, session))
		}
		next.ServeHTTP(w, r)
	})
}

// stream reports whether a request begins a stream. Browsers repeat such requests without their
// user.
func stream(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/event-stream") || r.Header.Get("Upgrade") != ""
}

// renew sets the cookie again from time to time, so that other managers know that the session is
// in use.
func (s *Service) renew(w http.ResponseWriter, r *http.Request, session *Session) {
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
	if cookie, err := s.keys.Load().session.close(t); err == nil {
		http.SetCookie(w, s.cookie(r, sessionCookie, cookie, s.cookieAge()))
	}
}

// cookieAge is how long browsers keep the cookie of a session: until they end, or, where a command prints links, as
// long as the session may last.
func (s *Service) cookieAge() time.Duration {
	if s.opts.Link == "" {
		return 0
	}
	return s.config.Load().lifetime()
}

// isLoopback reports whether a host, with or without a port, is this computer: by an address, or by a name that
// browsers resolve without asking anyone (RFC 6761, section 6.3).
func isLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	host = strings.ToLower(host)
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || ip != nil && ip.IsLoopback()
}
