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
	"vmop/vmtypes/artifact/versions"
	"vmop/vmtypes/signature"
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
	// Keys are trusted keys: one of them must have signed what Fetch reads. Without keys, signatures are ignored.
	Keys []signature.Key
	// Signer signs what Push writes; nil writes no signature.
	Signer *signature.Signer
}

// Fetched is an artifact from a registry.
type Fetched struct {
	Content
	// Digest is the digest of the manifest: "sha256:…".
	Digest string
	// Tag is the tag that a range of versions has selected; "" if the reference contains no range.
	Tag string
	// Proof shows that the key SignedBy has signed the artifact; nil without Registry.Keys.
	Proof    *signature.Proof
	SignedBy signature.Key
}

// Fetch reads the VM type with a reference, REGISTRY/REPOSITORY:TAG, or with @sha256:… or a range of versions such as
// ^1.2 instead of the tag. The default tag is latest. If the registry has keys, one of them must have signed the
// artifact. Errors have the type *diskimage.Error: they contain a reason, and no secrets.
func (r Registry) Fetch(ctx context.Context, reference string) (*Fetched, error) {
	f, err := boundCall(ctx, r, func(ctx context.Context) (*Fetched, error) { return r.fetchArtifact(ctx, reference) })
	return f, explainError(reference, err)
}

func (r Registry) fetchArtifact(ctx context.Context, reference string) (*Fetched, error) {
	repository, within := versions.Cut(reference)
	ref, options, err := r.openReference(ctx, repository)
	if err != nil {
		return nil, err
	}
	puller, err := remote.NewPuller(options...)
	if err != nil {
		return nil, err
	}
	f := &Fetched{}
	if within != "" {
		if f.Tag, err = newestTag(ctx, puller, ref.Context(), within); err != nil {
			return nil, err
		}
		ref = ref.Context().Tag(f.Tag)
	}
	desc, err := puller.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	f.Digest = desc.Digest.String()
	if len(r.Keys) > 0 {
		if err := f.proveSigned(ctx, puller, ref.Context(), desc.Manifest, r.Keys); err != nil {
			return nil, err
		}
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
	if err == nil && f.Proof != nil {
		err = f.Proof.Covers(c.Name, c.Modules())
	}
	if err != nil {
		return nil, unfitError(err)
	}
	f.Content = *c
	return f, nil
}

// mostTags is the maximum number of tags of a repository.
const mostTags = 10_000

// newestTag returns the tag of a repository with the highest version in a range.
func newestTag(ctx context.Context, from *remote.Puller, of name.Repository, within string) (string, error) {
	if err := versions.Check(within); err != nil {
		return "", diskimage.Refuse(diskimage.InvalidSource, "%w", err)
	}
	pages, err := from.Lister(ctx, of)
	if err != nil {
		return "", err
	}
	var tags []string
	for pages.HasNext() && len(tags) <= mostTags {
		page, err := pages.Next(ctx)
		if err != nil {
			return "", err
		}
		tags = append(tags, page.Tags...)
	}
	if len(tags) > mostTags {
		return "", unfitError(fmt.Errorf("the repository has more than %d tags; name a tag", mostTags))
	}
	tag, err := versions.Newest(tags, within)
	if err != nil {
		return "", diskimage.Refuse(diskimage.SourceNotFound, "%w", err)
	}
	return tag, nil
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
	pushed := ref.Context().Digest(digest.String())
	if r.Signer != nil {
		if err := signArtifact(r.Signer, pushed, options); err != nil {
			return "", fmt.Errorf("sign %s: %w", pushed, err)
		}
	}
	return pushed.String(), nil
}

// CheckReference returns an error of type *diskimage.Error for an invalid reference to a single artifact.
func CheckReference(reference string) error {
	if _, within := versions.Cut(reference); within != "" {
		return diskimage.Refuse(diskimage.InvalidSource, "VM type %s: needs a tag, such as 1.2.0, not a range of versions",
			reference)
	}
	_, err := registry.Access{}.Parse(reference)
	return explainError(reference, err)
}

// Pinned returns a reference with a digest instead of its tag or range of versions.
func Pinned(reference, digest string) (string, error) {
	repository, _ := versions.Cut(reference)
	ref, err := registry.Access{}.Parse(repository)
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
