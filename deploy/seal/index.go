package main

import (
	"archive/tar"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// joinImages writes an index for each program with images of several architectures, as an OCI archive without the
// images. It returns the indexes, by name. The same images always produce the same index, so its digest can be signed
// before a registry has it.
func (b build) joinImages(dir string, images []image) (indexes []image, err error) {
	byName := map[string][]image{}
	for _, i := range images {
		byName[i.name] = append(byName[i.name], i)
	}
	for name, of := range byName {
		if len(of) < 2 {
			continue
		}
		slices.SortFunc(of, func(x, y image) int { return cmp.Compare(x.architecture, y.architecture) })
		index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
		for _, i := range of {
			d, err := b.describeArchive(dir, i)
			if err != nil {
				return nil, err
			}
			index.Manifests = append(index.Manifests, d)
		}
		a := b.newArchive()
		top := a.addJSON(types.OCIImageIndex, index)
		text, err := a.closeWith(top)
		joined := image{name: name, digest: top.Digest.Hex}
		if err = errors.Join(err, writeFile(dir, b.imageFile(joined)+indexFile, text)); err != nil {
			return nil, err
		}
		indexes = append(indexes, joined)
	}
	slices.SortFunc(indexes, func(x, y image) int { return cmp.Compare(x.name, y.name) })
	return indexes, nil
}

// describeArchive returns the entry for an image in an index, from the image's archive in a folder.
func (b build) describeArchive(dir string, i image) (d v1.Descriptor, err error) {
	name := b.imageFile(i) + ".tar"
	content, err := readArchived(filepath.Join(dir, name), "index.json")
	if err != nil {
		return d, fmt.Errorf("join the images of %s: read %s: %w", i.name, name, err)
	}
	var index v1.IndexManifest
	if err := json.Unmarshal(content, &index); err != nil || len(index.Manifests) != 1 {
		return d, fmt.Errorf("join the images of %s: %s must contain one image", i.name, name)
	}
	d = index.Manifests[0]
	if d.Digest.Hex != i.digest {
		return d, fmt.Errorf("join the images of %s: %s contains sha256:%s, but its list of components is about sha256:%s; "+
			"build the release again", i.name, name, d.Digest.Hex, i.digest)
	}
	return v1.Descriptor{
		MediaType: d.MediaType, Size: d.Size, Digest: d.Digest,
		Platform: &v1.Platform{OS: "linux", Architecture: i.architecture},
	}, nil
}

// readArchived reads a small file in an archive.
func readArchived(archive, name string) ([]byte, error) {
	f, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for in := tar.NewReader(f); ; {
		header, err := in.Next()
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", name, err)
		}
		if header.Name == name {
			return io.ReadAll(io.LimitReader(in, 1<<20))
		}
	}
}

// ociArchive is an OCI archive that is being written.
type ociArchive struct {
	b    build
	text bytes.Buffer
	w    *tar.Writer
	err  error // the first error
}

func (b build) newArchive() *ociArchive {
	a := &ociArchive{b: b}
	a.w = tar.NewWriter(&a.text)
	return a
}

// addBlob adds a blob and returns its entry for a manifest.
func (a *ociArchive) addBlob(kind types.MediaType, content []byte) (d v1.Descriptor) {
	d.MediaType = kind
	d.Digest, d.Size, _ = v1.SHA256(bytes.NewReader(content)) // reading from memory does not fail
	a.addFile("blobs/sha256/"+d.Digest.Hex, content)
	return d
}

func (a *ociArchive) addJSON(kind types.MediaType, value any) v1.Descriptor {
	content, err := json.Marshal(value)
	a.err = cmp.Or(a.err, err)
	return a.addBlob(kind, content)
}

// closeWith returns the archive of the object with this entry.
func (a *ociArchive) closeWith(top v1.Descriptor) ([]byte, error) {
	index, err := json.Marshal(v1.IndexManifest{
		SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: []v1.Descriptor{top},
	})
	a.addFile("index.json", index)
	a.addFile("oci-layout", []byte(`{"imageLayoutVersion": "1.0.0"}`))
	return a.text.Bytes(), cmp.Or(a.err, err, a.w.Close())
}

func (a *ociArchive) addFile(name string, content []byte) {
	err := a.w.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644, ModTime: a.b.buildTime(),
	})
	if err == nil {
		_, err = a.w.Write(content)
	}
	a.err = cmp.Or(a.err, err)
}
