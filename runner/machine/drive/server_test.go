package drive

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/internal/outbound"
)

// Only a silent server is an error here. QEMU itself reports all other problems.
func TestWhichServersQEMUIsKeptFrom(t *testing.T) {
	t.Parallel()
	here := outbound.Rule{Exempt: func(to netip.AddrPort) bool { return to.Addr().IsLoopback() }}
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { silent.Close() })
	require.EqualError(t, tryServer(t.Context(), here, "http://"+silent.Addr().String()+"/x.iso", 50*time.Millisecond),
		"the server does not answer within 50ms")

	answers := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(answers.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	for _, address := range []string{answers.URL, "http://" + closed.Addr().String(), "http://%"} {
		require.NoError(t, tryServer(t.Context(), here, address, time.Minute), address)
	}
}

// A server that redirects to an internal address is refused, because QEMU follows redirects itself.
func TestWhichAddressesQEMUIsKeptFrom(t *testing.T) {
	t.Parallel()
	front := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/latest/meta-data", http.StatusFound))
	t.Cleanup(front.Close)
	host := strings.TrimPrefix(front.URL, "http://")
	for address, rule := range map[string]outbound.Rule{
		front.URL:            outbound.Named(host), // allowed by the redirect
		front.URL + "/x.iso": {},                   // in a pod
		"http://localhost" + host[strings.LastIndex(host, ":"):]: {},
	} {
		require.ErrorAs(t, tryServer(t.Context(), rule, address, time.Minute), new(*outbound.RefusedError), address)
	}
}
