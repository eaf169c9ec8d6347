package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"vmop/internal/outbound"
)

const (
	// answerPatience is how long a provider may take to answer.
	answerPatience = 10 * time.Second
	// largestAnswer is the maximum size of an answer, in bytes.
	largestAnswer = 1 << 20
	// retryInterval is how long to wait before asking a provider again that did not answer.
	retryInterval = 3 * time.Second
	// mostStates is the number of remembered states, to detect a state that is used twice.
	mostStates = 20_000
)

// providers caches the endpoints of providers.
type providers struct {
	now    func() time.Time
	flight singleflight.Group

	mu     sync.Mutex
	byName map[string]discovery
	states map[string]time.Time
}

// discovery contains the endpoints of a provider, or the error of finding them.
type discovery struct {
	of    Provider
	found found
	err   error
	again time.Time // when to try again after an error
}

func newProviders(now func() time.Time) *providers {
	return &providers{now: now, byName: map[string]discovery{}, states: map[string]time.Time{}}
}

// endpointsOf returns the endpoints of a provider. It discovers them on first use, so that a manager can start while a
// provider is unavailable.
func (p *providers) endpointsOf(ctx context.Context, of Provider) (found, error) {
	if d, current := p.recallDiscovery(of); current {
		return d.found, d.err
	}
	lasting := context.WithoutCancel(ctx)
	result, err, _ := p.flight.Do(fmt.Sprintf("%q", of), func() (any, error) {
		if d, current := p.recallDiscovery(of); current {
			return d.found, d.err
		}
		found, err := discoverEndpoints(lasting, of)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.byName[of.Name] = discovery{of, found, err, p.now().Add(retryInterval)}
		return found, err
	})
	at, _ := result.(found)
	return at, err
}

func (p *providers) recallDiscovery(of Provider) (d discovery, current bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d, known := p.byName[of.Name]
	return d, known && reflect.DeepEqual(d.of, of) && (d.err == nil || p.now().Before(d.again))
}

// isFirstUse reports whether a state is used for the first time.
func (p *providers) isFirstUse(state string, until time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, used := p.states[state]; used {
		return false
	}
	if len(p.states) >= mostStates {
		for state, until := range p.states {
			if !until.After(p.now()) {
				delete(p.states, state)
			}
		}
	}
	if len(p.states) >= mostStates { // safe, because the provider refuses to accept a code twice
		clear(p.states)
	}
	p.states[state] = until
	return true
}

// guardedClient returns an HTTP client for the provider. It refuses to connect to internal addresses that the
// provider's metadata may contain, unless the configuration names a server of this computer.
func (p Provider) guardedClient() *http.Client {
	rule := outbound.NamedBy(p.Issuer, p.ConfigurationEndpoint,
		p.AuthorizationEndpoint, p.TokenEndpoint, p.KeysEndpoint)
	base := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute}
	return &http.Client{Timeout: answerPatience, Transport: bounded{rule.Transport(base)}}
}

// bounded limits the size of answers, because their readers do not.
type bounded struct{ inner http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.inner.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	answer.Body = &boundedBody{answer.Body, largestAnswer}
	return answer, nil
}

type boundedBody struct {
	io.ReadCloser
	left int
}

// Read implements io.Reader.
func (b *boundedBody) Read(to []byte) (int, error) {
	if b.left <= 0 {
		return 0, errors.New("the answer is larger than 1 MiB")
	}
	n, err := b.ReadCloser.Read(to[:min(len(to), b.left)])
	b.left -= n
	return n, err
}
