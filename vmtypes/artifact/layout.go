package artifact

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"

	"vmop/diskimage/registry"
	"vmop/vmtypes/signature"
)

// refNameKey is the annotation with the reference of an image in the index of a layout.
const refNameKey = "org.opencontainers.image.ref.name"

// WriteLayout writes a type to a folder in the OCI image layout, for programs that copy images to registries, and
// returns the reference with the digest. It creates a missing folder, and replaces an image with the same reference. A
// signer adds a signature, as another image.
func (c *Content) WriteLayout(folder, reference string, by *signature.Signer) (pinned string, err error) {
	image, err := c.Image()
	if err != nil {
		return "", err
	}
	hash, err := image.Digest()
	if err != nil {
		return "", fmt.Errorf("digest of the artifact: %w", err)
	}
	ref, err := registry.Access{}.Parse(reference)
	if err != nil {
		return "", explainError(reference, err)
	}
	digest := ref.Context().Digest(hash.String())
	images := map[string]v1.Image{reference: image}
	if by != nil {
		if images[signatureTag(digest).String()], err = withSignature(by, digest, noSignatures); err != nil {
			return "", err
		}
	}
	into, err := openLayout(folder)
	for reference, image := range images {
		if err == nil {
			name := layout.WithAnnotations(map[string]string{refNameKey: reference})
			err = into.ReplaceImage(image, match.Name(reference), name)
		}
	}
	if err != nil {
		return "", fmt.Errorf("OCI layout %s: %w", folder, err)
	}
	return digest.String(), nil
}

// openLayout opens a layout, or creates an empty layout.
func openLayout(folder string) (layout.Path, error) {
	if _, err := os.Stat(filepath.Join(folder, "index.json")); err == nil {
		return layout.FromPath(folder)
	}
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if len(entries) > 0 {
		return "", errors.New("the folder contains other files; name a new folder")
	}
	return layout.Write(folder, empty.Index)
}
