package login

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"time"

	"vmop/manager/access"
)

// Reasons why a session has ended.
var (
	// errLoggedOut means that the user has logged out, or that an administrator has ended all sessions.
	errLoggedOut = errors.New("logged out")
	// errExpired means that the session was idle for too long, or has reached its maximum lifetime.
	errExpired = errors.New("the session has expired")
	// errWithdrawn means that the configuration no longer contains the user or provider, or contains another
	// password, or that the token is no longer valid.
	errWithdrawn = errors.New("the log-in has been withdrawn")
	// errEvicted means that the manager has dropped the session. The browser still has it, and may send it again.
	errEvicted = errors.New("too many sessions")
)

const (
	mostSessions = 10_000 // remembered by a manager
	mostRevoked  = 50_000
)

// Log-in methods.
const (
	byPassword = "password"
	byProvider = "oidc"
	byLink     = "link"
	byToken    = "token"
	// byLinkToken is a token of the link's user.
	byLinkToken = "link-token"
)

// ticket is the contents of a session cookie.
type ticket struct {
	ID       string   `json:"i"`
	User     string   `json:"u"`
	Name     string   `json:"n,omitempty"` // display name
	Method   string   `json:"m"`
	Provider string   `json:"p,omitempty"`
	Roles    []string `json:"r,omitempty"` // from the provider
	Mark     string   `json:"k,omitempty"` // of the password
	Since    int64    `json:"s"`           // Unix time
	Seen     int64    `json:"l"`           // last use, in Unix time
	Key      string   `json:"h,omitempty"` // hash of the page key

	Cluster access.Identity `json:"-"` // from a token
	Until   time.Time       `json:"-"` // expiry of the token
}

// sessionKey returns a name of the session that can't be used to log in.
func (t ticket) sessionKey() string {
	sum := sha256.Sum256([]byte(t.ID))
	return hex.EncodeToString(sum[:16])
}

func (t ticket) logAttributes() []any {
	attrs := []any{"user", nameForLog(t.User), "method", t.Method}
	if t.Provider != "" {
		attrs = append(attrs, "provider", t.Provider)
	}
	return attrs
}

// Session is the session of a logged-in user, or of a program with a token.
type Session struct {
	service *Service
	ticket  ticket
	done    chan struct{}
	pageKey string // only set when the session has just started

	// The mutex of the service guards the following fields.
	used  time.Time
	seen  int64 // last use according to the cookie
	cause error
	place *list.Element
}

// User returns the user's name.
func (s *Session) User() string { return s.ticket.User }

// DisplayName returns the user's display name.
func (s *Session) DisplayName() string {
	if s.ticket.Name == "" {
		return s.ticket.User
	}
	return s.ticket.Name
}

// Subject returns the user with the roles from the current configuration.
func (s *Session) Subject() access.Subject { return s.service.config.Load().subjectOf(s.ticket) }

// Done returns a channel that is closed when the session ends. Err then returns the reason.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns ErrLoggedOut, ErrExpired or ErrWithdrawn; nil while the session lasts.
func (s *Session) Err() error {
	s.service.mu.Lock()
	defer s.service.mu.Unlock()
	return s.cause
}

// Touch records user activity without a request, such as typing.
func (s *Session) Touch() {
	s.service.mu.Lock()
	defer s.service.mu.Unlock()
	if s.cause == nil {
		s.used = s.service.opts.Now()
	}
}

// Expires returns the latest time when the session ends.
func (s *Session) Expires() time.Time {
	if s.ticket.Method == byToken {
		return s.ticket.Until
	}
	if s.ticket.Method == byLinkToken {
		return time.Unix(s.ticket.Since, 0).Add(tokenLife)
	}
	return time.Unix(s.ticket.Since, 0).Add(s.service.config.Load().sessionLifetime())
}

// endReason returns why a session that was last used at used can't continue, or nil.
func (s *Service) endReason(t ticket, used, now time.Time) error {
	c := s.config.Load()
	switch t.Method {
	case byToken:
		_, known := c.providerNamed(t.Provider)
		if t.Provider == "" && c.TokenAudience == "" || t.Provider != "" && !known {
			return errWithdrawn
		}
		if !now.Before(t.Until) {
			return errExpired
		}
		return nil
	case byPassword:
		if user, known := c.localUser(t.User); !known || hashMark(user.Hash) != t.Mark {
			return errWithdrawn
		}
	case byProvider:
		if _, known := c.providerNamed(t.Provider); !known {
			return errWithdrawn
		}
	}
	since := time.Unix(t.Since, 0)
	if t.Method == byLinkToken {
		if !now.Before(since.Add(tokenLife)) {
			return errExpired
		}
		return nil
	}
	if !now.Before(since.Add(c.sessionLifetime())) || !now.Before(used.Add(c.idleTimeout())) {
		return errExpired
	}
	return nil
}

// resumeSession returns the session of a request's cookie, or nil. use reports whether the request counts as user
// activity, which postpones expiry.
func (s *Service) resumeSession(r *http.Request, use bool) *Session {
	cookie, err := r.Cookie(s.cookieName(r, sessionCookie))
	if err != nil {
		return nil
	}
	var t ticket
	if err := s.keys.Load().session.openValue(cookie.Value, &t); err != nil || t.ID == "" || t.User == "" {
		return nil
	}
	return s.sessionOf(t, use)
}

// sessionOf returns the session of a ticket, or nil if it has ended.
func (s *Service) sessionOf(t ticket, use bool) *Session {
	now, key := s.opts.Now(), t.sessionKey()
	if s.kept != nil && !s.kept.hasSession(key) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ended := s.sessions.ended[key]; ended {
		return nil
	}
	session := s.sessions.byKey[key]
	used := time.Unix(t.Seen, 0)
	if session != nil && session.used.After(used) {
		used = session.used
	}
	if err := s.endReason(t, used, now); err != nil {
		s.sessions.endSession(session, err)
		return nil
	}
	if session == nil {
		session = s.sessions.addSession(s, t, used)
	}
	session.seen = max(session.seen, t.Seen)
	if session.used = used; use {
		session.used = now
	}
	s.sessions.order.MoveToFront(session.place)
	return session
}

// Check checks again whether the session may continue, and returns the reason if it has ended, like Err. Streams
// call it every minute.
func (s *Session) Check(ctx context.Context) error {
	if s.ticket.Method == byToken {
		return s.service.checkToken(ctx, s)
	}
	s.service.mu.Lock()
	defer s.service.mu.Unlock()
	if err := s.service.endReason(s.ticket, s.used, s.service.opts.Now()); s.cause == nil && err != nil {
		s.service.sessions.endSession(s, err)
	}
	return s.cause
}

// sweepSessions ends the sessions that have become invalid.
func (s *Service) sweepSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	for _, session := range s.sessions.byKey {
		if err := s.endReason(session.ticket, session.used, now); err != nil {
			s.sessions.endSession(session, err)
		}
	}
	s.sessions.forgetExpired(now)
}

// endAll ends all sessions.
func (s *Service) endAll(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.sessions.byKey {
		s.sessions.endSession(session, cause)
	}
}

// table contains the current sessions, the most recently used first, and the revoked sessions, all by key.
type table struct {
	byKey map[string]*Session
	order *list.List
	ended map[string]time.Time // when they would have expired
}

func newTable() table {
	return table{byKey: map[string]*Session{}, order: list.New(), ended: map[string]time.Time{}}
}

// addSession adds a session. If there are too many, it evicts the least recently used session: its streams end, but its
// cookie remains valid.
func (t *table) addSession(s *Service, from ticket, used time.Time) *Session {
	session := &Session{service: s, ticket: from, done: make(chan struct{}), used: used, seen: from.Seen}
	session.place = t.order.PushFront(session)
	t.byKey[from.sessionKey()] = session
	if len(t.byKey) > mostSessions {
		if oldest, ok := t.order.Back().Value.(*Session); ok {
			t.endSession(oldest, errEvicted)
		}
	}
	return session
}

// endSession ends a session unless it is nil or has already ended.
func (t *table) endSession(session *Session, cause error) {
	if session == nil || session.cause != nil {
		return
	}
	session.cause = cause
	close(session.done)
	t.order.Remove(session.place)
	delete(t.byKey, session.ticket.sessionKey())
}

// revokeKey ends a session permanently.
func (t *table) revokeKey(key string, until, now time.Time) {
	t.endSession(t.byKey[key], errLoggedOut)
	if !until.After(now) {
		return
	}
	t.ended[key] = until
	for key := range t.ended { // the sweep removes expired entries
		if len(t.ended) <= mostRevoked {
			break
		}
		delete(t.ended, key)
	}
}

// forgetExpired removes the revoked sessions that would have expired by now.
func (t *table) forgetExpired(now time.Time) {
	for key, until := range t.ended {
		if !until.After(now) {
			delete(t.ended, key)
		}
	}
}
