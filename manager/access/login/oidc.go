package login

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"vmop/internal/printable"
	"vmop/internal/readfile"
)

// attemptLifetime is how long a user may take to log in at the provider.
const attemptLifetime = 10 * time.Minute

// attempt is a log-in in progress. The browser keeps it in encrypted form, so that any manager can finish it.
type attempt struct {
	Provider string `json:"p"`
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
	Next     string `json:"t,omitempty"`
	Until    int64  `json:"u"`
}

// Begin redirects the browser to a provider. next is the path to open after the log-in; see Target. If Begin
// returns an error, the error is a ProviderError, and it has not written a response.
func (s *Service) Begin(w http.ResponseWriter, r *http.Request, provider, next string) error {
	fail := func(unavailable bool, err error) error {
		return s.refuseLogin(r, refusedProvider, &providerError{nameForLog(provider), unavailable, err}, "method",
			byProvider)
	}
	c := s.config.Load()
	p, known := c.providerNamed(provider)
	if !known {
		return fail(false, errors.New("there is no such provider"))
	}
	at, err := s.providers.endpointsOf(r.Context(), p)
	if err != nil {
		return fail(true, err)
	}
	client, err := at.oauthClient(p, c.RedirectURI)
	if err != nil {
		return fail(true, err)
	}
	a := attempt{
		Provider: p.Name, State: randomText(), Nonce: randomText(), Verifier: oauth2.GenerateVerifier(),
		Next: Target(next), Until: s.opts.Now().Add(attemptLifetime).Unix(),
	}
	cookie, err := s.keys.Load().attempt.sealValue(a)
	if err != nil {
		return fail(false, err)
	}
	options := []oauth2.AuthCodeOption{oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)}
	if p.Prompt != "" {
		options = append(options, oauth2.SetAuthURLParam("prompt", p.Prompt))
	}
	http.SetCookie(w, s.newCookie(r, attemptCookie, cookie, attemptLifetime))
	http.Redirect(w, r, client.AuthCodeURL(a.State, options...), http.StatusSeeOther)
	return nil
}

// Callback finishes a log-in after the provider has redirected the browser back. It sets the cookie and returns
// the path to open next. Its error is a ProviderError or a RolesError.
func (s *Service) Callback(w http.ResponseWriter, r *http.Request) (session *Session, next string, err error) {
	cookie, err := r.Cookie(s.cookieName(r, attemptCookie))
	http.SetCookie(w, s.newCookie(r, attemptCookie, "", -1))
	var a attempt
	if err == nil {
		err = s.keys.Load().attempt.openValue(cookie.Value, &a)
	}
	fail := func(unavailable bool, err error) (*Session, string, error) {
		return nil, "", s.refuseLogin(r, refusedProvider, &providerError{a.Provider, unavailable, err}, "method",
			byProvider)
	}
	given := r.FormValue("state")
	switch {
	case err != nil, !s.opts.Now().Before(time.Unix(a.Until, 0)):
		return fail(false, errors.New("no log-in has begun in this browser within 10 minutes"))
	case given == "" || subtle.ConstantTimeCompare([]byte(given), []byte(a.State)) != 1:
		return fail(false, errors.New("the answer is not for the log-in that has begun last"))
	case !s.providers.isFirstUse(a.State, time.Unix(a.Until, 0)):
		return fail(false, errors.New("the answer has been used before"))
	}
	if code := r.FormValue("error"); code != "" {
		return fail(false, errors.New(errorText(code, r.FormValue("error_description"))))
	}
	c := s.config.Load()
	p, known := c.providerNamed(a.Provider)
	if !known {
		return fail(false, errors.New("there is no such provider any more"))
	}
	t, unavailable, err := s.redeemCode(r, p, c.RedirectURI, a)
	if err != nil {
		return fail(unavailable, err)
	}
	if err := c.refuseForeign(p, t.User); err != nil {
		return fail(false, err)
	}
	session, err = s.beginSession(w, r, t)
	return session, a.Next, err
}

// redeemCode exchanges a code for a token and checks the token.
func (s *Service) redeemCode(r *http.Request, p Provider, redirect string, a attempt) (
	_ ticket, unavailable bool, _ error,
) {
	at, err := s.providers.endpointsOf(r.Context(), p)
	if err != nil {
		return ticket{}, true, err
	}
	if issuer := r.FormValue("iss"); issuer != "" && issuer != at.issuer { // RFC 9207
		return ticket{}, false, fmt.Errorf("the answer is from %q", printable.Line(issuer))
	}
	client, err := at.oauthClient(p, redirect)
	if err != nil {
		return ticket{}, true, err
	}
	ctx := oidc.ClientContext(r.Context(), at.http)
	tokens, err := client.Exchange(ctx, r.FormValue("code"), oauth2.VerifierOption(a.Verifier))
	var refused *oauth2.RetrieveError
	switch {
	case errors.As(err, &refused) && refused.ErrorCode != "": // without an error code, the body may contain anything
		return ticket{}, false, errors.New(errorText(refused.ErrorCode, refused.ErrorDescription))
	case errors.As(err, &refused):
		return ticket{}, true, fmt.Errorf("redeem the code: HTTP status %d", refused.Response.StatusCode)
	case err != nil:
		return ticket{}, true, fmt.Errorf("redeem the code: %w", err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	if raw == "" {
		return ticket{}, false, errors.New("the answer has no id_token")
	}
	verifier := at.verifier(&oidc.Config{ClientID: p.ClientID, Now: s.opts.Now})
	token, err := verifier.Verify(ctx, raw)
	if err != nil {
		return ticket{}, false, err
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(a.Nonce)) != 1 {
		return ticket{}, false, errors.New("the token is not for this log-in: its nonce differs")
	}
	if token.AccessTokenHash != "" {
		if err := token.VerifyAccessToken(tokens.AccessToken); err != nil {
			return ticket{}, false, err
		}
	}
	var all claims
	if err := token.Claims(&all); err != nil {
		return ticket{}, false, err
	}
	t, err := all.ticketFor(p)
	return t, false, err
}

// errorText formats a provider's error.
func errorText(code, description string) string {
	text := printable.Clip(printable.Line(code), 64)
	if description != "" {
		text += ": " + printable.Clip(printable.Line(description), 200)
	}
	return text
}

// CallbackPath returns the path of RedirectURI, which the caller must route to Callback.
func (c Config) CallbackPath() string {
	const fallback = "/oauth/callback"
	_, rest, found := strings.Cut(c.RedirectURI, "://")
	if _, path, has := strings.Cut(rest, "/"); found && has && path != "" {
		return "/" + path
	}
	return fallback
}

// clientSecret returns the secret of a provider's client.
func (p Provider) clientSecret() (string, error) {
	if p.SecretFile == "" {
		return p.Secret, nil
	}
	const largest = 4 << 10
	data, err := readfile.ReadFile(p.SecretFile, largest)
	if err != nil {
		return "", fmt.Errorf("read the client's secret: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// found contains the endpoints of a provider.
type found struct {
	http     *http.Client
	issuer   string
	endpoint oauth2.Endpoint
	verifier func(*oidc.Config) *oidc.IDTokenVerifier
}

// oauthClient returns the OAuth configuration of the manager as a client of the provider.
func (f found) oauthClient(p Provider, redirect string) (oauth2.Config, error) {
	secret, err := p.clientSecret()
	scopes := p.Scopes
	if scopes == nil {
		scopes = []string{"profile"}
	}
	return oauth2.Config{
		ClientID: p.ClientID, ClientSecret: secret, Endpoint: f.endpoint, RedirectURL: redirect,
		Scopes: append([]string{oidc.ScopeOpenID}, scopes...),
	}, err
}

// discoverEndpoints finds a provider's endpoints. The library fetches the keys later, when needed, with ctx.
func discoverEndpoints(ctx context.Context, p Provider) (found, error) {
	at := p.guardedClient()
	ctx = oidc.ClientContext(ctx, at) // also used to fetch the keys
	if p.ConfigurationEndpoint == "" {
		config := oidc.ProviderConfig{
			IssuerURL: p.Issuer, AuthURL: p.AuthorizationEndpoint, TokenURL: p.TokenEndpoint, JWKSURL: p.KeysEndpoint,
		}
		provider := config.NewProvider(ctx)
		return found{at, p.Issuer, provider.Endpoint(), provider.Verifier}, nil
	}
	base, issuer := strings.TrimSuffix(p.ConfigurationEndpoint, WellKnown), p.issuerURL()
	if issuer != base {
		ctx = oidc.InsecureIssuerURLContext(ctx, issuer) // insecure only if the issuer were not passed
	}
	provider, err := oidc.NewProvider(ctx, base)
	if err != nil {
		return found{}, fmt.Errorf("read %s: %w", p.ConfigurationEndpoint, err)
	}
	return found{at, issuer, provider.Endpoint(), provider.Verifier}, nil
}

// issuerURL returns the issuer that the provider's tokens name.
func (p Provider) issuerURL() string {
	return cmp.Or(p.Issuer, strings.TrimSuffix(p.ConfigurationEndpoint, WellKnown))
}

// WellKnown is the end of a ConfigurationEndpoint.
const WellKnown = "/.well-known/openid-configuration"
