package registry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"vmop/diskimage"
	"vmop/internal/outbound"
)

// Access describes how to reach a registry. The zero value uses no credentials and only https.
type Access struct {
	// DockerConfig is the contents of a .dockerconfigjson, as in a Secret for pulling images, or of a .dockercfg;
	// empty means no credentials.
	DockerConfig []byte
	// Keychain provides the credentials if it isn't nil, for example the credentials of the user who runs the program.
	Keychain authn.Keychain
	// CABundle lists authorities to trust in addition to the system's, as PEM.
	CABundle []byte
	// Insecure permits http for all hosts; otherwise http is only for this computer.
	Insecure bool
	// Most is the maximum size of each answer of a registry, in bytes; 0 means unlimited.
	Most int64
	// UserAgent is the name of the program.
	UserAgent string
}

// Parse parses REGISTRY/REPOSITORY:TAG, or REGISTRY/REPOSITORY@sha256:…. The errors of all methods are of the type
// *diskimage.Error.
func (a Access) Parse(reference string) (name.Reference, error) {
	var options []name.Option
	if a.Insecure {
		options = append(options, name.Insecure)
	}
	ref, err := name.ParseReference(reference, options...)
	if err != nil {
		return nil, diskimage.Refuse(diskimage.InvalidSource, "%w", err)
	}
	return ref, nil
}

// Options returns the options for requests about a repository. Failed requests aren't repeated.
func (a Access) Options(ctx context.Context, n diskimage.Network, of name.Repository) ([]remote.Option, error) {
	auth, err := credentialsFor(a.DockerConfig, of)
	if err == nil && a.Keychain != nil {
		if auth, err = authn.Resolve(ctx, a.Keychain, of); err != nil {
			err = diskimage.Refuse(diskimage.InvalidSource, "credentials for %s: %w", of.RegistryStr(), err)
		}
	}
	if err != nil {
		return nil, err
	}
	rt, err := n.Transport(a.CABundle)
	if err != nil {
		return nil, err
	}
	return []remote.Option{
		remote.WithContext(ctx), remote.WithTransport(&guard{rt, a.Insecure, a.Most}), remote.WithAuth(auth),
		remote.WithUserAgent(a.UserAgent), remote.WithRetryStatusCodes(),
		remote.WithRetryPredicate(func(error) bool { return false }),
	}, nil
}

// guard restricts requests to what Access permits. go-containerregistry itself tries http for every registry that it
// considers local, including all private addresses.
type guard struct {
	base     http.RoundTripper
	insecure bool
	most     int64
}

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if host := req.URL.Hostname(); req.URL.Scheme != "https" && !g.insecure && !outbound.IsThisComputer(host) {
		return nil, diskimage.Refuse(diskimage.SourceRefused,
			"%s is not reachable over https, and http is not permitted", host)
	}
	resp, err := g.base.RoundTrip(req)
	if err == nil && g.most > 0 {
		resp.Body = &bounded{resp.Body, g.most, g.most, req.URL.Host}
	}
	return resp, err
}

// bounded is a body that returns an error beyond its maximum size.
type bounded struct {
	io.ReadCloser
	left, most int64
	host       string
}

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return 0, diskimage.Refuse(diskimage.TransferTooLarge, "%s sends more than %d bytes", b.host, b.most)
	}
	return n, err
}

// Explain converts an error of a registry, or of its contents, to a *diskimage.Error. The message begins with the
// request. Errors of an ended context stay unchanged.
func Explain(what string, err error) error {
	var e *diskimage.Error
	var answer *transport.Error
	isOurs, answered := errors.As(err, &e), errors.As(err, &answer)
	switch {
	case answered && (!isOurs || e.Reason == diskimage.SourceRefused): // the server speaks http instead of TLS
		return ofAnswer(what, answer)
	case isOurs: // wrapped in an error that contains the URL, and its query may be secret
		return e
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case strings.Contains(err.Error(), "error verifying"): // go-containerregistry doesn't export such an error
		return diskimage.Refuse(diskimage.ChecksumMismatch, "%s: %w", what, err)
	}
	return diskimage.Refuse(diskimage.SourceRefused, "%s: %w", what, err)
}

func ofAnswer(what string, err *transport.Error) error {
	reason := diskimage.SourceRefused
	switch s := err.StatusCode; {
	case s == http.StatusNotFound:
		reason = diskimage.SourceNotFound
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		reason = diskimage.SourceUnauthorized
	case s >= http.StatusInternalServerError || s == http.StatusTooManyRequests:
		return diskimage.Refuse(diskimage.SourceUnreachable, "%s: the registry answers %d %s",
			what, s, http.StatusText(s)).Again()
	}
	return diskimage.Refuse(reason, "%s: the registry answers %d %s%s", what, err.StatusCode,
		http.StatusText(err.StatusCode), registryDetails(err))
}
