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

// Options are the settings of a Service.
type Options struct {
	// Log receives a line for each log-in, refusal and log-out.
	Log *slog.Logger
	// Now is the clock. Sleep waits like the function Sleep, or returns the context's error.
	Now   func() time.Time
	Sleep func(ctx context.Context, d time.Duration) error
	// Key encrypts sessions; nil means a random key for this process.
	Key []byte
	// Shared is the managers' shared storage; nil if there is only one manager.
	Shared Shared
	// Tokens reviews bearer tokens; nil refuses the tokens of service accounts.
	Tokens Tokens
	// Link is the name of the user who logs in with a one-time link over plain HTTP; "" means no links. LinkRoles
	// are the user's roles. Requests for a host other than Host, a name or address with a port, are refused.
	Link      string
	LinkRoles []string
	Host      string
	// Kept is the file with the key and the sessions of links; "" keeps them in memory only.
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

// Shared is the storage that the managers of a namespace share.
type Shared interface {
	// Revoke publishes that a session has ended. key is a hash of the session ID, of 32 characters; until is the
	// time when the session would have expired.
	Revoke(ctx context.Context, key string, until time.Time) error
	// Follow calls publish with the key and all revoked sessions, first with the current values and then after each
	// change, until ctx is done. It returns an error only when ctx is done.
	Follow(ctx context.Context, publish func(key []byte, revoked map[string]time.Time)) error
}

// Service logs users in and keeps their sessions. It is safe for concurrent use.
type Service struct {
	opts      Options
	config    atomic.Pointer[Config] // current, with the users of the file
	keys      atomic.Pointer[keys]
	passwords *passwords
	limits    *limiter
	providers *providers
	links     links
	kept      *kept // nil without links
	reviews   reviews
	figures   figures

	configuring sync.Mutex // guards base and file
	base        Config
	file        usersFile

	mu       sync.Mutex
	sessions table
}

// keys encrypt the values that browsers keep.
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
		opts.Key = newKey()
	}
	s := &Service{
		opts: opts, passwords: newPasswords(), limits: newLimiter(opts.Now), providers: newProviders(opts.Now),
		sessions: newTable(), kept: of,
	}
	s.reviews.answers = map[[32]byte]review{}
	s.config.Store(&Config{})
	return s, s.changeKey(opts.Key)
}

// changeKey switches to another key, which ends all sessions.
func (s *Service) changeKey(key []byte) error {
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
	s.endAll(errLoggedOut)
	return nil
}

// Configure replaces the configuration. It ends the sessions of users and providers that are missing from the new
// configuration.
func (s *Service) Configure(c Config) {
	s.configuring.Lock()
	defer s.configuring.Unlock()
	s.base = c
	s.readUsers()
	s.applyConfig()
}

// applyConfig activates the configuration, including the users of the file.
func (s *Service) applyConfig() {
	c := s.base
	c.Users = slices.Concat(c.Users, s.file.users)
	s.config.Store(&c)
	s.passwords.setUsers(c.Users)
	s.sweepSessions()
}

// doPeriodicWork performs the periodic work.
func (s *Service) doPeriodicWork() {
	s.configuring.Lock()
	defer s.configuring.Unlock()
	if s.readUsers() {
		s.applyConfig()
		return
	}
	s.sweepSessions()
}

// Run ends expired sessions, reads the file of users when it has changed, and follows the storage shared with
// other managers, until ctx is done.
func (s *Service) Run(ctx context.Context) error {
	var follow sync.WaitGroup
	defer follow.Wait()
	if s.opts.Shared != nil {
		follow.Go(func() { _ = s.opts.Shared.Follow(ctx, s.adoptState) }) // returns only when ctx is done
	}
	const interval = 5 * time.Second
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
			s.doPeriodicWork()
		}
	}
}

// adoptState applies the values that other managers have published.
func (s *Service) adoptState(key []byte, revoked map[string]time.Time) {
	if !slices.Equal(key, s.keys.Load().key) {
		if err := s.changeKey(key); err != nil {
			s.opts.Log.Error("the key of the sessions is not used", "err", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, until := range revoked {
		s.sessions.revokeKey(key, until, s.opts.Now())
	}
}

// Methods are the log-in methods that a page offers.
type Methods struct {
	// Password reports whether there are local users.
	Password bool
	// Providers are sorted by name.
	Providers []Method
}

// Method is a provider, with the names that users see.
type Method struct{ Name, DisplayName string }

// Methods returns the available log-in methods.
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

// LogOut ends the session of a request, here and on the other managers, and makes the browser delete the cookie.
// An error concerns the other managers or the file of sessions; the session has ended here in any case.
func (s *Service) LogOut(w http.ResponseWriter, r *http.Request) error {
	http.SetCookie(w, s.newCookie(r, sessionCookie, "", -1))
	session := s.resumeSession(r, false)
	if session == nil {
		return nil
	}
	s.auditLog(r, "user logged out", session.ticket.logAttributes()...)
	s.figures.logOuts.Add(1)
	return s.revokeSession(r.Context(), session)
}

// revokeSession ends a session on all managers.
func (s *Service) revokeSession(ctx context.Context, session *Session) error {
	until := session.Expires()
	s.mu.Lock()
	s.sessions.revokeKey(session.ticket.sessionKey(), until, s.opts.Now())
	s.mu.Unlock()
	if s.kept != nil {
		return s.kept.removeSession(session.ticket.sessionKey())
	}
	if s.opts.Shared == nil {
		return nil
	}
	if err := s.opts.Shared.Revoke(ctx, session.ticket.sessionKey(), until); err != nil {
		return fmt.Errorf("end the session on the other managers: %w", err)
	}
	return nil
}

// beginSession starts a session, ends the browser's previous session, and sets the cookie.
func (s *Service) beginSession(w http.ResponseWriter, r *http.Request, t ticket) (*Session, error) {
	now := s.opts.Now()
	t.ID, t.Since, t.Seen = randomText(), now.Unix(), now.Unix()
	pageKey := ""
	if s.bindsTo(r.Host) {
		pageKey = randomText()
		t.Key = hashOf(pageKey)
	}
	cookie, err := s.keys.Load().session.sealValue(t)
	if err != nil {
		return nil, err
	}
	if len(cookie) > longestCookie {
		return nil, s.refuseLogin(r, refusedRoles, &rolesError{Roles: len(t.Roles)}, t.logAttributes()...)
	}
	if before := s.resumeSession(r, false); before != nil {
		if err := s.revokeSession(r.Context(), before); err != nil {
			s.opts.Log.Warn("the session before a log-in may still be accepted by other managers", "err", err)
		}
	}
	if s.kept != nil {
		if err := s.kept.addSession(t.sessionKey(), now.Add(s.config.Load().sessionLifetime()), now); err != nil {
			s.opts.Log.Warn("the session will end with this program", "err", err)
		}
	}
	http.SetCookie(w, s.newCookie(r, sessionCookie, cookie, s.cookieAge()))
	s.auditLog(r, "user logged in", t.logAttributes()...)
	s.figures.logIns.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.sessions.addSession(s, t, now)
	session.pageKey = pageKey
	return session, nil
}
