package login

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Options are what a Service needs.
type Options struct {
	// Log takes a line for each log-in, refusal and log-out.
	Log *slog.Logger
	// Now is the clock; Sleep waits, or returns the context's error, as the function Sleep does.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
	// Key encrypts sessions; nil means one of this process.
	Key []byte
	// Shared is what managers share; nil if there is one only.
	Shared Shared
	// Tokens reviews bearer tokens; nil means that none is accepted.
	Tokens Tokens
	// Link is the name of the user who comes by a one-time link, by plain HTTP; "" means that there are no links.
	// LinkRoles are the user's roles. Requests for another host than Host, a name or an address with a port, are
	// refused.
	Link      string
	LinkRoles []string
	Host      string
	// Kept is the file with the key and the sessions of links; "" means that they end with the program.
	Kept string
}

// Sleep waits, or returns the context's error.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Shared is what the managers of a namespace share.
type Shared interface {
	// Revoke publishes that a session has ended; key is a hash of it, of 32 characters, and
	// until is when it would have expired.
	Revoke(ctx context.Context, key string, until time.Time) error
	// Follow calls publish with the key and all revoked sessions, at first and whenever they
	// have changed, until ctx is done. It returns an error only then.
	Follow(ctx context.Context, publish func(key []byte, revoked map[string]time.Time)) error
}

// Service logs users in and keeps their sessions. It is safe for concurrent use.
type Service struct {
	opts      Options
	config    atomic.Pointer[Config] // in force, with the users of the file
	keys      atomic.Pointer[keys]
	passwords *passwords
	limits    *limiter
	providers *providers
	links     links
	kept      *kept // nil if there are no links
	reviews   reviews
	figures   figures

	configuring sync.Mutex // guards base and file
	base        Config
	file        usersFile

	mu       sync.Mutex
	sessions table
}

// keys encrypt what browsers keep.
type keys struct {
	key                            []byte
	session, attempt, known, token seal
}

// New returns a service without users or providers; see Configure.
func New(opts Options) (*Service, error) {
	var of *kept
	if opts.Link != "" {
		var err error
		if of, err = readKept(opts.Kept); err != nil {
			return nil, err
		}
		opts.Key = of.data.Key
	}
	if opts.Key == nil {
		opts.Key = NewKey()
	}
	s := &Service{
		opts: opts, passwords: newPasswords(), limits: newLimiter(opts.Now), providers: newProviders(opts.Now),
		sessions: newTable(), kept: of,
	}
	s.reviews.answers = map[[32]byte]review{}
	s.config.Store(&Config{})
	return s, s.rekey(opts.Key)
}

// rekey uses another key: no session remains.
func (s *Service) rekey(key []byte) error {
	k := keys{key: slices.Clone(key)}
	var errs [4]error
	k.session, errs[0] = newSeal(key, "session")
	k.attempt, errs[1] = newSeal(key, "log-in")
	k.known, errs[2] = newSeal(key, "known browser")
	k.token, errs[3] = newSeal(key, "token")
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	s.keys.Store(&k)
	s.endAll(ErrLoggedOut)
	return nil
}

// Configure replaces the configuration. Sessions of users and providers that it lacks end.
func (s *Service) Configure(c Config) {
	s.configuring.Lock()
	defer s.configuring.Unlock()
	s.base = c
	s.readUsers()
	s.enforce()
}

// enforce puts the configuration in force, with the users of the file.
func (s *Service) enforce() {
	c := s.base
	c.Users = slices.Concat(c.Users, s.file.users)
	s.config.Store(&c)
	s.passwords.configure(c.Users)
	s.sweep()
}

// refresh does what is due now and then.
func (s *Service) refresh() {
	s.configuring.Lock()
	defer s.configuring.Unlock()
	if s.readUsers() {
		s.enforce()
		return
	}
	s.sweep()
}

// Run ends sessions when they expire, reads the file of users when it has changed, and follows
// what other managers share, until ctx is done.
func (s *Service) Run(ctx context.Context) error {
	var follow sync.WaitGroup
	defer follow.Wait()
	if s.opts.Shared != nil {
		follow.Go(func() { _ = s.opts.Shared.Follow(ctx, s.adopt) }) // only ctx ends it
	}
	const interval = 5 * time.Second
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
			s.refresh()
		}
	}
}

// adopt takes what other managers have published.
func (s *Service) adopt(key []byte, revoked map[string]time.Time) {
	if !slices.Equal(key, s.keys.Load().key) {
		if err := s.rekey(key); err != nil {
			s.opts.Log.Error("the key of the sessions is not used", "err", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, until := range revoked {
		s.sessions.revoke(key, until, s.opts.Now())
	}
}

// Methods are the ways to log in that a page offers.
type Methods struct {
	// Password reports whether there are local users.
	Password bool
	// Providers by their names.
	Providers []Method
}

// Method is a provider, as users see it.
type Method struct{ Name, DisplayName string }

// Methods returns the ways to log in.
func (s *Service) Methods() Methods {
	c := s.config.Load()
	m := Methods{Password: len(c.Users) > 0}
	for _, p := range c.Providers {
		display := p.DisplayName
		if display == "" {
			display = p.Name
		}
		m.Providers = append(m.Providers, Method{p.Name, display})
	}
	return m
}

// LogOut ends the session of a request, here and on the other managers, and has the browser
// forget it. An error is that of the other managers, or of the file of sessions: here the session has ended.
func (s *Service) LogOut(w http.ResponseWriter, r *http.Request) error {
	http.SetCookie(w, s.cookie(r, sessionCookie, "", -1))
	session := s.resume(r, false)
	if session == nil {
		return nil
	}
	s.audit(r, "user logged out", session.ticket.attrs()...)
	s.figures.logOuts.Add(1)
	return s.revoke(r.Context(), session)
}

// revoke ends a session everywhere.
func (s *Service) revoke(ctx context.Context, session *Session) error {
	until := session.Expires()
	s.mu.Lock()
	s.sessions.revoke(session.ticket.key(), until, s.opts.Now())
	s.mu.Unlock()
	if s.kept != nil {
		return s.kept.remove(session.ticket.key())
	}
	if s.opts.Shared == nil {
		return nil
	}
	if err := s.opts.Shared.Revoke(ctx, session.ticket.key(), until); err != nil {
		return fmt.Errorf("end the session on the other managers: %w", err)
	}
	return nil
}

// begin makes a session, ends the one that the browser had, and sets the cookie.
func (s *Service) begin(w http.ResponseWriter, r *http.Request, t ticket) (*Session, error) {
	now := s.opts.Now()
	t.ID, t.Since, t.Seen = random(), now.Unix(), now.Unix()
	pageKey := ""
	if s.bindsTo(r.Host) {
		pageKey = random()
		t.Key = hashOf(pageKey)
	}
	cookie, err := s.keys.Load().session.close(t)
	if err != nil {
		return nil, err
	}
	if len(cookie) > longestCookie {
		return nil, s.refuse(r, refusedRoles, &RolesError{Roles: len(t.Roles)}, t.attrs()...)
	}
	if before := s.resume(r, false); before != nil {
		if err := s.revoke(r.Context(), before); err != nil {
			s.opts.Log.Warn("the session before a log-in may still be accepted by other managers", "err", err)
		}
	}
	if s.kept != nil {
		if err := s.kept.add(t.key(), now.Add(s.config.Load().lifetime()), now); err != nil {
			s.opts.Log.Warn("the session will end with this program", "err", err)
		}
	}
	http.SetCookie(w, s.cookie(r, sessionCookie, cookie, s.cookieAge()))
	s.audit(r, "user logged in", t.attrs()...)
	s.figures.logIns.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.sessions.add(s, t, now)
	session.pageKey = pageKey
	return session, nil
}
