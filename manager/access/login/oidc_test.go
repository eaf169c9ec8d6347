package login

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/stretchr/testify/require"

	"vmop/manager/access/login/logintest"
)

// withProvider returns an app with an OpenID Connect provider that has the user ann.
func withProvider(t *testing.T, change ...func(*Config)) (*app, *logintest.Provider) {
	t.Helper()
	p, err := logintest.New(map[string]any{
		"preferred_username": "ann", "name": "Ann Example", "groups": []string{"ops", "staff"},
	})
	require.NoError(t, err)
	t.Cleanup(p.Close)
	a := newApp(t, Config{})
	p.Now, p.RedirectURI = a.clock.now, a.server.URL+"/oauth/callback"
	a.Configure(configFor(p, change...))
	return a, p
}

func configFor(p *logintest.Provider, change ...func(*Config)) Config {
	c := Config{
		RedirectURI: p.RedirectURI,
		Providers: []Provider{{
			Name: "idp", ConfigurationEndpoint: p.URL + WellKnown, ClientID: p.ClientID, Secret: p.ClientSecret,
		}},
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func TestOIDCLogsIn(t *testing.T) {
	t.Parallel()
	a, _ := withProvider(t, func(c *Config) { c.UserPrefix = "oidc:" })
	require.Equal(t, Methods{Providers: []Method{{"idp", "idp"}}}, a.Methods())
	b := a.browser()
	require.False(t, b.in())
	code, body := b.get("/begin?provider=idp&next=/vms%3Fsort%3Dname")
	require.Equal(t, http.StatusOK, code, body)
	require.Equal(t, "/vms Ann Example [ops staff] oidc:ann", body)
	require.Nil(t, b.cookieOf("__Host-"+attemptCookie))
	require.Len(t, a.log.lines(`msg="user logged in" user=ann method=oidc provider=idp`), 1)
}

// Without discovery metadata, the configured endpoints and keys are used.
func TestOIDCWithoutMetadata(t *testing.T) {
	t.Parallel()
	a, p := withProvider(t)
	a.Configure(configFor(p, func(c *Config) {
		c.Providers[0].ConfigurationEndpoint, c.Providers[0].Issuer = "", p.URL
		c.Providers[0].AuthorizationEndpoint = p.URL + "/auth"
		c.Providers[0].TokenEndpoint, c.Providers[0].KeysEndpoint = p.URL+"/token", p.URL+"/keys"
	}))
	code, body := a.browser().get("/begin?provider=idp")
	require.Equal(t, http.StatusOK, code, body)
	require.NotContains(t, strings.Join(p.Requests(), "\n"), WellKnown)
}

// A token with an error does not log in its user.
func TestOIDCRefusesWrongTokens(t *testing.T) {
	t.Parallel()
	set := func(name string, value any) func(map[string]any) {
		return func(claims map[string]any) { claims[name] = value }
	}
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		tamper func(map[string]any)
		config func(*Config)
		want   string
	}{
		"issuer":          {set("iss", "https://other.example"), nil, "issued by a different provider"},
		"audience":        {set("aud", "other"), nil, "expected audience"},
		"audiences":       {set("aud", []string{"other", "another"}), nil, "expected audience"},
		"party":           {set("azp", "other"), nil, "another client"},
		"expired":         {set("exp", start.Add(-time.Minute).Unix()), nil, "token is expired"},
		"no expiry":       {set("exp", 0), nil, "token is expired"},
		"not yet valid":   {set("nbf", start.Add(time.Hour).Unix()), nil, "before the nbf"},
		"nonce":           {set("nonce", "other"), nil, "its nonce differs"},
		"no nonce":        {func(c map[string]any) { delete(c, "nonce") }, nil, "its nonce differs"},
		"access token":    {set("at_hash", "AAAAAAAAAAAAAAAAAAAAAA"), nil, "access token hash"},
		"no user":         {set("preferred_username", nil), nil, "no claim preferred_username"},
		"user no text":    {set("preferred_username", 7), nil, "no claim preferred_username"},
		"Kubernetes' own": {set("preferred_username", "system:admin"), nil, "Kubernetes' own"},
		"unprintable":     {set("preferred_username", "ann\x1b[2J"), nil, "not printable"},
		"local user": {
			nil, func(c *Config) { c.Users = []User{{Name: "ann", Hash: hash(t, "x")}} }, "the name of a local user",
		},
		"user of another provider": {
			set("preferred_username", "b-ann"), func(c *Config) {
				c.Providers = append(c.Providers, Provider{Name: "b", UserPrefix: "b-"})
			}, "begins with the userPrefix of the provider b",
		},
		"unverified email": {
			set("email", "ann@example.org"), func(c *Config) { c.Providers[0].UserClaim = "email" }, "not verified",
		},
		"many roles": {
			func(c map[string]any) {
				c["groups"] = strings.Split(strings.Repeat("11111111-2222-3333-4444-555555555555 ", 100), " ")
			},
			nil, "you have 100 roles",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, p := withProvider(t)
			if tt.config != nil {
				a.Configure(configFor(p, tt.config))
			}
			p.Tamper(tt.tamper)
			b := a.browser()
			code, body := b.get("/begin?provider=idp")
			require.Equal(t, http.StatusForbidden, code)
			require.Contains(t, body, tt.want)
			require.False(t, b.in())
			require.Len(t, a.log.lines("log-in refused"), 1)
			require.Empty(t, append(a.log.lines("eyJ"), a.log.lines(p.ClientSecret)...), "a token or a secret")
		})
	}
	t.Run("signature", func(t *testing.T) {
		t.Parallel()
		a, p := withProvider(t)
		p.Forge(foreign)
		b := a.browser()
		code, body := b.get("/begin?provider=idp")
		require.Equal(t, http.StatusForbidden, code)
		require.Contains(t, body, "verify signature")
		require.False(t, b.in())
	})
}

// answerOf begins a log-in and returns the provider's redirect instead of following it.
func answerOf(t *testing.T, b *browser, next string) *url.URL {
	t.Helper()
	var answer *url.URL
	b.client.CheckRedirect = func(r *http.Request, _ []*http.Request) error {
		if r.URL.Path == "/oauth/callback" {
			answer = r.URL
			return http.ErrUseLastResponse
		}
		return nil
	}
	b.get("/begin?provider=idp&next=" + url.QueryEscape(next))
	b.client.CheckRedirect = nil
	require.NotNil(t, answer)
	return answer
}

// The provider's answer works only in the browser and for the attempt that requested it, and only once.
func TestOIDCRefusesForeignAnswers(t *testing.T) {
	t.Parallel()
	a, _ := withProvider(t)
	refused := func(b *browser, u string, want string) {
		t.Helper()
		code, body := b.get(u)
		require.Equal(t, http.StatusForbidden, code, body)
		require.Contains(t, body, want)
	}
	victim, attacker := a.browser(), a.browser()
	stolen := answerOf(t, attacker, "/")
	refused(victim, stolen.String(), "no log-in has begun in this browser")
	answerOf(t, victim, "/")
	refused(victim, stolen.String(), "not for the log-in that has begun last")
	require.False(t, victim.in())

	b := a.browser()
	answer := answerOf(t, b, "/")
	kept := *b.cookieOf("__Host-" + attemptCookie)
	code, _ := b.get(answer.String())
	require.Equal(t, http.StatusOK, code)
	refused(b, answer.String(), "no log-in has begun")
	b.setCookie(&kept)
	refused(b, answer.String(), "has been used before")

	b = a.browser()
	q := answerOf(t, b, "/").Query()
	q.Set("iss", "https://other.example")
	refused(b, "/oauth/callback?"+q.Encode(), "https://other.example")
	b = a.browser()
	q = answerOf(t, b, "/").Query()
	q.Set("code", "guessed")
	refused(b, "/oauth/callback?"+q.Encode(), "invalid_grant")
	b = a.browser()
	q = answerOf(t, b, "/").Query()
	q.Del("state")
	refused(b, "/oauth/callback?"+q.Encode(), "not for the log-in")

	b = a.browser()
	answer = answerOf(t, b, "/")
	a.clock.advance(attemptLifetime)
	refused(b, answer.String(), "within 10 minutes")
}

// PKCE: a code can be redeemed only with the verifier of the browser that began the log-in.
func TestOIDCCodeOfAnotherBrowser(t *testing.T) {
	t.Parallel()
	a, _ := withProvider(t)
	victim, attacker := a.browser(), a.browser()
	theirs, mine := answerOf(t, victim, "/").Query(), answerOf(t, attacker, "/").Query()
	mine.Set("code", theirs.Get("code"))
	code, body := attacker.get("/oauth/callback?" + mine.Encode())
	require.Equal(t, http.StatusForbidden, code)
	require.Contains(t, body, "invalid_grant")
	require.False(t, attacker.in())
}

func TestOIDCErrorsOfTheProvider(t *testing.T) {
	t.Parallel()
	a, p := withProvider(t)
	p.Refuse("access_denied")
	code, body := a.browser().get("/begin?provider=idp")
	require.Equal(t, http.StatusForbidden, code)
	require.Contains(t, body, "access_denied: refused�[31m")

	code, body = a.browser().get("/begin?provider=other%1b")
	require.Equal(t, http.StatusBadGateway, code)
	require.Equal(t, "log in at other�: there is no such provider", body)

	a.Configure(configFor(p, func(c *Config) { c.RedirectURI = "https://evil.example/oauth/callback" }))
	code, body = a.browser().get("/begin?provider=idp")
	require.Equal(t, http.StatusBadRequest, code, "the provider sends no code elsewhere")
	require.Contains(t, body, "redirect_uri")

	wrong := configFor(p, func(c *Config) { c.Providers[0].Secret = "wrong" })
	a.Configure(wrong)
	p.Refuse("")
	code, body = a.browser().get("/begin?provider=idp")
	require.Equal(t, http.StatusForbidden, code)
	require.Contains(t, body, "invalid_client")
}

// A provider that was unreachable is contacted again later, without a restart of the manager.
func TestOIDCProviderThatIsAway(t *testing.T) {
	t.Parallel()
	a, p := withProvider(t)
	away := configFor(p, func(c *Config) {
		c.Providers[0].ConfigurationEndpoint = p.URL + "/elsewhere" + WellKnown
	})
	a.Configure(away)
	for range 3 {
		code, body := a.browser().get("/begin?provider=idp")
		require.Equal(t, http.StatusBadGateway, code)
		require.Contains(t, body, "/elsewhere"+WellKnown)
	}
	require.Equal(t, []string{"GET /elsewhere" + WellKnown}, p.Requests())
	a.clock.advance(retryInterval)
	a.browser().get("/begin?provider=idp")
	require.Len(t, p.Requests(), 2)
	a.Configure(configFor(p))
	code, _ := a.browser().get("/begin?provider=idp")
	require.Equal(t, http.StatusOK, code)
}

// A log-in never redirects to another host.
func TestNoOpenRedirect(t *testing.T) {
	t.Parallel()
	a, _ := withProvider(t)
	for _, next := range []string{
		"https://evil.example/", "//evil.example/", `/\evil.example/`, "/%2fevil.example", "\t//evil.example",
		"/\t/evil.example", "javascript:alert(1)", "evil.example", "https:evil.example", "///evil.example", "",
		"/\n/evil.example", `\\evil.example`, "http://127.0.0.1:1/", "/%5cevil.example/\x00",
	} {
		b := a.browser()
		code, body := b.get("/begin?provider=idp&next=" + url.QueryEscape(next))
		require.Equal(t, http.StatusOK, code, "%q", next)
		require.True(t, strings.HasPrefix(body, "/ Ann"), "%q leads to %s", next, body)
	}
	for _, next := range []string{"/", "/vms", "/vms/web?tab=events#end", "/a//b", "/vms?next=https://x.example/"} {
		require.Equal(t, next, Target(next))
	}
	require.Equal(t, "/", Target("/"+strings.Repeat("a", 5000)))
}

func TestRolesOfClaims(t *testing.T) {
	t.Parallel()
	token := claims{
		"preferred_username": "ann", "email": "ann@example.org", "email_verified": true,
		"roles": "admin", "groups": []any{"ops", "staff", 7, "", "system:masters", "bad\n"},
		"realm_access": map[string]any{"roles": []any{"nested"}}, "https://x.example/roles": []any{"dotted.name"},
	}
	for claim, want := range map[string][]string{
		"": {"admin"}, "groups": {"ops", "staff"}, "realm_access.roles": {"nested"},
		"https://x.example/roles": {"dotted.name"}, "none": nil, "realm_access": nil, "realm_access.roles.x": nil,
	} {
		got, err := token.ticketFor(Provider{RolesClaim: claim})
		require.NoError(t, err)
		require.ElementsMatch(t, want, got.Roles, claim)
	}
	delete(token, "roles")
	got, err := token.ticketFor(Provider{
		UserClaim: "email", UserPrefix: "x-", RolesMatching: []string{"sta*", "[", "vm-*"},
	})
	require.NoError(t, err)
	require.Equal(t, "x-ann@example.org", got.User)
	require.Equal(t, []string{"staff"}, got.Roles)
}

// Redirects and endpoints in a provider's metadata can't lead to internal addresses, even though the configuration may
// place the provider on this computer.
func TestProvidersLeadToNoInternalAddress(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	secret := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(secret.Close)
	mux := http.NewServeMux()
	front := httptest.NewServer(mux)
	t.Cleanup(front.Close)
	mux.Handle("GET /away"+WellKnown, http.RedirectHandler(secret.URL, http.StatusFound))
	mux.HandleFunc("GET "+WellKnown, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"issuer": %q, "authorization_endpoint": "%[2]s/auth", "token_endpoint": "%[2]s/token", `+
			`"jwks_uri": "%[2]s/keys"}`, front.URL, secret.URL)
	})
	p := Provider{ConfigurationEndpoint: front.URL + "/away" + WellKnown, ClientID: "vmop", Secret: "secret"}
	_, err := discoverEndpoints(t.Context(), p)
	require.ErrorContains(t, err, "127.0.0.1 is a loopback address")

	p.ConfigurationEndpoint = front.URL + WellKnown
	at, err := discoverEndpoints(t.Context(), p)
	require.NoError(t, err)
	client, err := at.oauthClient(p, "https://pages.example/oauth/callback")
	require.NoError(t, err)
	_, err = client.Exchange(oidc.ClientContext(t.Context(), at.http), "code")
	require.ErrorContains(t, err, "127.0.0.1 is a loopback address")
	verify := at.verifier(&oidc.Config{SkipClientIDCheck: true, SkipExpiryCheck: true})
	_, err = verify.Verify(t.Context(), "eyJhbGciOiJSUzI1NiJ9."+
		base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"`+front.URL+`"}`))+".c2ln")
	require.ErrorContains(t, err, "127.0.0.1 is a loopback address")
	require.Zero(t, asked.Load())
}
