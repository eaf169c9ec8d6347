package login

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/test/wait"
)

func TestLogInAndOut(t *testing.T) {
	t.Parallel()
	a := newApp(t, Config{
		Users: users(t), Roles: Roles{ByUser: map[string][]string{"ann": {"admin"}, "*": {"guest", "", "admin"}}},
	})
	require.Equal(t, Methods{Password: true}, a.Methods())
	b, other := a.browser(), a.browser()
	require.Equal(t, http.StatusOK, b.logIn("ann", password))
	_, body := b.get("/")
	require.Equal(t, "/ Ann Example [admin guest] ann", body)
	require.False(t, other.in())

	session := a.session()
	stolen := *b.cookieOf("__Host-" + sessionCookie)
	require.NotContains(t, stolen.Value, "ann")
	code, _ := b.post("/logout", nil)
	require.Equal(t, http.StatusOK, code)
	require.True(t, ended(session))
	require.ErrorIs(t, session.Err(), errLoggedOut)
	require.ErrorIs(t, session.Check(t.Context()), errLoggedOut)
	require.False(t, b.in())
	require.Nil(t, b.cookieOf("__Host-"+sessionCookie))
	other.setCookie(&stolen)
	require.False(t, other.in(), "the cookie of a session that has ended")
	require.Len(t, a.log.lines(`msg="user logged out" user=ann method=password address=127.0.0.1`), 1)
	code, _ = b.post("/logout", nil)
	require.Equal(t, http.StatusOK, code, "twice is no fault")
}

// Another log-in in the same browser ends the earlier session and creates a new ID.
func TestALogInReplacesTheSession(t *testing.T) {
	t.Parallel()
	a := newApp(t, Config{Users: users(t)})
	b := a.browser()
	b.logIn("ann", password)
	first := a.session()
	b.logIn("bob", password)
	require.True(t, ended(first))
	second := a.session()
	require.NotEqual(t, first.ticket.ID, second.ticket.ID)
	require.Equal(t, "bob", second.User())
}

func TestTheCookieIsSafe(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		config Config
		change func(*Options)
		want   string
	}{
		"TLS":   {Config{}, func(*Options) {}, "__Host-vmop-session; Path=/; HttpOnly; Secure; SameSite=Lax"},
		"plain": {Config{PlainHTTP: true}, func(*Options) {}, "vmop-session; Path=/; HttpOnly; SameSite=Lax"},
		"this computer": {
			Config{}, func(o *Options) { o.Link = "me" }, "vmop-session-8080; Path=/; HttpOnly; SameSite=Lax",
		},
	} {
		a := newApp(t, tt.config, tt.change)
		r := httptest.NewRequest(http.MethodGet, "http://localhost:8080/", nil)
		c := a.newCookie(r, sessionCookie, "x", 0)
		require.NoError(t, c.Valid())
		c.Value = ""
		require.Equal(t, tt.want, c.String()[:len(c.Name)]+c.String()[len(c.Name)+1:], name)
	}
}

// A session ends when it is idle for too long, and at the latest after its lifetime.
func TestSessionsExpire(t *testing.T) {
	t.Parallel()
	a := newApp(t, Config{Users: users(t), IdleTimeout: 30 * time.Minute, Lifetime: 2 * time.Hour})
	b := a.browser()
	b.logIn("ann", password)
	for range 3 {
		a.clock.advance(29 * time.Minute)
		require.True(t, b.in())
	}
	session := a.session()
	a.clock.advance(29 * time.Minute)
	code, _ := b.get("/", "Accept", "text/event-stream")
	require.Equal(t, http.StatusOK, code)
	require.NoError(t, session.Check(t.Context()))
	a.clock.advance(time.Minute)
	a.sweepSessions()
	require.True(t, ended(session), "a stream is no use")
	require.ErrorIs(t, session.Err(), errExpired)
	require.False(t, b.in())

	b.logIn("ann", password)
	session = a.session()
	for range 7 {
		a.clock.advance(17 * time.Minute)
		session.Touch() // for example when the user types on a screen
		a.sweepSessions()
	}
	require.False(t, ended(session))
	require.True(t, b.in())
	require.Equal(t, a.clock.now().Add(time.Minute), session.Expires().UTC())
	a.clock.advance(time.Minute)
	require.ErrorIs(t, session.Check(t.Context()), errExpired)
	require.True(t, ended(session))
	require.False(t, b.in(), "the lifetime")
	require.Empty(t, a.sessions.byKey)
}

// Removing an entry from the configuration ends the sessions that depend on it.
func TestSessionsEndWithTheConfiguration(t *testing.T) {
	t.Parallel()
	all := users(t)
	a := newApp(t, Config{Users: all})
	b, c := a.browser(), a.browser()
	b.logIn("ann", password)
	ann := a.session()
	c.logIn("bob", password)
	a.Configure(Config{Users: []User{all[0], {Name: "bob", Hash: hash(t, "new")}}})
	require.False(t, ended(ann))
	require.True(t, b.in())
	require.False(t, c.in(), "another password")
	a.Configure(Config{Roles: Roles{ByUser: map[string][]string{"ann": {"x"}}}, Users: all[:1]})
	require.Equal(t, []string{"x"}, ann.Subject().Roles, "roles are current")
	a.Configure(Config{Users: all[1:]})
	require.ErrorIs(t, ann.Err(), errWithdrawn)
	a.Configure(Config{Users: all[:1]})
	require.True(t, b.in(), "the cookie is still good, and so is its user")

	o, p := withProvider(t)
	b = o.browser()
	b.get("/begin?provider=idp")
	require.True(t, b.in())
	o.Configure(configFor(p, func(c *Config) { c.Providers[0].Name = "other" }))
	require.False(t, b.in())
}

// shared is an in-memory version of the data that managers share.
type shared struct {
	mu      sync.Mutex
	key     []byte
	revoked map[string]time.Time
	follow  []func([]byte, map[string]time.Time)
}

func (s *shared) Revoke(_ context.Context, key string, until time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked[key] = until
	for _, publish := range s.follow {
		publish(s.key, s.revoked)
	}
	return nil
}

func (s *shared) Follow(ctx context.Context, publish func([]byte, map[string]time.Time)) error {
	s.mu.Lock()
	publish(s.key, s.revoked)
	s.follow = append(s.follow, publish)
	s.mu.Unlock()
	<-ctx.Done()
	return ctx.Err()
}

func (s *shared) followers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.follow)
}

// Any of several managers can answer a request, and logging out at one manager ends the session at all of them.
func TestSeveralManagers(t *testing.T) {
	t.Parallel()
	common := &shared{key: newKey(), revoked: map[string]time.Time{}}
	with := func(o *Options) { o.Key, o.Shared = common.key, common }
	c := Config{Users: users(t)}
	one, two := newApp(t, c, with), newApp(t, c, with)
	for i, a := range []*app{one, two} {
		go func() { _ = a.Run(t.Context()) }()
		wait.Until(t, func() bool { return common.followers() == i+1 })
	}
	b := one.browser()
	b.logIn("ann", password)
	there := two.browser()
	there.setCookie(b.cookieOf("__Host-" + sessionCookie))
	require.True(t, there.in())
	session := two.session()

	// The cookie carries the time of last use from one manager to the other.
	for range 3 {
		for _, clock := range []*clock{one.clock, two.clock} {
			clock.advance(20 * time.Minute)
		}
		require.True(t, b.in())
		there.setCookie(b.cookieOf("__Host-" + sessionCookie))
		require.True(t, there.in())
	}
	b.post("/logout", nil)
	require.True(t, ended(session))
	require.False(t, there.in())

	b.logIn("ann", password)
	require.True(t, b.in())
	last := one.session()
	one.adoptState(newKey(), nil)
	require.True(t, ended(last), "the Secret was deleted")
	require.False(t, b.in())
}

// When the service holds too many sessions, the least recently used only lose their streams.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	a := newApp(t, Config{Users: users(t)})
	b := a.browser()
	b.logIn("ann", password)
	first := a.session()
	a.mu.Lock()
	for i := range mostSessions {
		now := a.clock.now()
		a.sessions.addSession(a.Service, ticket{
			ID: fmt.Sprint(i), User: "bob", Method: byLink, Since: now.Unix(), Seen: now.Unix(),
		}, now)
	}
	a.mu.Unlock()
	require.True(t, ended(first))
	require.ErrorIs(t, first.Err(), errEvicted)
	require.Equal(t, mostSessions, a.Figures().Sessions)
	require.True(t, b.in())
	require.Equal(t, mostSessions, a.Figures().Sessions)

	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.now()
	for i := range 2 * mostRevoked {
		a.sessions.revokeKey(fmt.Sprint(i), now.Add(time.Hour), now)
	}
	require.Len(t, a.sessions.ended, mostRevoked)
	a.sessions.forgetExpired(now.Add(time.Hour))
	require.Empty(t, a.sessions.ended)
}

// A cookie can't be modified or used instead of another cookie.
func TestForgedCookies(t *testing.T) {
	t.Parallel()
	a, _ := withProvider(t)
	b := a.browser()
	b.get("/begin?provider=idp")
	good := b.cookieOf("__Host-" + sessionCookie).Value
	answerOf(t, b, "/")
	attempt := b.cookieOf("__Host-" + attemptCookie).Value
	forged := []string{"", "x", attempt, good + "A", good[1:], string(make([]byte, 5000))}
	for i := range good {
		flipped := []byte(good)
		flipped[i] ^= 1
		forged = append(forged, string(flipped))
	}
	for _, value := range forged {
		r := httptest.NewRequest(http.MethodGet, "https://x.example/", nil)
		r.Header.Set("Cookie", "__Host-"+sessionCookie+"="+url.PathEscape(value))
		if value == good {
			continue
		}
		require.Nil(t, a.resumeSession(r, true), "%q", value)
	}
	other, err := newSeal(newKey(), "session")
	require.NoError(t, err)
	text, err := other.sealValue(ticket{ID: "i", User: "ann", Method: byLink, Since: start.Unix(), Seen: start.Unix()})
	require.NoError(t, err)
	r := httptest.NewRequest(http.MethodGet, "https://x.example/", nil)
	r.Header.Set("Cookie", "__Host-"+sessionCookie+"="+text)
	require.Nil(t, a.resumeSession(r, true))
}

func TestLink(t *testing.T) {
	t.Parallel()
	a := newApp(t, Config{}, func(o *Options) { o.Link, o.LinkRoles = "me", []string{"admin"} })
	b := a.browser()
	token := a.NewLink()
	for _, wrong := range []string{"", "x", token[1:]} {
		code, _ := b.get("/link?token=" + wrong)
		require.Equal(t, http.StatusForbidden, code)
	}
	code, _ := b.get("/link?token=" + token)
	require.Equal(t, http.StatusOK, code)
	_, body := b.get("/")
	require.Equal(t, "/ me [admin] me", body)
	code, _ = a.browser().get("/link?token=" + token)
	require.Equal(t, http.StatusForbidden, code, "used")

	first := a.NewLink()
	for range mostLinks {
		a.NewLink()
	}
	code, _ = a.browser().get("/link?token=" + first)
	require.Equal(t, http.StatusForbidden, code, "too old")
	require.Empty(t, a.log.lines(token))
	require.Len(t, a.log.lines("log-in refused"), 5)

	// A request with a foreign host name (DNS rebinding) is refused.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.server.URL+"/link?token="+a.NewLink(), nil)
	require.NoError(t, err)
	_, port, _ := strings.Cut(a.opts.Host, ":")
	for _, foreign := range []string{"evil.example", "localhost:" + port, "127.0.0.2:" + port, "127.0.0.1"} {
		r.Host = foreign
		code, _ = b.do(r)
		require.Equal(t, http.StatusMisdirectedRequest, code, foreign)
	}
	for host, want := range map[string]bool{
		"localhost": true, "localhost:80": true, "127.0.0.1:1": true, "[::1]:1": true, "[::1]": true,
		"web.localhost": true, "Web.LocalHost:80": true,
		"localhost.evil.example": false, "evillocalhost": false, "": false, "10.0.0.1:80": false, "[::2]": false,
	} {
		require.Equal(t, want, isLoopbackHost(host), host)
	}

	plain := newApp(t, Config{})
	code, _ = plain.browser().get("/link?token=" + plain.NewLink())
	require.Equal(t, http.StatusForbidden, code, "only on this computer")
}

// Concurrent log-ins, requests and configuration changes are safe under the race detector.
func TestSessionsAreSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	c := Config{Users: users(t), IdleTimeout: 10 * time.Minute} // longer than the test runs
	a := newApp(t, c)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			b := a.browser()
			for range 5 {
				b.logIn([]string{"ann", "bob"}[i%2], password)
				b.get("/")
				a.clock.advance(10 * time.Second)
				b.get("/")
				a.Configure(c)
				a.Figures()
				b.post("/logout", nil)
			}
		})
	}
	all.Wait()
	require.Zero(t, a.Figures().Sessions)
	require.Equal(t, int64(40), a.Figures().LogIns)
	require.Equal(t, int64(40), a.Figures().LogOuts)
}
