package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"vmop/diskimage"
)

// Image is a source: a container image or an OCI artifact.
type Image struct {
	// Reference is REGISTRY/REPOSITORY:TAG, or @sha256:… instead of the tag.
	Reference string
	// DockerConfig is the contents of a .dockerconfigjson, as in a Secret for pulling images, or of a .dockercfg;
	// empty means no credentials.
	DockerConfig []byte
	// CABundle lists authorities to trust in addition to the system's, as PEM.
	CABundle []byte
	// Insecure permits http.
	Insecure bool
}

// Open implements diskimage.Source. It reads layers until it finds the disk.
func (i Image) Open(ctx context.Context, n diskimage.Network) (*diskimage.Stream, error) {
	access := Access{DockerConfig: i.DockerConfig, CABundle: i.CABundle, Insecure: i.Insecure, UserAgent: "vmimport"}
	ref, err := access.Parse(i.Reference)
	if err != nil {
		return nil, diskimage.Refuse(diskimage.InvalidSource, "container image: %w", err)
	}
	options, err := access.Options(ctx, n, ref.Context())
	if err != nil {
		return nil, err
	}
	platform := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	desc, err := remote.Get(ref, append(options, remote.WithPlatform(platform))...)
	if err != nil {
		return nil, i.explainError(err)
	}
	image, err := imageOf(desc)
	if err != nil {
		return nil, i.explainError(err)
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, i.explainError(err)
	}
	slices.Reverse(layers) // files in an upper layer hide files below
	w := &walk{ctx: ctx, source: i, layers: layers, alone: len(layers) == 1, hidden: map[string]bool{}}
	if err := w.nextDisk(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	_, byDigest := ref.(name.Digest)
	return &diskimage.Stream{
		ReadCloser: w, Total: w.size, Digest: desc.Digest.String(), Open: i.Insecure && !byDigest,
	}, nil
}

// imageOf returns the image for this platform. If the index has a single image, its platform is ignored, because an
// artifact has no platform.
func imageOf(desc *remote.Descriptor) (v1.Image, error) {
	if desc.MediaType.IsIndex() {
		index, err := desc.ImageIndex()
		if err != nil {
			return nil, err
		}
		manifest, err := index.IndexManifest()
		if err != nil {
			return nil, err
		}
		if len(manifest.Manifests) == 1 {
			return index.Image(manifest.Manifests[0].Digest)
		}
	}
	return desc.Image()
}

// explainError converts an error of the registry or of its contents.
func (i Image) explainError(err error) error { return Explain("container image "+i.Reference, err) }

// ofContent converts an error in the contents of a layer.
func (i Image) ofContent(err error) error {
	err = i.explainError(err)
	if diskimage.ReasonOf(err) == diskimage.SourceRefused {
		err = diskimage.Refuse(diskimage.ImageCorrupt, "container image %s: a layer is corrupt: %w", i.Reference, err)
	}
	return err
}

// registryDetails returns the registry's own messages. It leaves out the text of the error, because that contains the
// URL, and its query may be secret.
func registryDetails(err *transport.Error) string {
	var b strings.Builder
	for _, d := range err.Errors {
		b.WriteString(": " + d.Message)
	}
	return b.String()
}

// credentialsFor returns the credentials for a repository: the entry with the longest key that is a prefix of its name.
func credentialsFor(config []byte, repository name.Repository) (authn.Authenticator, error) {
	if len(bytes.TrimSpace(config)) == 0 {
		return authn.Anonymous, nil
	}
	var file struct {
		Auths map[string]authn.AuthConfig `json:"auths"`
	}
	err := json.Unmarshal(config, &file)
	if err == nil && file.Auths == nil {
		err = json.Unmarshal(config, &file.Auths) // .dockercfg
	}
	if err != nil { // the error's text may contain a part of the file
		return nil, diskimage.Refuse(diskimage.InvalidSource,
			`credentials: must be a .dockerconfigjson: {"auths": {"REGISTRY": …}}`)
	}
	var best string
	found := authn.Anonymous
	for key, auth := range file.Auths {
		if at := splitKey(key); strings.HasPrefix(repository.Name()+"/", at+"/") && len(at) >= len(best) {
			best, found = at, authn.FromConfig(auth)
		}
	}
	return found, nil
}

// splitKey returns the registry of a key, and the beginning of the repository if the key has one.
func splitKey(key string) string {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	key = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(key, "/"), "/v1"), "/v2")
	if key == "docker.io" || strings.HasPrefix(key, "docker.io/") {
		key = "index." + key
	}
	return key
}
