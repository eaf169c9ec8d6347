package controller

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// wire carries a manager's requests. It counts them and can be cut before the n-th write arrives, or after this write
// was carried out. A cut manager is isolated completely, as if it had been killed.
type wire struct {
	mu     sync.Mutex
	writes []string // method and path, and the field manager
	reads  []string // of single objects, without the caches' lists and watches
	cutAt  int      // number of the write, from 1; 0: never
	after  bool     // cut after the write is carried out
	only   string   // if not "": a regular expression for the counted writes
	late   string   // if not "": the suffix of paths whose reads are delayed until after a write, or for a while
	isCut  bool
	cut    chan struct{} // closed when the wire is cut
}

func newWire() *wire { return &wire{cut: make(chan struct{})} }

func cutWire(at int, after bool) *wire {
	return &wire{cut: make(chan struct{}), cutAt: at, after: after}
}

var errCut = errors.New("the wire is cut")

func (w *wire) wrap(next http.RoundTripper) http.RoundTripper { return cable{w, next} }

type cable struct {
	*wire
	next http.RoundTripper
}

func (c cable) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.late != "" && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, c.late) {
		for over := time.After(2 * time.Second); len(c.written()) == 0; {
			select {
			case <-over:
				return c.next.RoundTrip(r)
			case <-r.Context().Done():
				return nil, r.Context().Err()
			case <-time.After(tick):
			}
		}
	}
	before, after := c.note(r)
	if before {
		return nil, errCut
	}
	response, err := c.next.RoundTrip(r)
	if after && err == nil {
		_ = response.Body.Close()
		return nil, errCut
	}
	return response, err
}

// note records a request and reports whether to cut the wire before it arrives or before its answer returns.
func (w *wire) note(r *http.Request) (before, after bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isCut {
		return true, true
	}
	what := r.Method + " " + r.URL.Path
	switch {
	case r.Method == http.MethodGet && (strings.Contains(r.URL.Path, "/namespaces/") && named(r.URL.Path)):
		w.reads = append(w.reads, what)
	case r.Method != http.MethodGet && regexp.MustCompile(w.only).MatchString(what):
		w.writes = append(w.writes, what)
		if len(w.writes) == w.cutAt {
			w.isCut = true
			close(w.cut)
			return !w.after, w.after
		}
	}
	return false, false
}

// named reports whether a path names a single object instead of a list.
func named(path string) bool {
	_, rest, _ := strings.Cut(path, "/namespaces/")
	return strings.Count(rest, "/") >= 2
}

func (w *wire) written() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.writes)
}

func (w *wire) read() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.reads)
}
