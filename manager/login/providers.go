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

	"vmop/outbound"
)

const (
	// answerPatience is how long a provider may take for an answer.
	answerPatience = 10 * time.Second
	// largestAnswer is how much of one is read.
	largestAnswer = 1 << 20
	// retryInterval is how long a provider that didn't answer isn't asked.
	retryInterval = 3 * time.Second
	// mostStates of answers are remembered, so that none is used twice.
	mostStates = 20_000
)

// providers know the endpoints of providers.
type providers struct {
	now    func() time.Time
	flight singleflight.Group

	mu     sync.Mutex
	byName map[string]discovery
	states map[string]time.Time
}

// A discovery is what was found of a provider, or why it wasn't.
type discovery struct {
	of    Provider
	found found
	err   error
	again time.Time // after an error
}

func newProviders(now func() time.Time) *providers {
	return &providers{now: now, byName: map[string]discovery{}, states: map[string]time.Time{}}
}

// of returns the endpoints of a provider, which are discovered when they are needed first: a
// provider that is away keeps no manager from starting.
func (p *providers) of(ctx context.Context, of Provider) (found, error) {
	if d, current := p.recall(of); current {
		return d.found, d.err
	}
	lasting := context.WithoutCancel(ctx)
	result, err, _ := p.flight.Do(fmt.Sprintf("%q", of), func() (any, error) {
		if d, current := p.recall(of); current {
			return d.found, d.err
		}
		found, err := discover(lasting, of)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.byName[of.Name] = discovery{of, found, err, p.now().Add(retryInterval)}
		return found, err
	})
	at, _ := result.(found)
	return at, err
}

func (p *providers) recall(of Provider) (d discovery, current bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d, known := p.byName[of.Name]
	return d, known && reflect.DeepEqual(d.of, of) && (d.err == nil || p.now().Before(d.again))
}

// first reports whether a state has not been used before.
func (p *providers) first(state string, until time.Time) bool {
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
	if len(p.states) >= mostStates { // the provider accepts no code twice, either
		clear(p.states)
	}
	p.states[state] = until
	return true
}

// reached returns a client for the provider. What the provider says of its endpoints leads to no internal address,
// unless the configuration names a server of this computer.
func (p Provider) reached() *http.Client {
	rule := outbound.NamedBy(p.Issuer, p.ConfigurationEndpoint,
		p.AuthorizationEndpoint, p.TokenEndpoint, p.KeysEndpoint)
	base := &http.Transport{Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, IdleConnTimeout: time.Minute}
	return &http.Client{Timeout: answerPatience, Transport: bounded{rule.Transport(base)}}
}

// bounded limits the size of answers: what reads them doesn't.
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
