package cluster

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Names of the images that every node has.
const (
	// pauseImage holds a pod's namespaces.
	pauseImage = "example.test/pause:test"
	// BusyboxImage contains the busybox programs in /bin, and starts a shell.
	BusyboxImage = "example.test/busybox:test"
)

// Image describes a container image.
type Image struct {
	// Name includes the tag. Avoid "latest", for which a kubelet would contact a registry.
	Name string
	// Files are the paths of the host's files, by path in the image. All are executable in the image.
	Files map[string]string
	// Links are targets of symbolic links, by path.
	Links map[string]string
	// Layers are tar files, below Files and Links.
	Layers     []string
	Entrypoint []string
	Env        []string
	User       string
}

// Write writes the image as an archive that containerd can import.
func (i Image) Write(path string) error {
	tag, err := name.NewTag(i.Name)
	if err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	var layers []v1.Layer
	for _, tar := range i.Layers {
		layer, err := tarball.LayerFromFile(tar)
		if err != nil {
			return fmt.Errorf("write image %s: %w", i.Name, err)
		}
		layers = append(layers, layer)
	}
	top, err := i.newLayer()
	if err != nil {
		return fmt.Errorf("write image %s: %w", i.Name, err)
	}
	image, err := mutate.AppendLayers(empty.Image, append(layers, top)...)
	if err != nil {
		return fmt.Errorf("write image %s: %w", i.Name, err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		return fmt.Errorf("write image %s: %w", i.Name, err)
	}
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{ // containerd skips an image without a platform
		OS: "linux", Architecture: runtime.GOARCH, RootFS: file.RootFS,
		Config: v1.Config{Entrypoint: i.Entrypoint, Env: i.Env, User: i.User},
	})
	if err != nil {
		return fmt.Errorf("write image %s: %w", i.Name, err)
	}
	if err := tarball.WriteToFile(path, tag, image); err != nil {
		return fmt.Errorf("write image %s: %w", i.Name, err)
	}
	return nil
}

// newLayer returns the layer with Files and Links.
func (i Image) newLayer() (v1.Layer, error) {
	var buffer bytes.Buffer
	w := &layerWriter{Writer: tar.NewWriter(&buffer), folders: map[string]bool{}}
	var err error
	for at, from := range i.Files {
		err = errors.Join(err, w.addFile(at, from))
	}
	for at, to := range i.Links {
		err = errors.Join(err, w.addEntry(tar.Header{Typeflag: tar.TypeSymlink, Name: at, Linkname: to, Mode: 0o777}))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(buffer.Bytes())), nil
	})
}

// layerWriter writes a layer, including the parent folders of its entries.
type layerWriter struct {
	*tar.Writer
	folders map[string]bool
}

func (w *layerWriter) addFile(at, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := w.addEntry(tar.Header{Typeflag: tar.TypeReg, Name: at, Mode: 0o755, Size: int64(len(data))}); err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

func (w *layerWriter) addEntry(h tar.Header) error {
	h.Name = strings.TrimPrefix(path.Clean(h.Name), "/")
	if dir := path.Dir(h.Name); dir != "." && !w.folders[dir] {
		w.folders[dir] = true
		if err := w.addEntry(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
			return err
		}
	}
	return w.WriteHeader(&h)
}

// systemImages writes the images that every node has.
func systemImages(dir string) error {
	busybox := Image{
		Name: BusyboxImage, Files: map[string]string{"/bin/busybox": "/bin/busybox"}, Links: map[string]string{},
		Entrypoint: []string{"/bin/sh"}, Env: []string{"PATH=/bin"},
	}
	for _, applet := range []string{
		"sh", "cat", "echo", "env", "false", "grep", "httpd", "id", "ip", "ls", "mkdir",
		"nc", "ping", "ps", "sleep", "sync", "touch", "true", "wget",
	} {
		busybox.Links["/bin/"+applet] = "busybox"
	}
	pause := Image{
		Name: pauseImage, Files: map[string]string{"/pause": filepath.Join(dir, "bin", "pause")},
		Entrypoint: []string{"/pause"},
	}
	for file, image := range map[string]Image{"busybox.tar": busybox, "pause.tar": pause} {
		file = filepath.Join(dir, "images", file)
		if err := image.Write(file + ".new"); err != nil {
			return err
		}
		if err := os.Rename(file+".new", file); err != nil { // a node may be reading the old file
			return fmt.Errorf("write image %s: %w", image.Name, err)
		}
	}
	return nil
}
