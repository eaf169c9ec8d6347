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

// refNameKey is what the index of a layout calls an image.
const refNameKey = "org.opencontainers.image.ref.name"

// WriteLayout writes a type into a folder that is an OCI image layout, for programs that carry
// images to registries, and returns the digest. The folder is made if it is not there; what it
// has of the same reference is replaced.
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

// openLayout makes an empty layout, unless there is one.
func openLayout(folder string) (layout.Path, error) {
	if _, err := os.Stat(filepath.Join(folder, "index.json")); err == nil {
		return layout.FromPath(folder)
	}
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if len(entries) > 0 {
		return "", errors.New("the folder has other files; name a new one")
	}
	return layout.Write(folder, empty.Index)
}
