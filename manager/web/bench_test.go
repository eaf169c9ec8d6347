package web

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
)

// large returns a server with 5000 VMs.
func large(b *testing.B) (*stage, *Server) {
	b.Helper()
	f := &stage{}
	for i := range 5000 {
		f.Put(sample(fmt.Sprintf("vm-%04d", i), fleet.States()[i%len(fleet.States())]))
	}
	s, err := New(Options{Fleet: f, Visitors: &guests{}, Title: "office", Log: slog.New(slog.DiscardHandler)})
	require.NoError(b, err)
	return f, s
}

// BenchmarkList renders the first page with 5000 VMs, and reports its compressed size.
func BenchmarkList(b *testing.B) {
	for _, address := range []string{"/", "/?sort=-ram", "/?q=vm-49+state:running"} {
		b.Run(address, func(b *testing.B) {
			_, s := large(b)
			var page []byte
			for b.Loop() {
				w := httptest.NewRecorder()
				s.ServeHTTP(w, httptest.NewRequest("GET", address, nil))
				page = w.Body.Bytes()
			}
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			_, err := z.Write(page)
			require.NoError(b, err)
			require.NoError(b, z.Close())
			b.ReportMetric(float64(packed.Len()), "bytes/page")
		})
	}
}

// BenchmarkChange measures the cost for each open page when one of 5000 VMs changes.
func BenchmarkChange(b *testing.B) {
	f, s := large(b)
	r := httptest.NewRequest("GET", "/live", nil)
	view, sent := s.liveView(r).parts, sentParts{seed: maphash.MakeSeed(), hashes: map[string]uint64{}}
	for i := 0; b.Loop(); i++ {
		f.Put(sample("vm-0007", fleet.States()[i%2]))
		parts, err := view()
		require.NoError(b, err)
		for _, html := range sent.freshParts(parts) {
			_, _ = io.Discard.Write(html)
		}
	}
}
