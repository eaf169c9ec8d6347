package login

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// linked returns an app for one user who logs in by links, with its sessions kept in a file.
func linked(t *testing.T, file string) *app {
	t.Helper()
	return newApp(t, Config{IdleTimeout: 12 * time.Hour, Lifetime: 7 * 24 * time.Hour}, func(o *Options) {
		o.Link, o.LinkRoles, o.Kept = "me", []string{"admin"}, file
	})
}

// follows logs in the browser with a link.
func (b *browser) follows(token string) int {
	b.a.t.Helper()
	code, _ := b.get("/link?token=" + token)
	return code
}

func TestALinkWorksForTenMinutes(t *testing.T) {
	t.Parallel()
	a := linked(t, "")
	inTime, late := a.NewLink(), a.NewLink()
	a.clock.advance(linkLife - time.Second)
	require.Equal(t, http.StatusOK, a.browser().follows(inTime))
	a.clock.advance(time.Second)
	require.Equal(t, http.StatusForbidden, a.browser().follows(late))
	require.Len(t, a.log.lines("get a new link: vmmanager local link"), 1)
}

// Open sessions survive a restart of the program, ended sessions don't, and a copy of the file isn't enough to forge a
// session.
func TestSessionsOutliveTheProgram(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sessions.json")
	before := linked(t, file)
	stays, leaves := before.browser(), before.browser()
	require.Equal(t, http.StatusOK, stays.follows(before.NewLink()))
	require.Equal(t, http.StatusOK, leaves.follows(before.NewLink()))
	_, port, _ := strings.Cut(before.opts.Host, ":")
	cookies := []*http.Cookie{stays.cookieOf(sessionCookie + "-" + port), leaves.cookieOf(sessionCookie + "-" + port)}
	code, _ := leaves.post("/logout", nil)
	require.Equal(t, http.StatusOK, code)
	token, err := before.NewToken()
	require.NoError(t, err)

	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), info.Mode())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, secret := range []string{cookies[0].Value, token} {
		require.NotContains(t, string(text), secret)
	}

	after := linked(t, file)
	_, now, _ := strings.Cut(after.opts.Host, ":")
	resumed := func(c *http.Cookie) *Session {
		r := httptest.NewRequest(http.MethodGet, "http://"+after.opts.Host+"/", nil)
		r.AddCookie(&http.Cookie{Name: sessionCookie + "-" + now, Value: c.Value})
		return after.resumeSession(r, true)
	}
	require.NotNil(t, resumed(cookies[0]))
	require.Equal(t, "me", resumed(cookies[0]).User())
	require.Nil(t, resumed(cookies[1]), "logged out before")
	code, _ = after.browser().get("/", "Authorization", "Bearer "+token)
	require.Equal(t, http.StatusOK, code)

	var kept keptData
	require.NoError(t, json.Unmarshal(text, &kept))
	key, err := newSeal(kept.Key, "session")
	require.NoError(t, err)
	forged, err := key.sealValue(ticket{ID: "i", User: "me", Method: byLink, Since: start.Unix(), Seen: start.Unix()})
	require.NoError(t, err)
	require.Nil(t, resumed(&http.Cookie{Value: forged}), "the file has only hashes of sessions")

	after.clock.advance(12 * time.Hour)
	require.Nil(t, resumed(cookies[0]), "not used for 12 hours")
}

// A truncated session file stops the start with an error.
func TestAFileOfSessionsThatIsBroken(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sessions.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"key":`), 0o600))
	_, err := New(Options{Link: "me", Kept: file, Now: time.Now})
	require.ErrorContains(t, err, "remove "+file)
}

// The server stores only the hash of a session's page key; only sessions on a loopback host need a key.
func TestTheSecondSecret(t *testing.T) {
	t.Parallel()
	a := newApp(t, Config{Users: users(t)})
	begin := func(host string) *Session {
		r := httptest.NewRequest(http.MethodPost, "http://"+host+"/login", nil)
		session, err := a.beginSession(httptest.NewRecorder(), r, ticket{User: "ann", Method: byPassword})
		require.NoError(t, err)
		return session
	}
	for _, host := range []string{"localhost:8080", "vmop.localhost:8080", "127.0.0.1:8080"} {
		session := begin(host)
		key := session.PageKey()
		require.NotEmpty(t, key)
		require.Equal(t, "/vms?x=1#page-key="+key, session.WithPageKey("/vms?x=1#other"))
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		require.False(t, session.HasPageKey(r))
		r.Header.Set(PageKeyHeader, key+"x")
		require.False(t, session.HasPageKey(r))
		r.Header.Set(PageKeyHeader, key)
		require.True(t, session.HasPageKey(r))
		require.True(t, session.HasPageKey(httptest.NewRequest(http.MethodGet, "/?page-key="+key, nil)))
		require.False(t, begin(host).HasPageKey(r), "the key of another session")
	}
	session := begin("vms.example.com")
	require.Equal(t, "/", session.WithPageKey("/"))
	require.True(t, session.HasPageKey(httptest.NewRequest(http.MethodGet, "/", nil)))
}

// A token for programs is accepted only until it expires, and only as a bearer token.
func TestTokensOfTheLocalPages(t *testing.T) {
	t.Parallel()
	a := linked(t, "")
	token, err := a.NewToken()
	require.NoError(t, err)
	get := func(token string) int {
		code, _ := a.browser().get("/", "Authorization", "Bearer "+token)
		return code
	}
	require.Equal(t, http.StatusOK, get(token))
	b := a.browser()
	b.follows(a.NewLink())
	_, port, _ := strings.Cut(a.opts.Host, ":")
	cookie := b.cookieOf(sessionCookie + "-" + port)
	require.Equal(t, http.StatusUnauthorized, get(cookie.Value), "a stolen cookie is no token")
	other := a.browser()
	other.setCookie(&http.Cookie{Name: cookie.Name, Value: token})
	require.False(t, other.in(), "a token is no cookie")
	require.Empty(t, a.log.lines(token))
	a.clock.advance(tokenLife)
	require.Equal(t, http.StatusUnauthorized, get(token))
}

// A request from a pod or a guest with "Host: localhost" isn't treated as local, because its connection comes from
// elsewhere.
func TestHostAloneIsNotBelieved(t *testing.T) {
	t.Parallel()
	a := newApp(t, Config{Users: users(t)})
	for address, want := range map[string]bool{"127.0.0.1:40000": true, "[::1]:40000": true, "10.1.2.3:40000": false} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost:8080/", nil)
		r.RemoteAddr = address
		require.Equal(t, want, a.Encrypted(r), address)
	}
}
