package registry

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/diskimage"
)

// answering answers all requests.
type answering struct{}

func (answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// Plain HTTP is limited to this computer, although go-containerregistry allows it for every private address.
func TestHTTPIsForThisComputerOnly(t *testing.T) {
	t.Parallel()
	for url, permitted := range map[string]bool{
		"https://10.0.0.1/v2/": true, "http://10.0.0.1/v2/": false, "http://192.168.1.1:5000/v2/": false,
		"http://registry.local/v2/": false, "http://localhost.example.org/v2/": false,
		"http://127.0.0.1.example.org/": false,
		"http://localhost:5000/v2/":     true, "http://127.0.0.1:5000/v2/": true, "http://[::1]:5000/v2/": true,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		resp, err := (&guard{base: answering{}}).RoundTrip(req)
		if permitted {
			require.NoError(t, err, url)
			require.NoError(t, resp.Body.Close())
			continue
		}
		require.Equal(t, diskimage.SourceRefused, diskimage.ReasonOf(err), "%s: %v", url, err)
		resp, err = (&guard{base: answering{}, insecure: true}).RoundTrip(req)
		require.NoError(t, err, url)
		require.NoError(t, resp.Body.Close())
	}
}
