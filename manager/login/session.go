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

// Why a session has ended.
var (
	// ErrLoggedOut means that the user has logged out, or an administrator has ended all
	// sessions.
	ErrLoggedOut = errors.New("logged out")
	// ErrExpired means that the session wasn't used for too long, or is too old.
	ErrExpired = errors.New("the session has expired")
	// ErrWithdrawn means that the configuration lacks the user or provider, or has another
	// password; or that the token is no longer valid.
	ErrWithdrawn = errors.New("the log-in has been withdrawn")
	// errEvicted: the browser still has the session, and may bring it again.
	errEvicted = errors.New("too many sessions")
)

const (
	mostSessions = 10_000 // that a manager remembers
	mostRevoked  = 50_000
)

// How a user has logged in.
const (
	byPassword = "password"
	byProvider = "oidc"
	byLink     = "link"
	byToken    = "token"
	// byLinkToken is a token of the user of the link.
	byLinkToken = "link-token"
)

// A ticket is what a cookie says.
type ticket struct {
	ID       string   `json:"i"`
	User     string   `json:"u"`
	Name     string   `json:"n,omitempty"` // shown
	Method   string   `json:"m"`
	Provider string   `json:"p,omitempty"`
	Roles    []string `json:"r,omitempty"` // of the provider
	Mark     string   `json:"k,omitempty"` // of the password
	Since    int64    `json:"s"`           // Unix time
	Seen     int64    `json:"l"`           // when it was used last
	Key      string   `json:"h,omitempty"` // a hash of the page key

	Cluster access.Identity `json:"-"` // of a token
	Until   time.Time       `json:"-"` // when that expires
}

// key is how the session is named where it isn't of use to anyone.
func (t ticket) key() string {
	sum := sha256.Sum256([]byte(t.ID))
	return hex.EncodeToString(sum[:16])
}

func (t ticket) attrs() []any {
	attrs := []any{"user", shown(t.User), "method", t.Method}
	if t.Provider != "" {
		attrs = append(attrs, "provider", t.Provider)
	}
	return attrs
}

// Session is that of a user who has logged in, or of a program with a token.
type Session struct {
	service *Service
	ticket  ticket
	done    chan struct{}
	pageKey string // of a session that has just begun

	// The mutex of the service guards these.
	used  time.Time
	seen  int64 // what the cookie says about that
	cause error
	place *list.Element
}

// User returns the user's name.
func (s *Session) User() string { return s.ticket.User }

// DisplayName returns the user's name as it is shown.
func (s *Session) DisplayName() string {
	if s.ticket.Name == "" {
		return s.ticket.User
	}
	return s.ticket.Name
}

// Subject returns the user with the roles that the configuration gives now.
func (s *Session) Subject() access.Subject { return s.service.config.Load().subject(s.ticket) }

// Done is closed when the session ends. Err returns why, then.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns ErrLoggedOut, ErrExpired or ErrWithdrawn; nil while the session lasts.
func (s *Session) Err() error {
	s.service.mu.Lock()
	defer s.service.mu.Unlock()
	return s.cause
}

// Touch notes that the user does something, such as typing, without a request.
func (s *Session) Touch() {
	s.service.mu.Lock()
	defer s.service.mu.Unlock()
	if s.cause == nil {
		s.used = s.service.opts.Now()
	}
}

// Expires returns when the session ends at the latest.
func (s *Session) Expires() time.Time {
	if s.ticket.Method == byToken {
		return s.ticket.Until
	}
	if s.ticket.Method == byLinkToken {
		return time.Unix(s.ticket.Since, 0).Add(TokenLife)
	}
	return time.Unix(s.ticket.Since, 0).Add(s.service.config.Load().lifetime())
}

// fault returns why a session can't go on that was used last at a time.
func (s *Service) fault(t ticket, used, now time.Time) error {
	c := s.config.Load()
	switch t.Method {
	case byToken:
		_, known := c.provider(t.Provider)
		if t.Provider == "" && c.TokenAudience == "" || t.Provider != "" && !known {
			return ErrWithdrawn
		}
		if !now.Before(t.Until) {
			return ErrExpired
		}
		return nil
	case byPassword:
		if user, known := c.user(t.User); !known || mark(user.Hash) != t.Mark {
			return ErrWithdrawn
		}
	case byProvider:
		if _, known := c.provider(t.Provider); !known {
			return ErrWithdrawn
		}
	}
	since := time.Unix(t.Since, 0)
	if t.Method == byLinkToken {
		if !now.Before(since.Add(TokenLife)) {
			return ErrExpired
		}
		return nil
	}
	if !now.Before(since.Add(c.lifetime())) || !now.Before(used.Add(c.idleTimeout())) {
		return ErrExpired
	}
	return nil
}

// resume returns the session of a request's cookie, nil if there is none. A request that is a
// use of it keeps it from expiring.
func (s *Service) resume(r *http.Request, use bool) *Session {
	cookie, err := r.Cookie(s.cookieName(r, sessionCookie))
	if err != nil {
		return nil
	}
	var t ticket
	if err := s.keys.Load().session.open(cookie.Value, &t); err != nil || t.ID == "" || t.User == "" {
		return nil
	}
	return s.proceed(t, use)
}

// proceed returns the session of a ticket, nil if it has ended.
func (s *Service) proceed(t ticket, use bool) *Session {
	now, key := s.opts.Now(), t.key()
	if s.kept != nil && !s.kept.has(key) {
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
	if err := s.fault(t, used, now); err != nil {
		s.sessions.end(session, err)
		return nil
	}
	if session == nil {
		session = s.sessions.add(s, t, used)
	}
	session.seen = max(session.seen, t.Seen)
	if session.used = used; use {
		session.used = now
	}
	s.sessions.order.MoveToFront(session.place)
	return session
}

// Check returns why a session has ended, as Err, after looking again whether it still may
// last. Streams call it every minute.
func (s *Session) Check(ctx context.Context) error {
	if s.ticket.Method == byToken {
		return s.service.checkToken(ctx, s)
	}
	s.service.mu.Lock()
	defer s.service.mu.Unlock()
	if err := s.service.fault(s.ticket, s.used, s.service.opts.Now()); s.cause == nil && err != nil {
		s.service.sessions.end(s, err)
	}
	return s.cause
}

// sweep ends the sessions that can't go on.
func (s *Service) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	for _, session := range s.sessions.byKey {
		if err := s.fault(session.ticket, session.used, now); err != nil {
			s.sessions.end(session, err)
		}
	}
	s.sessions.forget(now)
}

// endAll ends all sessions.
func (s *Service) endAll(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, session := range s.sessions.byKey {
		s.sessions.end(session, cause)
	}
}

// A table has the sessions that are in use, those used last in front, and those that were
// revoked, all by their keys.
type table struct {
	byKey map[string]*Session
	order *list.List
	ended map[string]time.Time // when they would have expired
}

func newTable() table {
	return table{byKey: map[string]*Session{}, order: list.New(), ended: map[string]time.Time{}}
}

// add adds a session. If there are too many, the one that wasn't used for longest is forgotten:
// streams in it end, and its cookie is still valid.
func (t *table) add(s *Service, from ticket, used time.Time) *Session {
	session := &Session{service: s, ticket: from, done: make(chan struct{}), used: used, seen: from.Seen}
	session.place = t.order.PushFront(session)
	t.byKey[from.key()] = session
	if len(t.byKey) > mostSessions {
		if oldest, ok := t.order.Back().Value.(*Session); ok {
			t.end(oldest, errEvicted)
		}
	}
	return session
}

// end ends a session, if it isn't nil and has not ended.
func (t *table) end(session *Session, cause error) {
	if session == nil || session.cause != nil {
		return
	}
	session.cause = cause
	close(session.done)
	t.order.Remove(session.place)
	delete(t.byKey, session.ticket.key())
}

// revoke ends a session for good.
func (t *table) revoke(key string, until, now time.Time) {
	t.end(t.byKey[key], ErrLoggedOut)
	if !until.After(now) {
		return
	}
	t.ended[key] = until
	for key := range t.ended { // what has expired is forgotten by the sweep
		if len(t.ended) <= mostRevoked {
			break
		}
		delete(t.ended, key)
	}
}

// forget drops what has expired anyway.
func (t *table) forget(now time.Time) {
	for key, until := range t.ended {
		if !until.After(now) {
			delete(t.ended, key)
		}
	}
}
