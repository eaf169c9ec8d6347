package control_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/control"
)

// A program that impersonates a runner can't fill the client's memory with an endless answer.
func TestAnAnswerWithoutEnd(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "ctl")
	require.NoError(t, err)
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	require.NoError(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for part := make([]byte, 1<<20); ; {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	client, err := control.Dial(t.Context(), l.Addr().String())
	require.NoError(t, err)
	err = client.Plan(t.Context(), io.Discard, "json")
	require.EqualError(t, err, "read the runner's answer: it is longer than 64 MiB")
}
