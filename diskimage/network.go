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

	"vmop/outbound"
)

// Network says how sources use the network.
type Network struct {
	Stall   time.Duration // how long a server may send nothing
	Retries int           // how often a transfer is resumed that doesn't get on
	Backoff time.Duration // the first pause before that; it doubles
	Reach   outbound.Rule // which addresses may be reached
}

// Pause waits before the attempt n, counted from 1, unless the context ends.
func (n Network) Pause(ctx context.Context, attempt int) {
	timer := time.NewTimer(n.Backoff << min(attempt-1, 5))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Transport returns what makes requests: it trusts the system's authorities and those of a
// bundle (PEM), follows no redirect from https to http, ends a connection on which nothing
// comes any more, and resumes the transfer of a body that broke, where the server can and says
// that it is the same. Its errors are of the type *Error.
func (n Network) Transport(bundle []byte) (http.RoundTripper, error) {
	base := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		DisableCompression:     true, // what is transferred is what the checksum is of
		MaxResponseHeaderBytes: 256 << 10,
		IdleConnTimeout:        n.Stall,
	}
	if len(bundle) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			return nil, Refuse(Internal, "read the system's certificates: %w", err)
		}
		if !pool.AppendCertsFromPEM(bundle) {
			return nil, Refuse(InvalidSource, "the CA bundle has no certificate; want PEM, -----BEGIN CERTIFICATE-----")
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
			Shown(from.Request.URL), Shown(req.URL))
	}
	resp, w, err := t.send(req)
	if err != nil {
		return nil, err
	}
	b := &body{transport: t, req: req, body: resp.Body, watch: w, size: resp.ContentLength}
	if req.Method == http.MethodGet && resp.StatusCode == http.StatusOK && resp.ContentLength > 0 {
		b.same = validator(resp.Header)
	}
	resp.Body = b
	return resp, nil
}

// send makes one request. The watch guards the body, too, and ends with its close.
func (t *transport) send(req *http.Request) (*http.Response, *watch, error) {
	ctx, cancel := context.WithCancel(req.Context())
	w := &watch{after: t.Stall, cancel: cancel}
	w.begin()
	resp, err := t.base.RoundTrip(req.WithContext(ctx))
	stalled := w.end()
	if err == nil && stalled {
		resp.Body.Close()
	}
	if err == nil && !stalled {
		return resp, w, nil
	}
	cancel()
	return nil, nil, t.explain(req, err, stalled)
}

// explain returns an error of a request.
func (t *transport) explain(req *http.Request, err error, stalled bool) error {
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

// A watch ends a connection that is waited for too long. Only waiting counts: a target may be
// slow.
type watch struct {
	after  time.Duration
	cancel context.CancelFunc
	timer  *time.Timer
}

func (w *watch) begin() {
	if w.timer == nil {
		w.timer = time.AfterFunc(w.after, w.cancel)
		return
	}
	w.timer.Reset(w.after)
}

// end reports whether it was too long.
func (w *watch) end() (stalled bool) { return !w.timer.Stop() }

// validator returns what If-Range needs to know a representation again (RFC 9110, 13.1.5):
// "" if there is nothing.
func validator(h http.Header) string {
	if h.Get("Content-Encoding") != "" || strings.EqualFold(h.Get("Accept-Ranges"), "none") {
		return ""
	}
	if tag := h.Get("Etag"); strings.HasPrefix(tag, `"`) {
		return tag // a weak one promises no equal bytes
	}
	return h.Get("Last-Modified")
}

// enough is how many bytes after a resumption show that the transfer gets on.
const enough = 1 << 20

// body is that of a response, resumed when it breaks.
type body struct {
	*transport
	req      *http.Request
	body     io.ReadCloser
	watch    *watch
	size     int64 // of the whole; -1: not known
	same     string
	at       int64 // of the whole
	resumed  int64 // at which place
	failures int   // since the transfer got on
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	for {
		b.watch.begin()
		n, err := b.body.Read(p)
		stalled := b.watch.end()
		if b.at += int64(n); b.at-b.resumed > enough {
			b.failures = 0
		}
		if n > 0 && !errors.Is(err, io.EOF) {
			return n, nil // an error comes again
		}
		if err == nil || errors.Is(err, io.EOF) {
			return n, err
		}
		if err := b.resume(err, stalled); err != nil {
			return 0, err
		}
	}
}

// resume asks for the rest.
func (b *body) resume(cause error, stalled bool) error {
	ctx, server := b.req.Context(), b.req.URL.Scheme+"://"+b.req.URL.Host
	why := Refuse(TransferBroken, "the connection to %s broke after %d bytes: %w", server, b.at, cause)
	if stalled {
		why = Refuse(SourceStalled, "%s has sent nothing for %s, after %d bytes", server, b.Stall, b.at)
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
		resp, w, err := b.send(req)
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
			return why.Again() // it has another image now, or can't resume
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

// forNow reports whether a status says that the server can't answer now.
func forNow(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// Shown returns a URL for people, without what may be secret: user and query.
func Shown(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return shown.String()
}
