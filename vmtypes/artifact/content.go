package artifact

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"vmop/vmtypes"
	"vmop/vmtypes/signature"
)

// Type is the artifact type of VM types.
const Type = "application/vnd.vmop.vmtype.v1"

// Values and keys in the manifests.
const (
	emptyType = "application/vnd.oci.empty.v1+json"
	emptyJSON = "{}"

	titleKey       = signature.TitleKey
	descriptionKey = "org.opencontainers.image.description"
	// apiVersionKey is the key for the type's version of the language of VM types.
	apiVersionKey = "org.jdrupes.vmop.vmtype.api-version"
)

// The limits of an artifact: number of files, size of a file other than a module, and total size, in bytes. The
// maximum size of a module is vmtypes.MaxModule.
const (
	MaxFiles = 200
	MaxFile  = 1 << 20
	maxSize  = 4 << 20
)

// samples is the only subfolder. It may contain samples.
const samples = "testdata"

// Content is the content of an artifact with a VM type.
type Content struct {
	// Name is the name of the type in a configuration. Its module is Name + ".star".
	Name string
	// Description is a sentence, or "".
	Description string
	// APIVersion is the version of the language of VM types, from 1 on.
	APIVersion int
	// Files maps names to texts: "asset.star", "testdata/asset.yaml".
	Files map[string]string
	// Annotations are the other annotations of the manifest.
	Annotations map[string]string
}

// Modules returns the files that can be loaded to run a VM, without tests and samples.
func (c *Content) Modules() map[string]string {
	modules := map[string]string{}
	for name, text := range c.Files {
		if strings.HasSuffix(name, ".star") && !strings.HasSuffix(name, "_test.star") {
			modules[name] = text
		}
	}
	return modules
}

// Image returns the artifact. The same content always has the same digest. Image fails if the content is invalid.
func (c *Content) Image() (v1.Image, error) {
	if err := c.checkContent(); err != nil {
		return nil, err
	}
	data, err := packFiles(c.Files)
	if err != nil {
		return nil, err
	}
	layer := static.NewLayer(data, types.OCIUncompressedLayer)
	config := static.NewLayer([]byte(emptyJSON), emptyType)
	manifest := v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, ArtifactType: Type,
		Annotations: map[string]string{},
	}
	maps.Copy(manifest.Annotations, c.Annotations)
	manifest.Annotations[titleKey] = c.Name
	manifest.Annotations[apiVersionKey] = strconv.Itoa(c.APIVersion)
	manifest.Annotations[signature.ModulesKey] = signature.Checksums(c.Modules())
	if c.Description != "" {
		manifest.Annotations[descriptionKey] = c.Description
	}
	for _, blob := range []v1.Layer{config, layer} {
		d, err := partial.Descriptor(blob)
		if err != nil {
			return nil, fmt.Errorf("describe a blob of the artifact: %w", err)
		}
		manifest.Layers = append(manifest.Layers, *d)
	}
	manifest.Config, manifest.Layers = manifest.Layers[0], manifest.Layers[1:]
	text, err := json.Marshal(manifest) // sorts the annotations
	if err != nil {
		return nil, fmt.Errorf("write the manifest of the artifact: %w", err)
	}
	return partial.CompressedToImage(&image{text, layer})
}

// image implements partial.CompressedImageCore.
type image struct {
	manifest []byte
	layer    v1.Layer
}

// RawManifest implements partial.WithRawManifest.
func (i *image) RawManifest() ([]byte, error) { return i.manifest, nil }

// RawConfigFile implements partial.WithRawConfigFile.
func (i *image) RawConfigFile() ([]byte, error) { return []byte(emptyJSON), nil }

// MediaType implements partial.CompressedImageCore.
func (i *image) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// LayerByDigest implements partial.CompressedImageCore.
func (i *image) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) { return i.layer, nil }

// checkContent returns an error if the content is invalid.
func (c *Content) checkContent() error {
	size := 0
	for _, name := range slices.Sorted(maps.Keys(c.Files)) {
		if err := checkFile(name, c.Files[name]); err != nil {
			return err
		}
		size += len(c.Files[name])
	}
	switch _, there := c.Files[c.Name+".star"]; {
	case vmtypes.IsStock(c.Name):
		return fmt.Errorf("%s is the name of a stock type, which would be used instead", c.Name)
	case !there || strings.HasSuffix(c.Name, "_test"):
		return fmt.Errorf("there is no module %s.star of the type", c.Name)
	case len(c.Files) > MaxFiles || size > maxSize:
		return fmt.Errorf("there are %d files with %d bytes; the maximum is %d files with %d bytes",
			len(c.Files), size, MaxFiles, maxSize)
	case c.APIVersion < 1:
		return fmt.Errorf("the version of the language is %d, but must be at least 1", c.APIVersion)
	}
	return nil
}

// checkFile returns an error if a file is invalid in a type.
func checkFile(name, text string) error {
	if err := CheckName(name); err != nil {
		return err
	}
	most := MaxFile
	if strings.HasSuffix(name, ".star") {
		most = vmtypes.MaxModule
	}
	switch {
	case len(text) > most:
		return fmt.Errorf("file %s has %d bytes; the maximum is %d", name, len(text), most)
	case !utf8.ValidString(text):
		return fmt.Errorf("file %s is not text in UTF-8", name)
	}
	return nil
}

// CheckName returns an error if a name is invalid for a file of a type.
func CheckName(name string) error {
	if why := badName(name); why != "" {
		return fmt.Errorf("file %q: %s", name, why)
	}
	return nil
}

// badName returns the reason why a name is invalid for a file, or "".
func badName(name string) string {
	folder, base := path.Split(name)
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
	switch ending := path.Ext(base); {
	case folder != "" && folder != samples+"/":
		return "files must be next to the type, or in " + samples
	case strings.Trim(base, letters) != "" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "-"):
		return "use letters, digits, -, _ and .; begin with a letter, a digit or _"
	case len(name) > 100:
		return "the name is longer than 100 bytes"
	case ending == ".star" && folder != "":
		return "modules are not in " + samples
	case base == ending || !slices.Contains([]string{".star", ".txtar", ".yaml"}, ending):
		return "must be a module (.star) or a sample (.txtar, .yaml)"
	}
	return ""
}

// contentOf returns the content of a manifest and its layer.
func contentOf(m *v1.Manifest, layer []byte) (*Content, error) {
	c := &Content{
		Name: m.Annotations[titleKey], Description: m.Annotations[descriptionKey], Annotations: map[string]string{},
	}
	maps.Copy(c.Annotations, m.Annotations)
	for _, key := range []string{titleKey, descriptionKey, apiVersionKey, signature.ModulesKey} {
		delete(c.Annotations, key)
	}
	version := m.Annotations[apiVersionKey]
	var err error
	if c.APIVersion, err = strconv.Atoi(version); err != nil {
		return nil, fmt.Errorf("annotation %s must be a number, not %q", apiVersionKey, version)
	}
	if c.APIVersion > vmtypes.APIVersion {
		return nil, fmt.Errorf("the type is for version %d of the language of VM types, and this program knows version %d",
			c.APIVersion, vmtypes.APIVersion)
	}
	if c.Files, err = unpackFiles(layer); err != nil {
		return nil, err
	}
	return c, c.checkContent()
}

// layerOf returns a manifest and its layer, or an error for anything other than the manifest of a VM type.
func layerOf(text []byte, kind types.MediaType) (m *v1.Manifest, layer *v1.Descriptor, err error) {
	if kind != types.OCIManifestSchema1 {
		return nil, nil, fmt.Errorf("it is not a VM type: its media type is %q", kind)
	}
	if err := json.Unmarshal(text, &m); err != nil || m == nil {
		return nil, nil, errors.Join(errors.New("its manifest can't be read"), err)
	}
	switch {
	case m.MediaType != "" && m.MediaType != types.OCIManifestSchema1:
		return nil, nil, fmt.Errorf("it is not a VM type: its media type is %q", m.MediaType)
	case m.ArtifactType != Type:
		return nil, nil, fmt.Errorf("it is not a VM type: its artifactType is %q, but must be %q", m.ArtifactType, Type)
	case len(m.Layers) != 1 || m.Layers[0].MediaType != types.OCIUncompressedLayer:
		return nil, nil, fmt.Errorf("must have one layer, of type %s", types.OCIUncompressedLayer)
	case m.Layers[0].Size < 0 || m.Layers[0].Size > mostLayer:
		return nil, nil, fmt.Errorf("its layer has %d bytes; the maximum is %d", m.Layers[0].Size, mostLayer)
	}
	return m, &m.Layers[0], nil
}
