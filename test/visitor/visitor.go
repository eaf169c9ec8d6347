// Package visitor is a browser without a window, for tests of pages that need a log-in. It stores cookies and sends
// them to every manager, as if all managers had the address of one Service.
package visitor

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/manager/access/login"
)

// Visitor is a browser with its cookies. It sends them to every replica, as if all replicas had the address of one
// Service.
type Visitor struct {
	// Scheme is the prefix of URLs, by default http://.
	Scheme string
	// Cookies contains the cookies by name.
	Cookies map[string]string
	// PageKey is the key that the pages' scripts receive at log-in and send with each request.
	PageKey string

	t      *testing.T
	client *http.Client
}

// New returns a visitor without cookies. dial opens connections; nil uses the default. Certificates are not checked.
func New(t *testing.T, dial func(ctx context.Context, network, address string) (net.Conn, error)) *Visitor {
	t.Helper()
	transport := &http.Transport{
		DisableKeepAlives: true, DialContext: dial, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Visitor{
		t: t, Scheme: "http://", Cookies: map[string]string{},
		client: &http.Client{Transport: transport, CheckRedirect: stay},
	}
}

// beginRequest sends a request and returns the response for the caller to read. form is sent unless it is nil.
func (v *Visitor) beginRequest(address, path string, form url.Values, header ...string) *http.Response {
	v.t.Helper()
	method, body := http.MethodGet, ""
	if form != nil {
		method, body = http.MethodPost, form.Encode()
	}
	r, err := http.NewRequestWithContext(v.t.Context(), method, v.Scheme+address+path, strings.NewReader(body))
	require.NoError(v.t, err)
	r.Header.Set("Sec-Fetch-Mode", "navigate")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if v.PageKey != "" {
		r.Header.Set(login.PageKeyHeader, v.PageKey)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	for name, value := range v.Cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	answer, err := v.client.Do(r)
	require.NoError(v.t, err)
	for _, c := range answer.Cookies() {
		v.Cookies[c.Name] = c.Value
	}
	to, key, found := strings.Cut(answer.Header.Get("Location"), "#"+login.PageKeyField+"=")
	if found {
		v.PageKey = key
		answer.Header.Set("Location", to)
	}
	return answer
}

// Get returns the status code and the text of a page.
func (v *Visitor) Get(address, path string, header ...string) (int, string) {
	v.t.Helper()
	answer := v.beginRequest(address, path, nil, header...)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(v.t, err)
	return answer.StatusCode, string(text)
}

// Post sends a form, and returns the status code and the target of a redirect.
func (v *Visitor) Post(address, path string, form url.Values) (int, string) {
	v.t.Helper()
	answer := v.beginRequest(address, path, form)
	require.NoError(v.t, answer.Body.Close())
	return answer.StatusCode, answer.Header.Get("Location")
}

// LogIn logs a local user in.
func (v *Visitor) LogIn(address, name, password string) *Visitor {
	v.t.Helper()
	code, to := v.Post(address, "/login", url.Values{"user": {name}, "password": {password}})
	require.Equal(v.t, http.StatusSeeOther, code)
	require.Equal(v.t, "/", to)
	return v
}

// Live opens the event stream of the list or, with a query, of a page. It returns functions that wait for a text and
// for the end of the stream.
func (v *Visitor) Live(address string, query ...string) (await func(text string), ended func()) {
	v.t.Helper()
	answer := v.beginRequest(address, "/live?"+strings.Join(query, "&"), nil)
	v.t.Cleanup(func() { _ = answer.Body.Close() })
	require.Equal(v.t, http.StatusOK, answer.StatusCode)
	lines := bufio.NewReader(answer.Body)
	await = func(text string) {
		v.t.Helper()
		for {
			line, err := lines.ReadString('\n')
			require.NoError(v.t, err, "before "+text)
			if strings.Contains(line, text) {
				return
			}
		}
	}
	return await, func() {
		v.t.Helper()
		_, err := io.Copy(io.Discard, lines)
		require.NoError(v.t, err, "it ends as it should")
	}
}
