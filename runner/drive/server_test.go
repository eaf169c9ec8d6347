package drive

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Only a server that says nothing is one that would keep QEMU waiting.
func TestWhichServersQEMUIsKeptFrom(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { silent.Close() })
	require.EqualError(t, tryServer(t.Context(), "http://"+silent.Addr().String()+"/x.iso", 50*time.Millisecond),
		"the server does not answer within 50ms")

	answers := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(answers.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	for _, address := range []string{answers.URL, "http://" + closed.Addr().String(), "http://%"} {
		require.NoError(t, tryServer(t.Context(), address, time.Minute), address)
	}
}
