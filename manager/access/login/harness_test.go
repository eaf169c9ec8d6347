package login

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"
)

// clock is a time that tests can set.
type clock struct{ offset atomic.Int64 }

var start = time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)

func (c *clock) now() time.Time          { return start.Add(time.Duration(c.offset.Load())) }
func (c *clock) advance(d time.Duration) { c.offset.Add(int64(d)) }

// sleep advances the clock and returns immediately.
func (c *clock) sleep(ctx context.Context, d time.Duration) error {
	c.advance(d)
	return ctx.Err()
}

// output is a log that is safe for concurrent use.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) lines(containing string) (found []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for line := range strings.Lines(o.text.String()) {
		if strings.Contains(line, containing) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// app is a web server with log-in.
type app struct {
	*Service
	t      *testing.T
	clock  *clock
	log    *output
	server *httptest.Server
}

func hash(t *testing.T, password string) string {
	t.Helper()
	made, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	require.NoError(t, err)
	return string(made)
}

const password = "correct horse"

// users returns ann and bob, who share a password.
func users(t *testing.T) []User {
	t.Helper()
	return []User{
		{Name: "ann", FullName: "Ann Example", Hash: hash(t, password)}, {Name: "bob", Hash: hash(t, password)},
	}
}

func newApp(t *testing.T, c Config, change ...func(*Options)) *app {
	t.Helper()
	a := &app{t: t, clock: &clock{}, log: &output{}}
	opts := Options{
		Now: a.clock.now, Sleep: a.clock.sleep,
		Log: slog.New(slog.NewTextHandler(a.log, nil)),
	}
	for _, f := range change {
		f(&opts)
	}
	var err error
	a.Service, err = New(opts)
	require.NoError(t, err)
	a.Configure(c)
	a.serve(!(opts.Link != "" || c.PlainHTTP))
	return a
}

// serve serves a minimal set of pages.
func (a *app) serve(tls bool) {
	mux := http.NewServeMux()
	refuse := func(w http.ResponseWriter, _ *http.Request, code int, err error) {
		http.Error(w, err.Error(), code)
	}
	answer := func(w http.ResponseWriter, err error, code int) {
		if err != nil {
			http.Error(w, err.Error(), code)
		}
	}
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		_, err := a.LogIn(w, r, r.PostFormValue("user"), r.PostFormValue("password"))
		answer(w, err, http.StatusUnauthorized)
	})
	mux.HandleFunc("GET /begin", func(w http.ResponseWriter, r *http.Request) {
		answer(w, a.Begin(w, r, r.FormValue("provider"), r.FormValue("next")), http.StatusBadGateway)
	})
	mux.HandleFunc("GET /oauth/callback", func(w http.ResponseWriter, r *http.Request) {
		if _, next, err := a.Callback(w, r); err != nil {
			answer(w, err, http.StatusForbidden)
		} else {
			http.Redirect(w, r, next, http.StatusSeeOther)
		}
	})
	mux.HandleFunc("GET /link", func(w http.ResponseWriter, r *http.Request) {
		_, err := a.Redeem(w, r, r.FormValue("token"))
		answer(w, err, http.StatusForbidden)
	})
	mux.HandleFunc("POST /logout", func(w http.ResponseWriter, r *http.Request) {
		answer(w, a.LogOut(w, r), http.StatusInternalServerError)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		session := FromContext(r.Context())
		if session == nil {
			http.Error(w, "log in", http.StatusUnauthorized)
			return
		}
		s := session.Subject()
		fmt.Fprintf(w, "%s %s %v %s", r.URL.Path, session.DisplayName(), s.Roles, s.Cluster.User)
	})
	a.server = httptest.NewUnstartedServer(a.Middleware(mux, refuse))
	if tls {
		a.server.StartTLS()
	} else {
		a.server.Start()
	}
	a.opts.Host = a.server.Listener.Addr().String()
	a.t.Cleanup(a.server.Close)
}

// browser keeps cookies and follows redirects.
type browser struct {
	a      *app
	client *http.Client
}

func (a *app) browser() *browser {
	jar, err := cookiejar.New(nil)
	require.NoError(a.t, err)
	return &browser{a, &http.Client{Jar: jar, Transport: a.server.Client().Transport}}
}

func (b *browser) do(r *http.Request) (code int, body string) {
	b.a.t.Helper()
	answer, err := b.client.Do(r)
	require.NoError(b.a.t, err)
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	require.NoError(b.a.t, err)
	return answer.StatusCode, strings.TrimSpace(string(data))
}

func (b *browser) get(path string, header ...string) (code int, body string) {
	b.a.t.Helper()
	target := path
	if !strings.Contains(path, "://") {
		target = b.a.server.URL + path
	}
	r, err := http.NewRequestWithContext(b.a.t.Context(), http.MethodGet, target, nil)
	require.NoError(b.a.t, err)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return b.do(r)
}

func (b *browser) post(path string, form url.Values, header ...string) (code int, body string) {
	b.a.t.Helper()
	r, err := http.NewRequestWithContext(b.a.t.Context(), http.MethodPost, b.a.server.URL+path,
		strings.NewReader(form.Encode()))
	require.NoError(b.a.t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return b.do(r)
}

func (b *browser) logIn(user, password string, header ...string) int {
	b.a.t.Helper()
	code, _ := b.post("/login", url.Values{"user": {user}, "password": {password}}, header...)
	return code
}

// in reports whether the browser is logged in.
func (b *browser) in() bool {
	b.a.t.Helper()
	code, _ := b.get("/")
	return code == http.StatusOK
}

// session returns the service's only session.
func (a *app) session() *Session {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	require.Len(a.t, a.sessions.byKey, 1)
	for _, s := range a.sessions.byKey {
		return s
	}
	return nil
}

func ended(s *Session) bool {
	select {
	case <-s.Done():
		return true
	default:
		return false
	}
}

// cookieOf returns the browser's cookie with this name.
func (b *browser) cookieOf(name string) *http.Cookie {
	u, err := url.Parse(b.a.server.URL)
	require.NoError(b.a.t, err)
	for _, c := range b.client.Jar.Cookies(u) {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func (b *browser) setCookie(c *http.Cookie) {
	u, err := url.Parse(b.a.server.URL)
	require.NoError(b.a.t, err)
	c.Secure, c.Path = u.Scheme == "https", "/"
	b.client.Jar.SetCookies(u, []*http.Cookie{c})
}
