// Package fetch reads VM types of registries for the manager: each in a goroutine of its own, so that
// nothing waits for a registry.
package fetch

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"vmop/diskimage"
	"vmop/outbound"
	"vmop/vmtypes/artifact"
)

// How long a registry may take, how many are asked at once, and how long after a failure the next
// attempt is made: the pause doubles.
const (
	patience   = 30 * time.Second
	atOnce     = 4
	firstPause = 5 * time.Second
	longest    = 10 * time.Minute
)

// A Request is what is to be read for a VM.
type Request struct {
	// Reference is REGISTRY/REPOSITORY:TAG, or @sha256:… instead of the tag.
	Reference string
	// Secret is the name of the Secret with credentials; "" without any.
	Secret string
	// CABundle has authorities that are trusted beside those of the system, as PEM.
	CABundle []byte
}

// key is a text that differs from that of other requests.
func (r Request) key() string {
	sum := sha256.Sum256(r.CABundle)
	return r.Reference + " " + r.Secret + " " + hex.EncodeToString(sum[:])
}

// A Result is what has been read.
type Result struct {
	// Pending: nothing has yet. Changed is called when that has changed.
	Pending bool
	// Digest is that of the manifest, Modules are the texts by their file names.
	Digest  string
	Modules map[string]string
	// Err is why nothing could be read; it is tried again when it is asked for at Again or later.
	Err   error
	Again time.Time
}

// Fetcher reads VM types. Its methods may be called by several goroutines, and return at once.
type Fetcher struct {
	// Secret returns the .dockerconfigjson of a Secret.
	Secret func(ctx context.Context, name string) ([]byte, error)
	// Changed is called with the name of the VM when a result is there.
	Changed func(vm string)
	Now     func() time.Time
	// Reach decides which addresses registries may have; nil refuses internal ones.
	Reach func() outbound.Rule

	mu    sync.Mutex
	all   map[string]*entry // by VM
	turns chan struct{}     // of registries that are asked
}

type entry struct {
	key      string
	result   Result
	failures int
	stop     context.CancelFunc
}

// Fetch returns what was read for a VM since it was last forgotten, or begins to read it, which
// continues after ctx has ended.
func (f *Fetcher) Fetch(ctx context.Context, vm string, r Request) Result {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all, f.turns = map[string]*entry{}, make(chan struct{}, atOnce)
	}
	e := f.all[vm]
	if e == nil || e.key != r.key() {
		if e != nil {
			e.stop()
		}
		e = &entry{key: r.key()}
		f.all[vm] = e
	} else if e.result.Err == nil || f.Now().Before(e.result.Again) {
		return e.result
	}
	e.result = Result{Pending: true}
	var bounded context.Context
	bounded, e.stop = context.WithCancel(context.WithoutCancel(ctx))
	go f.run(bounded, vm, e, r)
	return e.result
}

// Forget forgets what was read for a VM: the next Fetch asks the registry.
func (f *Fetcher) Forget(vm string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if e := f.all[vm]; e != nil {
		e.stop()
		delete(f.all, vm)
	}
}

// run reads what was asked for.
func (f *Fetcher) run(ctx context.Context, vm string, e *entry, r Request) {
	result, err := f.read(ctx, r)
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

func (f *Fetcher) read(ctx context.Context, r Request) (Result, error) {
	select {
	case f.turns <- struct{}{}:
		defer func() { <-f.turns }()
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
	from := artifact.Registry{CABundle: r.CABundle, Patience: patience, Reach: new(outbound.Rule)}
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
	return Result{Digest: got.Digest, Modules: got.Modules()}, nil
}

// IsForGood reports whether an error of a registry stays until a user or an administrator changes something.
func IsForGood(err error) bool {
	switch diskimage.ReasonOf(err) {
	case diskimage.SourceUnreachable, diskimage.SourceStalled, diskimage.TransferBroken, diskimage.TimedOut,
		diskimage.Canceled:
		return false
	}
	return true
}
