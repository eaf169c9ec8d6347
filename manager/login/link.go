package login

import (
	"crypto/subtle"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// LinkLife is how long a one-time link can be used.
	LinkLife = 10 * time.Minute
	// TokenLife is how long a token of NewToken is accepted.
	TokenLife = 12 * time.Hour
	// mostLinks are valid at a time; a new one invalidates the oldest.
	mostLinks = 8
)

// links are one-time links.
type links struct {
	mu  sync.Mutex
	all []link
}

type link struct {
	token string
	until time.Time
}

// NewLink returns the token of a link that logs the user of Options.Link in, once, within LinkLife.
func (s *Service) NewLink() string {
	s.links.mu.Lock()
	defer s.links.mu.Unlock()
	made := link{random(), s.opts.Now().Add(LinkLife)}
	s.links.all = append(s.links.all, made)
	if len(s.links.all) > mostLinks {
		s.links.all = s.links.all[1:]
	}
	return made.token
}

// use reports whether a token is valid, which it is no more then.
func (l *links) use(token string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, valid := range l.all {
		if subtle.ConstantTimeCompare([]byte(valid.token), []byte(token)) == 1 {
			l.all = append(l.all[:i:i], l.all[i+1:]...)
			return now.Before(valid.until)
		}
	}
	return false
}

// Redeem logs the user of a one-time link in and sets the cookie. The error is a LinkError. The
// caller redirects, so that the token leaves the address bar.
func (s *Service) Redeem(w http.ResponseWriter, r *http.Request, token string) (*Session, error) {
	if s.opts.Link == "" || !s.links.use(token, s.opts.Now()) {
		return nil, s.refuse(r, refusedLink, &LinkError{}, "method", byLink)
	}
	return s.begin(w, r, ticket{User: s.opts.Link, Method: byLink, Roles: s.opts.LinkRoles})
}

// NewToken returns a bearer token with which a program acts as the user of Options.Link, for TokenLife.
func (s *Service) NewToken() (string, error) {
	now := s.opts.Now()
	t := ticket{
		ID: random(), User: s.opts.Link, Method: byLinkToken, Roles: s.opts.LinkRoles,
		Since: now.Unix(), Seen: now.Unix(),
	}
	token, err := s.keys.Load().token.close(t)
	if err != nil {
		return "", err
	}
	return token, s.kept.add(t.key(), now.Add(TokenLife), now)
}

// byOwnToken returns the session of a token of NewToken.
func (s *Service) byOwnToken(r *http.Request, token string) (*Session, error) {
	var t ticket
	if err := s.keys.Load().token.open(token, &t); err == nil {
		if session := s.proceed(t, true); session != nil {
			return session, nil
		}
	}
	return nil, s.refuse(r, refusedToken, &TokenError{Err: errors.New("it has expired or is not of these pages; " +
		"get another one: vmmanager local token")}, "method", byLinkToken)
}

// isHere reports whether a request is for the host of Options.Host. Browsers leave the usual port away.
func (s *Service) isHere(host string) bool {
	return strings.EqualFold(strings.TrimSuffix(host, ":80"), strings.TrimSuffix(s.opts.Host, ":80"))
}
