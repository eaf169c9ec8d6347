package login

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"vmop/test/wait"
)

// An attacker who tries 10,000 passwords is delayed, logged and counted, while the user and others can still log in.
func TestTenThousandWrongLogIns(t *testing.T) {
	t.Parallel()
	a := newApp(t, Config{Users: users(t), TrustedProxies: []string{"127.0.0.1"}}, func(o *Options) {
		o.Sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() } // others arrive meanwhile
	})
	const interval = 100 * time.Millisecond
	for i := range 10_000 {
		a.clock.advance(interval)
		form := url.Values{"user": {"ann"}, "password": {fmt.Sprint("guess ", i)}}
		r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.RemoteAddr = "127.0.0.1:1"
		r.Header.Set("X-Forwarded-For", "192.0.2.1")
		answer := httptest.NewRecorder()
		a.server.Config.Handler.ServeHTTP(answer, r)
		require.Equal(t, http.StatusUnauthorized, answer.Code)
	}
	f := a.Figures()
	require.Equal(t, int64(10_000), f.Refused[refusedWrong]+f.Refused[refusedBusy])
	require.Positive(t, f.Delayed)
	require.Len(t, a.log.lines(`msg="log-in refused" user=ann method=password cause=`), 10_000)
	byAddress, _, _ := attemptRates()
	require.LessOrEqual(t, f.Refused[refusedWrong], 10_000*int64(interval/time.Millisecond)/
		byAddress.interval.Milliseconds()+int64(byAddress.burst)+2, "attempts that were looked at")

	require.Equal(t, http.StatusOK, a.browser().logIn("ann", password, "X-Forwarded-For", "192.0.2.2"))
	require.Equal(t, http.StatusOK, a.browser().logIn("bob", password, "X-Forwarded-For", "2001:db8::1"))
	require.Equal(t, int64(2), a.Figures().LogIns)
	require.Empty(t, a.log.lines("guess"))
	require.Empty(t, a.log.lines(password))
}

// Attempts from many addresses don't lock a user out of a browser with an earlier log-in.
func TestAKnownBrowserHasItsOwnRate(t *testing.T) {
	t.Parallel()
	a := newApp(t, Config{Users: users(t), TrustedProxies: []string{"127.0.0.0/8", "::1"}})
	ann := a.browser()
	require.Equal(t, http.StatusOK, ann.logIn("ann", password))
	ann.post("/logout", nil)
	mallory := a.browser()
	busy := 0
	for i := range 200 {
		a.clock.advance(-a.clock.now().Sub(start)) // all attempts at the same time
		code, body := mallory.post("/login", map[string][]string{"user": {"ann"}, "password": {"x"}},
			"X-Forwarded-For", fmt.Sprintf("198.51.100.%d", i))
		require.Equal(t, http.StatusUnauthorized, code)
		if strings.Contains(body, "too many attempts") {
			busy++
		}
	}
	require.Greater(t, busy, 100)
	require.Equal(t, http.StatusUnauthorized, a.browser().logIn("ann", password, "X-Forwarded-For", "203.0.113.9"))
	require.Equal(t, http.StatusOK, ann.logIn("ann", password, "X-Forwarded-For", "203.0.113.9"))

	bob := a.browser() // bob's attempts with ann's name don't benefit from his known browser
	require.Equal(t, http.StatusOK, bob.logIn("bob", password))
	require.Equal(t, http.StatusUnauthorized, bob.logIn("ann", password))
	require.Equal(t, http.StatusOK, ann.logIn("ann", password))
}

// Successful log-ins aren't delayed, even if many come from the same address.
func TestSuccessIsNotDelayed(t *testing.T) {
	t.Parallel()
	a := newApp(t, Config{Users: users(t)})
	for range 100 {
		require.Equal(t, http.StatusOK, a.browser().logIn("ann", password))
	}
	require.Zero(t, a.Figures().Delayed)
}

// The limiter's memory stays bounded, even with many thousands of user names.
func TestTheLimiterForgets(t *testing.T) {
	t.Parallel()
	c := &clock{}
	l := newLimiter(c.now)
	_, user, _ := attemptRates()
	for i := range 3 * mostBuckets {
		wait, ok := l.reserveAttempt(newClaim(user, "user", fmt.Sprint(i)))
		require.True(t, ok)
		require.Zero(t, wait)
	}
	require.Len(t, l.buckets, mostBuckets)
	require.Equal(t, mostBuckets, l.order.Len())
}

// A rate allows a burst and then one attempt per interval; refused attempts don't count.
func TestRates(t *testing.T) {
	t.Parallel()
	c := &clock{}
	l := newLimiter(c.now)
	of := newClaim(rate{3, 2 * time.Second}, "user", "ann")
	var waits []time.Duration
	for range 7 {
		wait, ok := l.reserveAttempt(of)
		if !ok {
			wait = -wait
		}
		waits = append(waits, wait/time.Second)
	}
	require.Equal(t, []time.Duration{0, 0, 0, 2, 4, -6, -6}, waits)
	l.giveBack(of)
	wait, ok := l.reserveAttempt(of)
	require.True(t, ok)
	require.Equal(t, 4*time.Second, wait)
	c.advance(time.Hour)
	wait, _ = l.reserveAttempt(of)
	require.Zero(t, wait)

	for range 3 + mostDelayed { // for different users, who all wait
		l.reserveAttempt(newClaim(rate{1, time.Second}, "user", fmt.Sprint(len(l.buckets)%mostDelayed)))
	}
	require.LessOrEqual(t, l.delayed, mostDelayed)
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	a := newApp(t, Config{TrustedProxies: []string{"10.0.0.0/8", "2001:db8::1", "nonsense"}})
	for _, tt := range []struct{ peer, forwarded, want string }{
		{"192.0.2.1:5", "", "192.0.2.1"},
		{"192.0.2.1:5", "203.0.113.1", "192.0.2.1"}, // not a proxy: any client can send this header
		{"10.1.1.1:5", "203.0.113.1", "203.0.113.1"},
		{"10.1.1.1:5", "198.51.100.1, 203.0.113.1", "203.0.113.1"},
		{"10.1.1.1:5", "198.51.100.1, 10.9.9.9", "198.51.100.1"},
		{"[::ffff:10.1.1.1]:5", "203.0.113.1", "203.0.113.1"},
		{"[2001:db8::1]:5", "2001:db8:2::3", "2001:db8:2::3"},
		{"10.1.1.1:5", "junk", "10.1.1.1"},
		{"10.1.1.1:5", "", "10.1.1.1"},
		{"@", "203.0.113.1", ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		require.NoError(t, err)
		r.RemoteAddr = tt.peer
		if tt.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tt.forwarded)
		}
		require.Equal(t, tt.want, a.clientAddress(r))
	}
	require.Equal(t, "2001:db8:0:1::/64", networkOf("2001:db8:0:1:2:3:4:5"))
	require.Equal(t, "192.0.2.1", networkOf("192.0.2.1"))
}

// The scheme that a request claims counts only if a trusted proxy sent it.
func TestScheme(t *testing.T) {
	t.Parallel()
	a := newApp(t, Config{TrustedProxies: []string{"10.0.0.0/8"}})
	for _, tt := range []struct {
		peer, proto string
		tls         bool
		want        string
	}{
		{"192.0.2.1:5", "", false, "http"},
		{"192.0.2.1:5", "https", false, "http"},
		{"192.0.2.1:5", "http", true, "https"},
		{"10.1.1.1:5", "https", false, "https"},
		{"10.1.1.1:5", "http", false, "http"},
		{"10.1.1.1:5", "", false, "https"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		require.NoError(t, err)
		r.RemoteAddr = tt.peer
		r.Header.Set("X-Forwarded-Proto", tt.proto)
		if tt.tls {
			r.TLS = &tls.ConnectionState{}
		}
		require.Equal(t, tt.want, a.Scheme(r), tt)
	}
}

// Comparing a password costs the same work whether or not the user exists, even if the costs of the hashes differ.
func TestEveryComparisonTakesTheSameWork(t *testing.T) {
	t.Parallel()
	made := func(cost int) string {
		h, err := bcrypt.GenerateFromPassword([]byte(password), cost)
		require.NoError(t, err)
		return string(h)
	}
	all := []User{{Name: "ann", Hash: made(4)}, {Name: "bob", Hash: made(6)}, {Name: "cid", Hash: made(7)}}
	p := newPasswords()
	p.setUsers(all)
	for _, u := range append(all, User{}) {
		for _, given := range []string{password, "wrong", ""} {
			work := 0
			p.work = func(cost int) { work += 1 << cost }
			matches, err := p.comparePassword(t.Context(), u.Hash, given)
			require.NoError(t, err)
			require.Equal(t, u.Name != "" && given == password, matches)
			if cost, err := bcrypt.Cost([]byte(u.Hash)); err == nil {
				work += 1 << cost // for the comparison itself
			}
			require.Equal(t, 1<<7, work, "%s %s", u.Name, given)
		}
	}
}

// Few comparisons run at a time, and a comparison that would wait too long gives up.
func TestComparisonsAreBounded(t *testing.T) {
	t.Parallel()
	p := newPasswords()
	var running, most atomic.Int64
	release := make(chan struct{})
	p.work = func(int) {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		<-release
		running.Add(-1)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { _, _ = p.comparePassword(t.Context(), "", "x") })
	}
	wait.Until(t, func() bool { return running.Load() == atOnce })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := p.comparePassword(ctx, "", "x")
	require.ErrorIs(t, err, context.Canceled)
	close(release)
	all.Wait()
	require.Equal(t, int64(atOnce), most.Load())
}

// Invalid user names and passwords are refused like wrong ones, and their log lines stay short.
func TestOddNamesAndPasswords(t *testing.T) {
	t.Parallel()
	a := newApp(t, Config{Users: users(t)})
	for _, odd := range []struct{ name, password string }{
		{"", password},
		{"ann", ""},
		{"ann\n", password},
		{"system:admin", password},
		{strings.Repeat("a", 1<<20), password},
		{"ann", password + strings.Repeat("x", 100)},
		{"\xff", password},
		{"ANN", password},
		{" ann", password},
	} {
		require.Equal(t, http.StatusUnauthorized, a.browser().logIn(odd.name, odd.password))
	}
	for _, line := range a.log.lines("") {
		require.Less(t, len(line), 500)
	}
}

func TestHashPassword(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{"", strings.Repeat("x", 73)} {
		_, err := HashPassword(wrong)
		require.Error(t, err)
	}
	h, err := HashPassword("x")
	require.NoError(t, err)
	require.NoError(t, CheckHash(h))
	for _, wrong := range []string{"", "x", "secret", h[:59], strings.Replace(h, "$12$", "$31$", 1), h + "x"} {
		err := CheckHash(wrong)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "secret")
	}
}

// Changes of the users file take effect, and a file with an error changes nothing.
func TestUsersFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "users")
	a := newApp(t, Config{})
	write := func(text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		a.doPeriodicWork()
	}
	a.Configure(Config{UsersFile: file})
	require.False(t, a.Methods().Password)
	require.Len(t, a.log.lines("there is no file of users yet"), 1)
	h := hash(t, password)
	write("# ours\n\nann:" + h + "\nbob:" + strings.Replace(h, "$2a$", "$2y$", 1) + ":Bob: the second\n")
	b := a.browser()
	require.Equal(t, http.StatusOK, b.logIn("bob", password))
	_, body := b.get("/")
	require.Equal(t, "/ Bob: the second [] bob", body)
	for _, wrong := range []string{"ann", "ann:x", ":" + h, "a:" + h + "\na:" + h, "system:x:" + h, "a b\x00:" + h} {
		write(wrong)
		require.True(t, b.in(), wrong)
	}
	lines := a.log.lines("the file of users is not used")
	require.Len(t, lines, 5, "each once, but for the one that a missing file's text hides")
	require.NotContains(t, strings.Join(lines, "\n"), h)
	write("ann:" + h)
	require.False(t, b.in())
	require.Equal(t, http.StatusOK, b.logIn("ann", password))
	a.Configure(Config{})
	require.False(t, b.in())
}
