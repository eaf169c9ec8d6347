// Package logintest is an OpenID Connect provider for tests. It adds the code flow to go-oidc's test server and
// is as strict as the specifications. Its user is already logged in, so it redirects the browser immediately.
package logintest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc/oidctest"
)

// Provider is a running provider.
type Provider struct {
	// URL is the issuer; the metadata is below it.
	URL string
	// ClientID and ClientSecret belong to the only client, which receives browsers at RedirectURI.
	ClientID, ClientSecret, RedirectURI string
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	server *httptest.Server
	key    *rsa.PrivateKey

	mu       sync.Mutex
	claims   map[string]any
	tamper   func(claims map[string]any)
	signer   *rsa.PrivateKey
	refuse   string
	codes    map[string]*grant
	requests []string
}

// grant is the information behind a code.
type grant struct {
	nonce, challenge string
	used             bool
}

// keyID names the provider's key.
const keyID = "test"

// New starts a provider. It adds claims to the user's tokens, next to iss, aud, sub, exp, iat and nonce. New
// fails only if it cannot create a key.
func New(claims map[string]any) (*Provider, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, err
	}
	p := &Provider{
		ClientID: "vmop", ClientSecret: "provider-secret", key: key, signer: key, claims: claims,
		codes: map[string]*grant{},
	}
	metadata := &oidctest.Server{
		PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: keyID, Algorithm: "RS256"}},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /auth", p.serveAuth)
	mux.HandleFunc("POST /token", p.serveToken)
	mux.Handle("/", metadata)
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.requests = append(p.requests, r.Method+" "+r.URL.Path)
		p.mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	p.URL = p.server.URL
	metadata.SetIssuer(p.URL)
	return p, nil
}

// Close stops the provider.
func (p *Provider) Close() { p.server.Close() }

// Requests returns the method and path of all requests so far.
func (p *Provider) Requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.requests)
}

// Tamper changes the claims of all tokens issued from now on; nil stops that.
func (p *Provider) Tamper(change func(claims map[string]any)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tamper = change
}

// Forge signs tokens with a foreign key under the name of the provider's key.
func (p *Provider) Forge(key *rsa.PrivateKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signer = key
}

// Refuse makes the provider refuse log-ins with an error code; "" accepts them again.
func (p *Provider) Refuse(code string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = code
}

// serveAuth is the authorization endpoint.
func (p *Provider) serveAuth(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case q.Get("client_id") != p.ClientID, q.Get("redirect_uri") != p.RedirectURI:
		http.Error(w, "unknown client or redirect_uri", http.StatusBadRequest)
		return
	case q.Get("response_type") != "code", !slices.Contains(strings.Fields(q.Get("scope")), "openid"),
		q.Get("state") == "", q.Get("nonce") == "", q.Get("code_challenge") == "",
		q.Get("code_challenge_method") != "S256":
		http.Error(w, "response_type, scope, state, nonce or code_challenge is missing", http.StatusBadRequest)
		return
	}
	answer := url.Values{"state": {q.Get("state")}, "iss": {p.URL}}
	if p.refuse != "" {
		answer.Set("error", p.refuse)
		answer.Set("error_description", "refused\x1b[31m")
	} else {
		code := rand.Text()
		p.codes[code] = &grant{nonce: q.Get("nonce"), challenge: q.Get("code_challenge")}
		answer.Set("code", code)
	}
	http.Redirect(w, r, p.RedirectURI+"?"+answer.Encode(), http.StatusFound)
}

// serveToken is the token endpoint.
func (p *Provider) serveToken(w http.ResponseWriter, r *http.Request) {
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	verifier := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	g := p.codes[r.PostFormValue("code")]
	fault := ""
	switch {
	case id != p.ClientID || secret != p.ClientSecret:
		fault = "invalid_client"
	case r.PostFormValue("grant_type") != "authorization_code":
		fault = "unsupported_grant_type"
	case g == nil, g.used, r.PostFormValue("redirect_uri") != p.RedirectURI,
		base64.RawURLEncoding.EncodeToString(verifier[:]) != g.challenge:
		fault = "invalid_grant"
	}
	w.Header().Set("Content-Type", "application/json")
	if fault != "" {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": fault})
		return
	}
	g.used = true
	_ = json.NewEncoder(w).Encode(map[string]any{
		"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 300, "id_token": p.idToken(g.nonce),
	})
}

// IDToken returns a token of the user, like the token that a program obtains by logging the user in itself.
func (p *Provider) IDToken() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.idToken("")
}

func (p *Provider) idToken(nonce string) string {
	now := time.Now
	if p.Now != nil {
		now = p.Now
	}
	claims := map[string]any{
		"iss": p.URL, "aud": p.ClientID, "sub": "1", "nonce": nonce,
		"iat": now().Unix(), "exp": now().Add(time.Minute).Unix(),
	}
	maps.Copy(claims, p.claims)
	if p.tamper != nil {
		p.tamper(claims)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		return ""
	}
	return oidctest.SignIDToken(p.signer, keyID, "RS256", string(text))
}
