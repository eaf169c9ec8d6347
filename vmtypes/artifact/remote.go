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
	"vmop/outbound"
)

// How long a registry may take: for all that is read or written, and to send anything.
const (
	patience = 2 * time.Minute
	stall    = 20 * time.Second
)

// Registry is how registries are reached.
type Registry struct {
	// DockerConfig and Keychain are credentials: a .dockerconfigjson, or those of a user.
	DockerConfig []byte
	Keychain     authn.Keychain
	// CABundle has authorities that are trusted beside those of the system, as PEM.
	CABundle []byte
	// PlainHTTP permits http with other computers.
	PlainHTTP bool
	// Reach decides which addresses may be reached. nil is for a registry that the user of this computer has
	// named: outbound.Named.
	Reach *outbound.Rule
	// Patience is how long a call may take; 0 is two minutes.
	Patience time.Duration
}

// Fetched is an artifact that was read.
type Fetched struct {
	Content
	// Digest is that of the manifest: "sha256:…".
	Digest string
}

// Fetch reads the VM type that a reference names: REGISTRY/REPOSITORY:TAG, or @sha256:… in the
// place of the tag. Without either the tag is latest. Errors are of the type *diskimage.Error:
// they have a reason, and no secrets.
func (r Registry) Fetch(ctx context.Context, reference string) (*Fetched, error) {
	f, err := within(ctx, r, func(ctx context.Context) (*Fetched, error) { return r.fetch(ctx, reference) })
	return f, explain(reference, err)
}

func (r Registry) fetch(ctx context.Context, reference string) (*Fetched, error) {
	ref, options, err := r.open(ctx, reference)
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
		return nil, unfit(err)
	}
	layer, err := puller.Layer(ctx, ref.Context().Digest(blob.Digest.String()))
	if err != nil {
		return nil, err
	}
	from, err := layer.Compressed() // compares the digest
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(from, mostLayer+1))
	if err = errors.Join(err, from.Close()); err != nil {
		return nil, err
	}
	if int64(len(data)) != blob.Size {
		return nil, unfit(fmt.Errorf("its layer has not the %d bytes that the manifest says", blob.Size))
	}
	c, err := contentOf(m, data)
	if err != nil {
		return nil, unfit(err)
	}
	return &Fetched{*c, desc.Digest.String()}, nil
}

// Push writes a type to a repository, and returns the reference with its digest. Errors are as
// those of Fetch.
func (r Registry) Push(ctx context.Context, reference string, c *Content) (string, error) {
	pushed, err := within(ctx, r, func(ctx context.Context) (string, error) { return r.push(ctx, reference, c) })
	return pushed, explain(reference, err)
}

func (r Registry) push(ctx context.Context, reference string, c *Content) (string, error) {
	image, err := c.Image()
	if err != nil {
		return "", unfit(err)
	}
	digest, err := image.Digest()
	if err != nil {
		return "", err
	}
	ref, options, err := r.open(ctx, reference)
	if err != nil {
		return "", err
	}
	if _, ok := ref.(name.Digest); ok && ref.Identifier() != digest.String() {
		return "", unfit(fmt.Errorf("the type has the digest %s; push it with a tag", digest))
	}
	if err := remote.Write(ref, image, options...); err != nil {
		return "", err
	}
	return ref.Context().Digest(digest.String()).String(), nil
}

// CheckReference returns an error of the type *diskimage.Error for what can't be a reference.
func CheckReference(reference string) error {
	_, err := registry.Access{}.Parse(reference)
	return explain(reference, err)
}

// Pinned returns a reference with a digest in the place of its tag.
func Pinned(reference, digest string) (string, error) {
	ref, err := registry.Access{}.Parse(reference)
	if err != nil {
		return "", explain(reference, err)
	}
	return ref.Context().Digest(digest).String(), nil
}

// open returns what a reference means and the options of requests.
func (r Registry) open(ctx context.Context, reference string) (name.Reference, []remote.Option, error) {
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

// within bounds the time that a call takes.
func within[T any](ctx context.Context, r Registry, do func(context.Context) (T, error)) (T, error) {
	most := cmp.Or(r.Patience, patience)
	bounded, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	result, err := do(bounded)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = diskimage.Refuse(diskimage.TimedOut, "the registry has taken more than %s", most)
	}
	return result, err
}

// unfit is an error of what an artifact has.
func unfit(err error) error { return diskimage.Refuse(diskimage.ImageCorrupt, "%w", err) }

// explain returns an error with the reference.
func explain(reference string, err error) error {
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
