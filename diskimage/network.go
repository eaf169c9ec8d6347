package diskimage

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"vmop/internal/outbound"
)

// Network describes how sources use the network.
type Network struct {
	Stall   time.Duration // how long a server may send no bytes
	Retries int           // how often a transfer without progress is resumed
	Backoff time.Duration // the pause before the first retry; it doubles
	Reach   outbound.Rule // the permitted addresses
}

// Pause waits before the attempt n, counted from 1, or until the context ends.
func (n Network) Pause(ctx context.Context, attempt int) {
	timer := time.NewTimer(n.Backoff << min(attempt-1, 5))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Transport returns a round-tripper for HTTP requests. Its errors are of the type *Error. The round-tripper
//
//   - trusts the system's authorities and the authorities of a bundle (PEM),
//   - refuses redirects from https to http,
//   - ends a connection that has stalled, and
//   - resumes the transfer of a broken body if the server supports that and confirms that the contents are
//     unchanged.
func (n Network) Transport(bundle []byte) (http.RoundTripper, error) {
	base := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		DisableCompression:     true, // the checksum covers the bytes as transferred
		MaxResponseHeaderBytes: 256 << 10,
		IdleConnTimeout:        n.Stall,
	}
	if len(bundle) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			return nil, Refuse(Internal, "read the system's certificates: %w", err)
		}
		if !pool.AppendCertsFromPEM(bundle) {
			return nil, Refuse(InvalidSource, "the CA bundle has no certificate; use PEM, -----BEGIN CERTIFICATE-----")
		}
		base.TLSClientConfig.RootCAs = pool
	}
	return &transport{n.Reach.Transport(base), n}, nil
}

type transport struct {
	base http.RoundTripper
	Network
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if from := req.Response; from != nil && from.Request.URL.Scheme == "https" && req.URL.Scheme != "https" {
		return nil, Refuse(RedirectRefused, "%s redirects from https to %s, which anyone between could change",
			redactURL(from.Request.URL), redactURL(req.URL))
	}
	resp, w, err := t.sendRequest(req)
	if err != nil {
		return nil, err
	}
	b := &body{transport: t, req: req, body: resp.Body, watch: w, size: resp.ContentLength}
	if req.Method == http.MethodGet && resp.StatusCode == http.StatusOK && resp.ContentLength > 0 {
		b.same = rangeValidator(resp.Header)
	}
	resp.Body = b
	return resp, nil
}

// sendRequest makes one request. The watch also guards the body, and ends when the body is closed.
func (t *transport) sendRequest(req *http.Request) (*http.Response, *watch, error) {
	ctx, cancel := context.WithCancel(req.Context())
	w := &watch{after: t.Stall, cancel: cancel}
	w.beginWatch()
	resp, err := t.base.RoundTrip(req.WithContext(ctx))
	stalled := w.endWatch()
	if err == nil && stalled {
		resp.Body.Close()
	}
	if err == nil && !stalled {
		return resp, w, nil
	}
	cancel()
	return nil, nil, t.explainRequest(req, err, stalled)
}

// explainRequest returns the error of a request as an *Error.
func (t *transport) explainRequest(req *http.Request, err error, stalled bool) error {
	var (
		cert   *tls.CertificateVerificationError
		plain  tls.RecordHeaderError
		inner  *outbound.RefusedError
		server = req.URL.Scheme + "://" + req.URL.Host
	)
	switch {
	case req.Context().Err() != nil:
		return req.Context().Err()
	case errors.As(err, &inner):
		return Refuse(AddressRefused, "cannot read from %s: %w; name a server at another address", server, inner)
	case stalled:
		return Refuse(SourceStalled, "%s does not answer within %s", server, t.Stall).Again()
	case errors.As(err, &cert):
		return Refuse(CertificateInvalid, "%s: %w; name its authority in the CA bundle", server, cert.Err)
	case errors.As(err, &plain):
		return Refuse(SourceRefused, "%s does not speak TLS", server)
	}
	return Refuse(SourceUnreachable, "%s: %w", server, err).Again()
}

// A watch ends a connection that a reader has waited on for too long. Only waiting counts, because a target may be
// slow.
type watch struct {
	after  time.Duration
	cancel context.CancelFunc
	timer  *time.Timer
}

func (w *watch) beginWatch() {
	if w.timer == nil {
		w.timer = time.AfterFunc(w.after, w.cancel)
		return
	}
	w.timer.Reset(w.after)
}

// endWatch reports whether the wait was too long.
func (w *watch) endWatch() (stalled bool) { return !w.timer.Stop() }

// rangeValidator returns the value that If-Range needs to recognize a representation (RFC 9110, 13.1.5), or "" if the
// response has no such value.
func rangeValidator(h http.Header) string {
	if h.Get("Content-Encoding") != "" || strings.EqualFold(h.Get("Accept-Ranges"), "none") {
		return ""
	}
	if tag := h.Get("Etag"); strings.HasPrefix(tag, `"`) {
		return tag // a weak tag doesn't promise equal bytes
	}
	return h.Get("Last-Modified")
}

// enough is the number of bytes after a resumption that count as progress.
const enough = 1 << 20

// body is the body of a response. It resumes the transfer when that breaks.
type body struct {
	*transport
	req      *http.Request
	body     io.ReadCloser
	watch    *watch
	size     int64 // of the whole body; -1 if unknown
	same     string
	at       int64 // offset in the whole body
	resumed  int64 // offset of the last resumption
	failures int   // since the last progress
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	for {
		b.watch.beginWatch()
		n, err := b.body.Read(p)
		stalled := b.watch.endWatch()
		if b.at += int64(n); b.at-b.resumed > enough {
			b.failures = 0
		}
		if n > 0 && !errors.Is(err, io.EOF) {
			return n, nil // the next Read returns the error again
		}
		if err == nil || errors.Is(err, io.EOF) {
			return n, err
		}
		if err := b.resumeBody(err, stalled); err != nil {
			return 0, err
		}
	}
}

// resumeBody requests the rest of the body.
func (b *body) resumeBody(cause error, stalled bool) error {
	ctx, server := b.req.Context(), b.req.URL.Scheme+"://"+b.req.URL.Host
	why := Refuse(TransferBroken, "the connection to %s broke after %d bytes: %w", server, b.at, cause)
	if stalled {
		why = Refuse(SourceStalled, "%s has sent no data for %s, after %d bytes", server, b.Stall, b.at)
	}
	for b.same != "" && b.failures < b.Retries {
		b.failures++
		if b.Pause(ctx, b.failures); ctx.Err() != nil {
			return ctx.Err()
		}
		b.Close()
		req := b.req.Clone(ctx)
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", b.at))
		req.Header.Set("If-Range", b.same)
		resp, w, err := b.sendRequest(req)
		if err != nil {
			var e *Error
			if errors.As(err, &e) && e.again {
				continue
			}
			return err
		}
		b.body, b.watch, b.resumed = resp.Body, w, b.at
		var from, to, size int64
		_, err = fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &size)
		switch {
		case resp.StatusCode == http.StatusPartialContent && err == nil && from == b.at && size == b.size:
			return nil
		case !forNow(resp.StatusCode):
			return why.Again() // the server has another image now, or can't resume
		}
	}
	if b.same == "" {
		return why.Again()
	}
	return why
}

// Close implements io.Closer.
func (b *body) Close() error {
	b.watch.cancel()
	return b.body.Close()
}

// forNow reports whether a status means that the server is temporarily unavailable.
func forNow(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// redactURL returns a URL for people, without its possibly secret parts: user and query.
func redactURL(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return shown.String()
}
