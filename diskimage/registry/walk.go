package registry

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"io"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"vmop/diskimage"
)

// folder is the folder of a container image that contains the disk.
const folder = "/disk"

// Names that hide files of lower layers (OCI image layer specification).
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// Identification of a tar archive.
const (
	tarMagic   = "ustar"
	tarMagicAt = 257
	tarBlock   = 512
)

// walk reads the disk of an image and then the rest of its layers: two disks are an error because the image is
// ambiguous.
type walk struct {
	ctx    context.Context
	source Image
	layers []v1.Layer // still to be read, the uppermost first
	alone  bool       // the image has only one layer

	layer io.ReadCloser // the layer being read, compressed; nil between layers
	plain *bufio.Reader // the same, decompressed
	done  func()        // closes the decompressor
	tar   *tar.Reader   // nil if the layer itself is the disk

	found string // the disk's name; "" until it is found
	size  int64  // the disk's size; 0 if unknown
	// hidden contains the names below /disk that upper layers contain or remove. names contains the names in this
	// layer, which hide files below. "" stands for all names.
	hidden, names map[string]bool
}

// Read implements io.Reader.
func (w *walk) Read(p []byte) (int, error) {
	from := io.Reader(w.plain)
	if w.tar != nil {
		from = w.tar
	}
	n, err := from.Read(p)
	switch {
	case err == nil:
		return n, nil
	case !errors.Is(err, io.EOF):
		return n, w.source.ofContent(err)
	case n > 0:
		return n, nil // the next Read returns the end again
	}
	return 0, w.nextDisk()
}

// nextDisk moves to the disk. After the disk, it reads the rest and returns io.EOF at the end.
func (w *walk) nextDisk() error {
	for {
		if w.layer != nil && w.tar == nil {
			if err := w.endLayer(); err != nil {
				return err
			}
		}
		if w.layer == nil && len(w.layers) == 0 {
			return w.layerEnd()
		}
		if w.layer == nil {
			if err := w.openLayer(); err != nil || w.tar == nil {
				return err
			}
		}
		header, err := w.tar.Next()
		if errors.Is(err, io.EOF) {
			if err := w.endLayer(); err != nil {
				return err
			}
			continue
		} else if err != nil {
			return w.source.ofContent(err)
		}
		if disk, err := w.isDisk(header); disk || err != nil {
			return err
		}
	}
}

// layerEnd returns the result after the last layer.
func (w *walk) layerEnd() error {
	if w.found != "" {
		return io.EOF
	}
	return diskimage.Refuse(diskimage.NoDiskInImage, "container image %s has no file in %s, and is not an artifact with one layer",
		w.source.Reference, folder)
}

// openLayer opens the next layer. The layer itself is the disk if it is the only layer and isn't an archive.
func (w *walk) openLayer() error {
	layer, err := w.layers[0].Compressed()
	if err != nil {
		return w.source.explainError(err)
	}
	w.layer, w.names = layer, map[string]bool{}
	size, sizeErr := w.layers[0].Size()
	w.layers = w.layers[1:]
	plain, compression, done, err := diskimage.Decompress(layer)
	if err != nil {
		return w.source.ofContent(err)
	}
	w.plain, w.done = bufio.NewReader(plain), done
	head, err := w.plain.Peek(tarBlock)
	if err != nil && !errors.Is(err, io.EOF) {
		return w.source.ofContent(err)
	}
	isTar := len(head) == tarBlock && strings.HasPrefix(string(head[tarMagicAt:]), tarMagic)
	if isTar || !w.alone || len(head) == 0 {
		w.tar = tar.NewReader(w.plain)
		return nil
	}
	w.found = "its layer"
	if compression == "" && sizeErr == nil {
		w.size = size
	}
	return nil
}

// isDisk reports whether a file is the disk.
func (w *walk) isDisk(header *tar.Header) (bool, error) {
	name := path.Clean("/" + header.Name)
	base := path.Base(name)
	switch {
	case name == "/"+whiteout+folder[1:], name == folder+"/"+opaque:
		w.names[""] = true
		return false, nil
	case path.Dir(name) != folder:
		return false, nil
	case strings.HasPrefix(base, whiteout):
		w.names[folder+"/"+strings.TrimPrefix(base, whiteout)] = true
		return false, nil
	}
	w.names[name] = true
	if header.Typeflag == tar.TypeDir || w.hidden[name] || w.hidden[""] {
		return false, nil
	}
	if w.found != "" {
		return false, diskimage.Refuse(diskimage.AmbiguousImage,
			"container image %s has several disks: %s and %s; put exactly one file in %s", w.source.Reference, w.found, name, folder)
	}
	if header.Typeflag != tar.TypeReg {
		return false, diskimage.Refuse(diskimage.NoDiskInImage, "container image %s: %s is not a regular file",
			w.source.Reference, name)
	}
	w.found, w.size = name, header.Size
	return true, nil
}

// endLayer reads the layer to its end, which verifies its digest.
func (w *walk) endLayer() error {
	_, err := io.Copy(io.Discard, w.plain)
	if err == nil {
		_, err = io.Copy(io.Discard, w.layer)
	}
	for name := range w.names {
		w.hidden[name] = true
	}
	if closing := w.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return w.source.ofContent(err)
	}
	return nil
}

// Close implements io.Closer.
func (w *walk) Close() error {
	if w.layer == nil {
		return nil
	}
	if w.done != nil {
		w.done()
	}
	err := w.layer.Close()
	w.layer, w.done, w.tar = nil, nil, nil
	return err
}
