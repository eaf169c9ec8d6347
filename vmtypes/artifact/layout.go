package artifact

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
)

// refNameKey is the annotation with the reference of an image in the index of a layout.
const refNameKey = "org.opencontainers.image.ref.name"

// WriteLayout writes a type to a folder in the OCI image layout, for programs that copy images to registries, and
// returns the digest. It creates a missing folder, and replaces an image with the same reference.
func (c *Content) WriteLayout(folder, reference string) (digest string, err error) {
	image, err := c.Image()
	if err != nil {
		return "", err
	}
	hash, err := image.Digest()
	if err != nil {
		return "", fmt.Errorf("digest of the artifact: %w", err)
	}
	into, err := openLayout(folder)
	if err != nil {
		return "", fmt.Errorf("OCI layout %s: %w", folder, err)
	}
	name := layout.WithAnnotations(map[string]string{refNameKey: reference})
	if err := into.ReplaceImage(image, match.Name(reference), name); err != nil {
		return "", fmt.Errorf("OCI layout %s: %w", folder, err)
	}
	return hash.String(), nil
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
