// Package fetch reads VM types from registries for the manager. Each read runs in its own goroutine, so callers
// never wait for a registry.
package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"vmop/diskimage"
	"vmop/internal/outbound"
	"vmop/vmtypes/artifact"
	"vmop/vmtypes/signature"
)

// Limits for registries: the time for an answer, the number of concurrent requests, and the pause after a failure,
// which doubles up to the longest pause.
const (
	patience   = 30 * time.Second
	atOnce     = 4
	firstPause = 5 * time.Second
	longest    = 10 * time.Minute
)

// Request describes what to read for a VM.
type Request struct {
	// Reference is REGISTRY/REPOSITORY:TAG, or @sha256:… or a range of versions instead of the tag.
	Reference string
	// Secret is the name of the Secret with credentials; "" without credentials.
	Secret string
	// CABundle contains trusted certificate authorities in addition to the system's authorities, as PEM.
	CABundle []byte
	// Keys are trusted keys: one of them must have signed the image. Without keys, signatures are ignored.
	Keys []signature.Key
}

// cacheKey returns a text that distinguishes the request from others.
func (r Request) cacheKey() string {
	sum := sha256.Sum256(r.CABundle)
	key := r.Reference + " " + r.Secret + " " + hex.EncodeToString(sum[:])
	for _, k := range r.Keys {
		key += " " + k.Fingerprint()
	}
	return key
}

// Result contains the data from a registry.
type Result struct {
	// Pending is set while the read is in progress. Changed is called when it has finished.
	Pending bool
	// Digest of the manifest. Version is the tag that a range of versions selected, if the reference has one. Modules
	// are the source texts by file name. Signer is the fingerprint of the key that has
	// signed the image, if keys were given.
	Digest  string
	Version string
	Modules map[string]string
	Signer  string
	// Err is the reason why the read failed. A request at Again or later repeats the read.
	Err   error
	Again time.Time
}

// Fetcher reads VM types. Its methods can be called by several goroutines, and return immediately.
type Fetcher struct {
	// Secret returns the .dockerconfigjson of a Secret.
	Secret func(ctx context.Context, name string) ([]byte, error)
	// Changed is called with the name of the VM when a result is available.
	Changed func(vm string)
	Now     func() time.Time
	// Reach decides which addresses registries may have; nil rejects internal addresses.
	Reach func() outbound.Rule

	mu    sync.Mutex
	all   map[string]*entry // by VM
	turns chan struct{}     // of concurrent reads
}

type entry struct {
	key      string
	result   Result
	failures int
	stop     context.CancelFunc
}

// Fetch returns what was read for a VM since it was last forgotten, or starts to read it. The read continues after
// ctx has ended.
func (f *Fetcher) Fetch(ctx context.Context, vm string, r Request) Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all, f.turns = map[string]*entry{}, make(chan struct{}, atOnce)
	}
	e := f.all[vm]
	if e == nil || e.key != r.cacheKey() {
		if e != nil {
			e.stop()
		}
		e = &entry{key: r.cacheKey()}
		f.all[vm] = e
	} else if e.result.Err == nil || f.Now().Before(e.result.Again) {
		return e.result
	}
	e.result = Result{Pending: true}
	var bounded context.Context
	bounded, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	go f.runRequest(bounded, vm, e, r)
	return e.result
}

// Forget discards what was read for a VM: the next Fetch asks the registry.
func (f *Fetcher) Forget(vm string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.all[vm]; e != nil {
		e.stop()
		delete(f.all, vm)
	}
}

// runRequest reads the requested data.
func (f *Fetcher) runRequest(ctx context.Context, vm string, e *entry, r Request) {
	result, err := f.readSource(ctx, r)
	f.mu.Lock()
	e.stop()
	if f.all[vm] != e { // forgotten
		f.mu.Unlock()
		return
	}
	if e.result = result; err != nil {
		pause := min(firstPause<<min(e.failures, 10), longest)
		e.failures++
		e.result = Result{Err: err, Again: f.Now().Add(pause)}
	}
	f.mu.Unlock()
	f.Changed(vm)
}

func (f *Fetcher) readSource(ctx context.Context, r Request) (Result, error) {
	select {
	case f.turns <- struct{}{}:
		defer func() { <-f.turns }()
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
	from := artifact.Registry{CABundle: r.CABundle, Patience: patience, Reach: new(outbound.Rule), Keys: r.Keys}
	if f.Reach != nil {
		*from.Reach = f.Reach()
	}
	if r.Secret != "" {
		var err error
		if from.DockerConfig, err = f.Secret(ctx, r.Secret); err != nil {
			return Result{}, fmt.Errorf("imagePullSecret %s: %w", r.Secret, err)
		}
	}
	got, err := from.Fetch(ctx, r.Reference)
	if err != nil {
		return Result{}, err
	}
	result := Result{Digest: got.Digest, Version: got.Tag, Modules: got.Modules()}
	if got.Proof != nil {
		result.Signer = got.SignedBy.Fingerprint()
	}
	return result, nil
}

// IsForGood reports whether an error of a registry persists until a user or an administrator changes something.
func IsForGood(err error) bool {
	switch diskimage.ReasonOf(err) {
	case diskimage.SourceUnreachable, diskimage.SourceStalled, diskimage.TransferBroken, diskimage.TimedOut,
		diskimage.Canceled:
		return false
	}
	return true
}
