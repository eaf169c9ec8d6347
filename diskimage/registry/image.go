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

// Image is a source that is a container image, or an OCI artifact.
type Image struct {
	// Reference is REGISTRY/REPOSITORY:TAG, or @sha256:… instead of the tag.
	Reference string
	// DockerConfig is a file .dockerconfigjson, as in a Secret for pulling images, or
	// .dockercfg; empty for no credentials.
	DockerConfig []byte
	// CABundle has authorities that are trusted beside those of the system, as PEM.
	CABundle []byte
	// Insecure permits http.
	Insecure bool
}

// Open implements diskimage.Source. It reads layers until it has found the disk.
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
		return nil, i.explain(err)
	}
	image, err := imageOf(desc)
	if err != nil {
		return nil, i.explain(err)
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, i.explain(err)
	}
	slices.Reverse(layers) // what is in an upper one hides what is below
	w := &walk{ctx: ctx, source: i, layers: layers, alone: len(layers) == 1, hidden: map[string]bool{}}
	if err := w.next(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	_, byDigest := ref.(name.Digest)
	return &diskimage.Stream{
		ReadCloser: w, Total: w.size, Digest: desc.Digest.String(), Open: i.Insecure && !byDigest,
	}, nil
}

// imageOf returns the image of this platform. The only image of an index is taken whatever its
// platform: that of an artifact has none.
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

// explain returns an error of the registry, or of what it sends.
func (i Image) explain(err error) error { return Explain("container image "+i.Reference, err) }

// ofContent returns an error of what a layer has.
func (i Image) ofContent(err error) error {
	err = i.explain(err)
	if diskimage.ReasonOf(err) == diskimage.SourceRefused {
		err = diskimage.Refuse(diskimage.ImageCorrupt, "container image %s: a layer is corrupt: %w", i.Reference, err)
	}
	return err
}

// details returns what a registry says itself. The text of the error has the URL, whose query may
// be secret.
func details(err *transport.Error) string {
	var b strings.Builder
	for _, d := range err.Errors {
		b.WriteString(": " + d.Message)
	}
	return b.String()
}

// credentials returns those for a repository: of the longest key that is its beginning.
func credentials(config []byte, repository name.Repository) (authn.Authenticator, error) {
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
	if err != nil { // its text may have a part of the file
		return nil, diskimage.Refuse(diskimage.InvalidSource,
			`credentials: want a .dockerconfigjson: {"auths": {"REGISTRY": …}}`)
	}
	var best string
	found := authn.Anonymous
	for key, auth := range file.Auths {
		if at := place(key); strings.HasPrefix(repository.Name()+"/", at+"/") && len(at) >= len(best) {
			best, found = at, authn.FromConfig(auth)
		}
	}
	return found, nil
}

// place returns the registry, and maybe the beginning of the repository, of a key.
func place(key string) string {
	key = strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://")
	key = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(key, "/"), "/v1"), "/v2")
	if key == "docker.io" || strings.HasPrefix(key, "docker.io/") {
		key = "index." + key
	}
	return key
}
