package fetch_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/stretchr/testify/require"

	"vmop/diskimage"
	"vmop/internal/outbound"
	"vmop/manager/vm/fetch"
	"vmop/vmtypes/artifact"
	"vmop/vmtypes/signature"
)

// world is a fetcher with its clock and a registry that counts reads.
type world struct {
	*fetch.Fetcher
	host    string
	down    atomic.Bool
	reads   atomic.Int64
	later   atomic.Int64
	changed chan string
}

func begin(t *testing.T) *world {
	t.Helper()
	w := &world{changed: make(chan string, 10)}
	w.Fetcher = &fetch.Fetcher{
		Secret:  func(context.Context, string) ([]byte, error) { return nil, errors.New("there is none") },
		Changed: func(vm string) { w.changed <- vm },
		Now:     func() time.Time { return time.Unix(1e9+w.later.Load(), 0) },
		Reach: func() outbound.Rule {
			return outbound.Rule{Exempt: func(to netip.AddrPort) bool { return to.Addr().IsLoopback() }}
		},
	}
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if w.down.Load() {
			rw.WriteHeader(http.StatusBadGateway)
			return
		}
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/manifests/") {
			w.reads.Add(1)
		}
		handler.ServeHTTP(rw, r)
	}))
	t.Cleanup(server.Close)
	w.host = strings.TrimPrefix(server.URL, "http://")
	files := map[string]string{"a.star": "x = 1\n", "a_test.star": "y\n"}
	c := &artifact.Content{Name: "a", APIVersion: 1, Files: files}
	_, err := artifact.Registry{}.Push(t.Context(), w.host+"/types/a:1", c)
	require.NoError(t, err)
	return w
}

// ask waits for the result for the VM "web".
func (w *world) ask(t *testing.T, r fetch.Request) fetch.Result {
	t.Helper()
	if result := w.Fetch(t.Context(), "web", r); !result.Pending {
		return result
	}
	require.Equal(t, "web", <-w.changed)
	return w.Fetch(t.Context(), "web", r)
}

// The registry is read once until the result is forgotten.
func TestFetchOnce(t *testing.T) {
	t.Parallel()
	w := begin(t)
	request := fetch.Request{Reference: w.host + "/types/a:1"}
	require.True(t, w.Fetch(t.Context(), "web", request).Pending)
	require.Equal(t, "web", <-w.changed)
	for range 3 {
		result := w.ask(t, request)
		require.NoError(t, result.Err)
		require.Equal(t, map[string]string{"a.star": "x = 1\n"}, result.Modules)
		require.Regexp(t, "^sha256:[0-9a-f]{64}$", result.Digest)
	}
	require.EqualValues(t, 1, w.reads.Load())
	w.Forget("web")
	require.NoError(t, w.ask(t, request).Err)
	require.EqualValues(t, 2, w.reads.Load())
	request.Secret = "keys"
	require.ErrorContains(t, w.ask(t, request).Err, "imagePullSecret keys: there is none")
}

// Signatures are required with keys only, and another key is another request.
func TestKeysAreRequired(t *testing.T) {
	t.Parallel()
	w := begin(t)
	key, err := signature.ReadKey([]byte("-----BEGIN PUBLIC KEY-----\n" +
		"MCowBQYDK2VwAyEAlZZEg+AROreSfJanRDz4eWlKb4TPM0oH9glmiM63naE=\n-----END PUBLIC KEY-----\n"))
	require.NoError(t, err)
	request := fetch.Request{Reference: w.host + "/types/a:1"}
	require.NoError(t, w.ask(t, request).Err)
	request.Keys = []signature.Key{key}
	require.ErrorContains(t, w.ask(t, request).Err, "it is not signed")
}

// After each failure the pause doubles, up to ten minutes.
func TestPauses(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.down.Store(true)
	request := fetch.Request{Reference: w.host + "/types/a:1"}
	for _, pause := range []int64{5, 10, 20, 40, 80, 160, 320, 600, 600} {
		result := w.ask(t, request)
		require.Equal(t, diskimage.SourceUnreachable, diskimage.ReasonOf(result.Err), "%v", result.Err)
		require.False(t, fetch.IsForGood(result.Err))
		require.EqualValues(t, pause, result.Again.Sub(w.Now()).Seconds())
		w.later.Add(pause - 1)
		require.Equal(t, result, w.ask(t, request), "it is too early")
		w.later.Add(1)
	}
	w.down.Store(false)
	require.NoError(t, w.ask(t, request).Err)
	request.Reference = w.host + "/types/b:1"
	require.True(t, fetch.IsForGood(w.ask(t, request).Err))
}

// A result that is forgotten during its read is dropped.
func TestForgottenMeanwhile(t *testing.T) {
	t.Parallel()
	w := begin(t)
	wait := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	silent := httptest.NewServer(http.HandlerFunc(wait))
	t.Cleanup(silent.Close)
	request := fetch.Request{Reference: strings.TrimPrefix(silent.URL, "http://") + "/types/a:1"}
	require.True(t, w.Fetch(t.Context(), "web", request).Pending)
	w.Forget("web")
	require.NoError(t, w.ask(t, fetch.Request{Reference: w.host + "/types/a:1"}).Err)
	require.Empty(t, w.changed)
}

// A user who names the registry of a VM type can't make the manager contact an internal server.
func TestInternalRegistriesAreNotAsked(t *testing.T) {
	t.Parallel()
	w := begin(t)
	w.Reach = nil
	asked := w.reads.Load()
	for _, host := range []string{w.host, "169.254.169.254"} {
		result := w.ask(t, fetch.Request{Reference: host + "/types/a:1"})
		require.Equal(t, diskimage.AddressRefused, diskimage.ReasonOf(result.Err), "%v", result.Err)
		require.True(t, fetch.IsForGood(result.Err))
	}
	require.Equal(t, asked, w.reads.Load())
	w.Reach = func() outbound.Rule { return outbound.Rule{NoPrivate: true} }
	result := w.ask(t, fetch.Request{Reference: "10.0.0.1/types/a:1"})
	require.Equal(t, diskimage.AddressRefused, diskimage.ReasonOf(result.Err), "%v", result.Err)
}
