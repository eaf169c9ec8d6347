package artifact

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"vmop/diskimage"
	"vmop/diskimage/registry"
	"vmop/internal/outbound"
)

// Time limits for a registry: for a whole call, and for the time without any data.
const (
	patience = 2 * time.Minute
	stall    = 20 * time.Second
)

// Registry contains the settings for access to registries.
type Registry struct {
	// DockerConfig and Keychain are credentials: a .dockerconfigjson, or a user's keychain.
	DockerConfig []byte
	Keychain     authn.Keychain
	// CABundle contains additional trusted authorities, as PEM.
	CABundle []byte
	// PlainHTTP allows http with other computers.
	PlainHTTP bool
	// Reach determines which addresses may be reached. nil means outbound.Named, for a registry that the user of
	// this computer has named.
	Reach *outbound.Rule
	// Patience is the time limit of a call; 0 means two minutes.
	Patience time.Duration
}

// Fetched is an artifact from a registry.
type Fetched struct {
	Content
	// Digest is the digest of the manifest: "sha256:…".
	Digest string
}

// Fetch reads the VM type with a reference, REGISTRY/REPOSITORY:TAG, or with @sha256:… instead of the tag. The
// default tag is latest. Errors have the type *diskimage.Error: they contain a reason, and no secrets.
func (r Registry) Fetch(ctx context.Context, reference string) (*Fetched, error) {
	f, err := boundCall(ctx, r, func(ctx context.Context) (*Fetched, error) { return r.fetchArtifact(ctx, reference) })
	return f, explainError(reference, err)
}

func (r Registry) fetchArtifact(ctx context.Context, reference string) (*Fetched, error) {
	ref, options, err := r.openReference(ctx, reference)
	if err != nil {
		return nil, err
	}
	puller, err := remote.NewPuller(options...)
	if err != nil {
		return nil, err
	}
	desc, err := puller.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	m, blob, err := layerOf(desc.Manifest, desc.MediaType)
	if err != nil {
		return nil, unfitError(err)
	}
	layer, err := puller.Layer(ctx, ref.Context().Digest(blob.Digest.String()))
	if err != nil {
		return nil, err
	}
	from, err := layer.Compressed() // verifies the digest
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(from, mostLayer+1))
	if err = errors.Join(err, from.Close()); err != nil {
		return nil, err
	}
	if int64(len(data)) != blob.Size {
		return nil, unfitError(fmt.Errorf("its layer does not have the %d bytes that the manifest states", blob.Size))
	}
	c, err := contentOf(m, data)
	if err != nil {
		return nil, unfitError(err)
	}
	return &Fetched{*c, desc.Digest.String()}, nil
}

// Push writes a type to a repository, and returns the reference with its digest. Its errors have the same type as
// the errors of Fetch.
func (r Registry) Push(ctx context.Context, reference string, c *Content) (string, error) {
	pushed, err := boundCall(ctx, r, func(ctx context.Context) (string,
		error,
	) {
		return r.pushArtifact(ctx, reference, c)
	})
	return pushed, explainError(reference, err)
}

func (r Registry) pushArtifact(ctx context.Context, reference string, c *Content) (string, error) {
	image, err := c.Image()
	if err != nil {
		return "", unfitError(err)
	}
	digest, err := image.Digest()
	if err != nil {
		return "", err
	}
	ref, options, err := r.openReference(ctx, reference)
	if err != nil {
		return "", err
	}
	if _, ok := ref.(name.Digest); ok && ref.Identifier() != digest.String() {
		return "", unfitError(fmt.Errorf("the type has the digest %s; push it with a tag", digest))
	}
	if err := remote.Write(ref, image, options...); err != nil {
		return "", err
	}
	return ref.Context().Digest(digest.String()).String(), nil
}

// CheckReference returns an error of type *diskimage.Error for an invalid reference.
func CheckReference(reference string) error {
	_, err := registry.Access{}.Parse(reference)
	return explainError(reference, err)
}

// Pinned returns a reference with a digest instead of its tag.
func Pinned(reference, digest string) (string, error) {
	ref, err := registry.Access{}.Parse(reference)
	if err != nil {
		return "", explainError(reference, err)
	}
	return ref.Context().Digest(digest).String(), nil
}

// openReference parses a reference and returns it with the options for requests.
func (r Registry) openReference(ctx context.Context, reference string) (name.Reference, []remote.Option, error) {
	access := registry.Access{
		DockerConfig: r.DockerConfig, Keychain: r.Keychain, CABundle: r.CABundle, Insecure: r.PlainHTTP,
		Most: mostLayer, UserAgent: "vmtype",
	}
	ref, err := access.Parse(reference)
	if err != nil {
		return nil, nil, err
	}
	reach := outbound.Named(ref.Context().RegistryStr())
	if r.Reach != nil {
		reach = *r.Reach
	}
	network := diskimage.Network{Stall: stall, Backoff: time.Second, Reach: reach}
	options, err := access.Options(ctx, network, ref.Context())
	return ref, options, err
}

// boundCall limits the time of a call.
func boundCall[T any](ctx context.Context, r Registry, do func(context.Context) (T, error)) (T, error) {
	most := cmp.Or(r.Patience, patience)
	bounded, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	result, err := do(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = diskimage.Refuse(diskimage.TimedOut, "the registry has taken more than %s", most)
	}
	return result, err
}

// unfitError returns an error about the content of an artifact.
func unfitError(err error) error { return diskimage.Refuse(diskimage.ImageCorrupt, "%w", err) }

// explainError adds the reference to an error.
func explainError(reference string, err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	var e *diskimage.Error
	what := "VM type " + reference
	err = registry.Explain(what, err)
	if errors.As(err, &e) && !strings.HasPrefix(e.Message, what) {
		return diskimage.Refuse(e.Reason, "%s: %w", what, e)
	}
	return err
}
