package diskimage

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
)

// HTTP is a source with a URL of the scheme http or https.
type HTTP struct {
	URL string
	// CABundle lists authorities to trust in addition to the system's, as PEM.
	CABundle []byte
	// Username and Password are for basic authentication. They aren't sent to other servers after a redirect.
	Username, Password string
}

// mostRedirects is the maximum number of redirects.
const mostRedirects = 10

// Open implements Source.
func (h HTTP) Open(ctx context.Context, n Network) (*Stream, error) {
	u, err := url.Parse(h.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, Refuse(InvalidSource, "must be a URL of http or https, such as https://example.org/debian.qcow2")
	}
	rt, err := n.Transport(h.CABundle)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL, nil)
	if err != nil {
		return nil, Refuse(InvalidSource, "request %s: %w", redactURL(u), err)
	}
	req.Header.Set("Accept-Encoding", "identity")
	if h.Username != "" || h.Password != "" {
		req.SetBasicAuth(h.Username, h.Password)
	}
	client := &http.Client{Transport: rt, CheckRedirect: checkRedirect}
	resp, err := client.Do(req)
	if err != nil {
		var wrapped *url.Error // its text contains the URL with its secrets
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		if !errors.As(err, new(*Error)) && ctx.Err() == nil {
			err = Refuse(SourceRefused, "%s: %w", redactURL(u), err)
		}
		return nil, err
	}
	if err := statusError(resp); err != nil {
		resp.Body.Close()
		return nil, err
	}
	open := resp.Request.URL.Scheme == "http" || u.Scheme == "http"
	bounded := resp.ContentLength >= 0 || len(resp.TransferEncoding) > 0
	return &Stream{
		ReadCloser: resp.Body, Total: max(resp.ContentLength, 0), Open: open, EndUnknown: !bounded,
	}, nil
}

func checkRedirect(req *http.Request, via []*http.Request) error {
	if req.URL.Scheme != "http" && req.URL.Scheme != "https" {
		return Refuse(RedirectRefused, "%s redirects to %s, which is neither http nor https",
			redactURL(via[len(via)-1].URL), redactURL(req.URL))
	}
	if from := via[0].URL; !sameServer(from, req.URL) {
		req.Header.Del("Authorization") // net/http keeps it for other ports and for names below the host's
	}
	for _, earlier := range via {
		if earlier.URL.String() == req.URL.String() {
			return Refuse(RedirectRefused, "%s redirects in a loop", redactURL(req.URL))
		}
	}
	if len(via) > mostRedirects {
		return Refuse(RedirectRefused, "%s redirects more than %d times, finally to %s", redactURL(via[0].URL),
			mostRedirects, redactURL(req.URL))
	}
	return nil
}

// sameServer reports whether two URLs have the same scheme, host and port.
func sameServer(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && a.Port() == b.Port()
}

// statusError returns the error for the status of a response, or nil after a success.
func statusError(resp *http.Response) error {
	what := redactURL(resp.Request.URL) + ": the server answers " + strings.TrimSpace(resp.Status)
	switch s := resp.StatusCode; {
	case s == http.StatusOK:
		return nil
	case s == http.StatusNotFound || s == http.StatusGone:
		return Refuse(SourceNotFound, "%s", what)
	case s == http.StatusUnauthorized || s == http.StatusForbidden || s == http.StatusProxyAuthRequired:
		return Refuse(SourceUnauthorized, "%s; check the credentials", what)
	case forNow(s):
		return Refuse(SourceUnreachable, "%s", what).Again()
	}
	return Refuse(SourceRefused, "%s", what)
}
