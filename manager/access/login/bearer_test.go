package login

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/manager/access"
	"vmop/test/wait"
)

// cluster implements Tokens with a fixed table.
type cluster struct {
	mu    sync.Mutex
	valid map[string]access.Identity
	err   error
	asked atomic.Int64
	block chan struct{}
}

func (c *cluster) Review(ctx context.Context, token, audience string) (access.Identity, error) {
	c.asked.Add(1)
	if c.block != nil {
		select {
		case <-c.block:
		case <-ctx.Done():
			return access.Identity{}, ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if audience != "vmop" {
		return access.Identity{}, nil
	}
	return c.valid[token], c.err
}

func (c *cluster) set(valid map[string]access.Identity, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.valid, c.err = valid, err
}

// jwt returns an unsigned token with the given claims; these tests never verify signatures.
func jwt(claims string) string {
	return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
}

func goodToken() string {
	return jwt(fmt.Sprintf(`{"aud":["vmop"],"exp":%d}`, start.Add(time.Hour).Unix()))
}

func robot() access.Identity {
	return access.Identity{
		User: "system:serviceaccount:ci:robot", UID: "7",
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:ci"},
	}
}

func withTokens(t *testing.T) (*app, *cluster) {
	t.Helper()
	c := &cluster{valid: map[string]access.Identity{goodToken(): robot()}}
	a := newApp(t, Config{
		TokenAudience: "vmop", UserPrefix: "oidc:",
		Roles: Roles{ByUser: map[string][]string{"system:serviceaccount:ci:robot": {"builders"}}},
	}, func(o *Options) { o.Tokens = c })
	return a, c
}

func (a *app) bearer(token string) (code int, body string) {
	a.t.Helper()
	return a.browser().get("/x", "Authorization", "Bearer "+token)
}

func TestBearerTokens(t *testing.T) {
	t.Parallel()
	a, c := withTokens(t)
	for range 5 {
		code, body := a.bearer(goodToken())
		require.Equal(t, http.StatusOK, code, body)
		require.Equal(t, "/x system:serviceaccount:ci:robot "+
			"[builders system:serviceaccounts system:serviceaccounts:ci] system:serviceaccount:ci:robot", body)
	}
	require.Equal(t, int64(1), c.asked.Load())
	session := a.session()
	require.Equal(t, robot(), session.Subject().Cluster)
	require.Equal(t, start.Add(time.Hour), session.Expires().UTC())
	require.NoError(t, session.Check(t.Context()))

	c.set(nil, errors.New("connection refused"))
	a.clock.advance(reviewLifetime)
	require.NoError(t, session.Check(t.Context()), "a stream survives the API server")
	code, _ := a.bearer(goodToken())
	require.Equal(t, http.StatusServiceUnavailable, code)
	c.set(nil, nil)
	require.ErrorIs(t, session.Check(t.Context()), errWithdrawn)
	require.True(t, ended(session))
	code, body := a.bearer(goodToken())
	require.Equal(t, http.StatusUnauthorized, code, body)
	require.Empty(t, a.log.lines(goodToken()))
}

func TestBearerTokensExpire(t *testing.T) {
	t.Parallel()
	a, _ := withTokens(t)
	a.bearer(goodToken())
	session := a.session()
	a.clock.advance(time.Hour)
	a.sweepSessions()
	require.ErrorIs(t, session.Err(), errExpired)
	code, body := a.bearer(goodToken())
	require.Equal(t, http.StatusUnauthorized, code)
	require.Contains(t, body, "has expired")
}

// Obviously invalid tokens never reach the cluster, and only service accounts can log in.
func TestBearerTokensThatAreRefused(t *testing.T) {
	t.Parallel()
	a, c := withTokens(t)
	later := start.Add(time.Hour).Unix()
	for token, want := range map[string]string{
		"":      "no JWT",
		"x":     "no JWT",
		"a.b.c": "no JWT",
		"a.!.c": "no JWT",
		jwt(fmt.Sprintf(`{"aud":["https://kubernetes.default.svc"],"exp":%d}`, later)): "another audience",
		jwt(fmt.Sprintf(`{"exp":%d}`, later)):                                          "another audience",
		jwt(`{"aud":"vmop"}`):                                                          "has expired",
		jwt(`{"aud":"vmop","exp":1}`):                                                  "has expired",
		strings.Repeat("x", 17<<10):                                                    "no JWT",
		jwt(`{"aud":"vmop","exp":{}}`):                                                 "no JWT",
	} {
		code, body := a.bearer(token)
		require.Equal(t, http.StatusUnauthorized, code)
		require.Contains(t, body, want)
	}
	require.Zero(t, c.asked.Load())
	person := jwt(fmt.Sprintf(`{"aud":"vmop","exp":%d,"sub":"ann"}`, later))
	c.set(map[string]access.Identity{person: {User: "ann"}}, nil)
	code, body := a.bearer(person)
	require.Equal(t, http.StatusUnauthorized, code)
	require.Contains(t, body, "does not belong to a service account")
	code, body = a.bearer(jwt(fmt.Sprintf(`{"aud":"vmop","exp":%d,"iss":"https://stranger.example"}`, later)))
	require.Equal(t, http.StatusUnauthorized, code)
	require.Contains(t, body, "does not belong to a service account",
		"an issuer that isn't configured is the cluster's business")

	off := newApp(t, Config{}, func(o *Options) { o.Tokens = c })
	code, body = off.bearer(goodToken())
	require.Equal(t, http.StatusUnauthorized, code)
	require.Contains(t, body, "tokenAudience")
	require.Equal(t, int64(2), c.asked.Load())
}

// Reviews of wrong tokens are limited in rate and concurrency, and the cache of results is bounded.
func TestReviewsAreBounded(t *testing.T) {
	t.Parallel()
	a, c := withTokens(t)
	later := start.Add(time.Hour).Unix()
	codes := map[int]int{}
	for i := range 100 {
		code, _ := a.bearer(jwt(fmt.Sprintf(`{"aud":"vmop","exp":%d,"jti":"%d"}`, later, i)))
		codes[code]++
	}
	byAddress, _, _ := attemptRates()
	require.Equal(t, map[int]int{
		http.StatusUnauthorized: byAddress.burst, http.StatusTooManyRequests: 100 - byAddress.burst,
	}, codes)
	require.Equal(t, int64(byAddress.burst), c.asked.Load())

	c.block = make(chan struct{})
	var all sync.WaitGroup
	for i := range mostReviewing {
		all.Go(func() { _, _ = a.reviewToken(t.Context(), contents{}, fmt.Sprint(i)) })
	}
	wait.Until(t, func() bool {
		return c.asked.Load() == int64(byAddress.burst+mostReviewing)
	})
	_, err := a.reviewToken(t.Context(), contents{}, "one more")
	require.ErrorContains(t, err, "too many tokens")
	close(c.block)
	all.Wait()
	for i := range mostReviews + 10 {
		_, err := a.reviewToken(t.Context(), contents{}, fmt.Sprint(i))
		require.NoError(t, err)
	}
	require.LessOrEqual(t, len(a.reviews.answers), mostReviews)
}

// A user's roles become prefixed groups for RBAC and never one of Kubernetes' own groups.
func TestSubjects(t *testing.T) {
	t.Parallel()
	ann := ticket{User: "ann", Method: byProvider, Roles: []string{"ops", "masters"}}
	c := Config{UserPrefix: "oidc:", GroupPrefix: "oidc:", Roles: Roles{ByUser: map[string][]string{"*": {"guest"}}}}
	require.Equal(t, access.Subject{
		User: "ann", Roles: []string{"guest", "masters", "ops"},
		Cluster: access.Identity{
			User: "oidc:ann", Groups: []string{"oidc:guest", "oidc:masters", "oidc:ops", "system:authenticated"},
		},
	}, c.subjectOf(ann))
	c.GroupPrefix = "system:"
	require.Equal(t, []string{"system:authenticated"}, c.subjectOf(ann).Cluster.Groups)
	c.UserPrefix = "system:"
	require.Equal(t, access.Identity{}, c.subjectOf(ann).Cluster)
	c.Roles.Replace = true
	require.Equal(t, []string{"guest"}, c.subjectOf(ann).Roles)
	c.UserPrefix, c.GroupPrefix, c.Roles.ByUser = "", "", map[string][]string{"ann": {"system:masters", "a"}}
	require.NotContains(t, c.subjectOf(ann).Cluster.Groups, "system:masters")
}

// A program that presents its user's ID token from a provider acts as this user.
func TestTokensOfProviders(t *testing.T) {
	t.Parallel()
	a, p := withProvider(t, func(c *Config) { c.UserPrefix = "oidc:" })
	token := p.IDToken()
	for range 3 {
		code, body := a.bearer(token)
		require.Equal(t, http.StatusOK, code, body)
		require.Equal(t, "/x Ann Example [ops staff] oidc:ann", body, "as in a browser")
	}
	session := a.session()
	require.Equal(t, start.Add(time.Minute), session.Expires().UTC())
	p.Close()
	a.clock.advance(reviewLifetime)
	require.NoError(t, session.Check(t.Context()), "keys are known")
	a.clock.advance(time.Minute)
	require.ErrorIs(t, session.Check(t.Context()), errExpired)
	code, body := a.bearer(token)
	require.Equal(t, http.StatusUnauthorized, code)
	require.Contains(t, body, "has expired")
	a.Configure(Config{})
	code, body = a.bearer(token)
	require.Equal(t, http.StatusUnauthorized, code)
	require.Contains(t, body, "no provider that is configured")
	require.Empty(t, a.log.lines(token))
	for part := range strings.SplitSeq(token, ".") {
		require.Empty(t, a.log.lines(part), "not a part of it")
	}
}

// Removing a provider ends the streams that its tokens opened.
func TestTokenOfAProviderThatIsRemoved(t *testing.T) {
	t.Parallel()
	a, p := withProvider(t)
	a.bearer(p.IDToken())
	session := a.session()
	a.Configure(Config{})
	require.ErrorIs(t, session.Err(), errWithdrawn)
}

func TestTokensOfProvidersThatAreRefused(t *testing.T) {
	t.Parallel()
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	set := func(name string, value any) func(map[string]any) {
		return func(claims map[string]any) { claims[name] = value }
	}
	for want, tamper := range map[string]func(map[string]any){
		"for another audience (of this provider it must be an ID token for": set("aud", "kubernetes"),
		"has expired":                        set("exp", start.Unix()),
		"no claim preferred_username":        set("preferred_username", ""),
		"not the name of a user":             set("preferred_username", "system:admin"),
		"for another client (azp)":           set("azp", "other"),
		"the name of a local user":           set("preferred_username", "bob"),
		"it is of no provider":               set("iss", "https://stranger.example"),
		"before the nbf (not before) time":   set("nbf", start.Add(time.Hour).Unix()),
		"failed to verify signature: failed": nil, // signed with another key
	} {
		a, p := withProvider(t, func(c *Config) { c.Users = users(t) })
		p.Tamper(tamper)
		if tamper == nil {
			p.Forge(foreign)
		}
		token := p.IDToken()
		code, body := a.bearer(token)
		require.Equal(t, http.StatusUnauthorized, code, want)
		require.Contains(t, body, want)
		require.NotContains(t, body, token)
		require.Empty(t, a.log.lines(token))
		require.Len(t, a.log.lines("log-in refused"), 1)
	}
}

// While the provider's keys are unavailable, a token is refused only temporarily.
func TestProviderOfATokenIsAway(t *testing.T) {
	t.Parallel()
	a, p := withProvider(t)
	a.Configure(configFor(p, func(c *Config) {
		c.Providers[0].ConfigurationEndpoint, c.Providers[0].Issuer = "", p.URL
		c.Providers[0].KeysEndpoint = "http://127.0.0.1:1/keys"
	}))
	for range 100 {
		code, _ := a.bearer(p.IDToken())
		require.Equal(t, http.StatusServiceUnavailable, code)
	}
}
