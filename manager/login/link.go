package login

import (
	"crypto/subtle"
	"net/http"
	"sync"
)

// mostLinks are valid at a time; a new one invalidates the oldest.
const mostLinks = 8

// links are tokens of one-time links.
type links struct {
	mu     sync.Mutex
	tokens []string
}

// NewLink returns the token of a link that logs the user of Options.Link in, once.
func (s *Service) NewLink() string {
	s.links.mu.Lock()
	defer s.links.mu.Unlock()
	token := random()
	s.links.tokens = append(s.links.tokens, token)
	if len(s.links.tokens) > mostLinks {
		s.links.tokens = s.links.tokens[1:]
	}
	return token
}

// use reports whether a token is valid, which it is no more then.
func (l *links) use(token string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, valid := range l.tokens {
		if subtle.ConstantTimeCompare([]byte(valid), []byte(token)) == 1 {
			l.tokens = append(l.tokens[:i:i], l.tokens[i+1:]...)
			return true
		}
	}
	return false
}

// Redeem logs the user of a one-time link in and sets the cookie. The error is a LinkError. The
// caller redirects, so that the token leaves the address bar.
func (s *Service) Redeem(w http.ResponseWriter, r *http.Request, token string) (*Session, error) {
	if s.opts.Link == "" || !isLoopback(r.Host) || !s.links.use(token) {
		return nil, s.refuse(r, refusedLink, &LinkError{}, "method", byLink)
	}
	return s.begin(w, r, ticket{User: s.opts.Link, Method: byLink, Roles: s.opts.LinkRoles})
}
