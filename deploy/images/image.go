package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// image is an image that is ready to be written.
type image struct {
	v1.Image
	name    string // vmop/runner
	c       compiler
	created time.Time
	debs    int // number of packages in the image
	blobs   []blob
	index   []byte // index.json of the OCI archive
	list    []byte // manifest.json of Docker
}

// blob is a part of an image: a layer, its configuration, or its manifest.
type blob struct {
	digest v1.Hash
	size   int64
	open   func() (io.ReadCloser, error)
}

// assembleImage creates an image from layers, the lowest first.
func assembleImage(r recipe, files []string, c compiler, created time.Time, debs int) (*image, error) {
	i := &image{name: "vmop/" + r.name, c: c, created: created, debs: debs}
	made := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", i.name, err)
		}
		opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
		layer, err := tarball.LayerFromOpener(opener, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", i.name, err)
		}
		if made, err = mutate.AppendLayers(made, layer); err != nil {
			return nil, fmt.Errorf("image %s: %w", i.name, err)
		}
	}
	config, err := made.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", i.name, err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", c.architecture, v1.Time{Time: created}
	config.History = nil
	config.Config = v1.Config{
		Entrypoint: []string{"/" + r.programPath()}, Cmd: r.arguments, User: user,
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
		Labels: map[string]string{
			"org.opencontainers.image.title": i.name, "org.opencontainers.image.description": r.title,
			"org.opencontainers.image.version": c.version,
		},
	}
	if i.Image, err = mutate.ConfigFile(made, config); err != nil {
		return nil, fmt.Errorf("image %s: %w", i.name, err)
	}
	return i, i.describeImage()
}

// describeImage creates the lists of the archive's contents in OCI's format and in Docker's, because a program reads
// either of them.
func (i *image) describeImage() error {
	layers, err := i.Layers()
	if err != nil {
		return fmt.Errorf("image %s: %w", i.name, err)
	}
	var paths []string
	for _, l := range layers {
		digest, err := l.Digest()
		if err != nil {
			return fmt.Errorf("image %s: %w", i.name, err)
		}
		size, err := l.Size()
		if err != nil {
			return fmt.Errorf("image %s: %w", i.name, err)
		}
		i.blobs = append(i.blobs, blob{digest, size, l.Compressed})
		paths = append(paths, blobPath(digest))
	}
	for _, raw := range []func() ([]byte, error){i.RawConfigFile, i.RawManifest} {
		content, err := raw()
		if err != nil {
			return fmt.Errorf("image %s: %w", i.name, err)
		}
		digest, size, err := v1.SHA256(bytes.NewReader(content))
		if err != nil {
			return fmt.Errorf("image %s: %w", i.name, err)
		}
		i.blobs = append(i.blobs, blob{digest, size, func() (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(content)), nil
		}})
	}
	manifest, config := i.blobs[len(i.blobs)-1], i.blobs[len(i.blobs)-2]
	i.index, err = json.Marshal(v1.IndexManifest{
		SchemaVersion: 2, MediaType: types.OCIImageIndex,
		Manifests: []v1.Descriptor{{
			MediaType: types.OCIManifestSchema1, Size: manifest.size, Digest: manifest.digest,
			Platform: &v1.Platform{OS: "linux", Architecture: i.c.architecture},
			Annotations: map[string]string{
				"io.containerd.image.name":          "docker.io/" + i.name + ":" + i.c.version,
				"org.opencontainers.image.ref.name": i.c.version,
			},
		}},
	})
	if err != nil {
		return fmt.Errorf("image %s: %w", i.name, err)
	}
	i.list, err = json.Marshal([]map[string]any{{
		"Config":   blobPath(config.digest),
		"RepoTags": []string{i.name + ":" + i.c.version}, "Layers": paths,
	}})
	if err != nil {
		return fmt.Errorf("image %s: %w", i.name, err)
	}
	return nil
}

func blobPath(digest v1.Hash) string { return "blobs/" + digest.Algorithm + "/" + digest.Hex }

// writeArchive writes the archive. Concurrent readers still see the old file.
func (i *image) writeArchive(file string) error {
	out, err := os.Create(file + ".new")
	if err != nil {
		return fmt.Errorf("write an image: %w", err)
	}
	w := tar.NewWriter(out)
	err = i.writeTo(w)
	if err == nil {
		err = w.Close()
	}
	if closed := out.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}

func (i *image) writeTo(w *tar.Writer) error {
	texts := []struct {
		name    string
		content []byte
	}{{"oci-layout", []byte(`{"imageLayoutVersion": "1.0.0"}`)}, {"index.json", i.index}, {"manifest.json", i.list}}
	for _, t := range texts {
		if err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: t.name, Size: int64(len(t.content)),
			Mode: 0o644, ModTime: i.created,
		}); err != nil {
			return err
		}
		if _, err := w.Write(t.content); err != nil {
			return err
		}
	}
	for _, b := range i.blobs {
		if err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeReg, Name: blobPath(b.digest), Size: b.size, Mode: 0o644,
			ModTime: i.created,
		}); err != nil {
			return err
		}
		r, err := b.open()
		if err != nil {
			return err
		}
		_, err = io.Copy(w, r)
		_ = r.Close() // opened for reading only
		if err != nil {
			return err
		}
	}
	return nil
}

// summaryLine describes an image in one line.
func (i *image) summaryLine(file string) string {
	var size int64
	for _, b := range i.blobs {
		size += b.size
	}
	return fmt.Sprintf("%s: %s:%s, %.1f MB, of it %.1f MB for the program, packages: %d, digest %s",
		file, i.name, i.c.version, float64(size)/1e6, float64(i.blobs[len(i.blobs)-3].size)/1e6, i.debs,
		i.blobs[len(i.blobs)-1].digest)
}
