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
	// linkLife is how long a one-time link is valid.
	linkLife = 10 * time.Minute
	// tokenLife is how long a token from NewToken is valid.
	tokenLife = 12 * time.Hour
	// mostLinks is the maximum number of valid links. A new link invalidates the oldest.
	mostLinks = 8
)

// links are the unused one-time links.
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
	made := link{randomText(), s.opts.Now().Add(linkLife)}
	s.links.all = append(s.links.all, made)
	if len(s.links.all) > mostLinks {
		s.links.all = s.links.all[1:]
	}
	return made.token
}

// useLink reports whether a token is valid, and removes it.
func (l *links) useLink(token string, now time.Time) bool {
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

// Redeem uses a one-time link to log the user in, and sets the cookie. Its error is a LinkError. The caller must
// redirect, so that the token disappears from the address bar.
func (s *Service) Redeem(w http.ResponseWriter, r *http.Request, token string) (*Session, error) {
	if s.opts.Link == "" || !s.links.useLink(token, s.opts.Now()) {
		return nil, s.refuseLogin(r, refusedLink, &LinkError{}, "method", byLink)
	}
	return s.beginSession(w, r, ticket{User: s.opts.Link, Method: byLink, Roles: s.opts.LinkRoles})
}

// NewToken returns a bearer token that lets a program act as the user of Options.Link for TokenLife.
func (s *Service) NewToken() (string, error) {
	now := s.opts.Now()
	t := ticket{
		ID: randomText(), User: s.opts.Link, Method: byLinkToken, Roles: s.opts.LinkRoles,
		Since: now.Unix(), Seen: now.Unix(),
	}
	token, err := s.keys.Load().token.sealValue(t)
	if err != nil {
		return "", err
	}
	return token, s.kept.addSession(t.sessionKey(), now.Add(tokenLife), now)
}

// byOwnToken returns the session of a token that NewToken created.
func (s *Service) byOwnToken(r *http.Request, token string) (*Session, error) {
	var t ticket
	if err := s.keys.Load().token.openValue(token, &t); err == nil {
		if session := s.sessionOf(t, true); session != nil {
			return session, nil
		}
	}
	return nil, s.refuseLogin(r, refusedToken, &tokenError{Err: errors.New("it has expired or is not of these pages; " +
		"get a new token: vmmanager local token")}, "method", byLinkToken)
}

// isHere reports whether a request is for Options.Host. Browsers omit the default port.
func (s *Service) isHere(host string) bool {
	return strings.EqualFold(strings.TrimSuffix(host, ":80"), strings.TrimSuffix(s.opts.Host, ":80"))
}
