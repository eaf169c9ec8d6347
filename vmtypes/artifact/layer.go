package artifact

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

// mostLayer is the maximum size of a layer in bytes, including the headers of the files.
const mostLayer = maxSize + (MaxFiles+4)*1024

// packFiles returns an archive that depends only on the files.
func packFiles(files map[string]string) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: name, Size: int64(len(files[name])), Mode: 0o644, Format: tar.FormatUSTAR,
		}
		err := w.WriteHeader(header)
		if err == nil {
			_, err = io.WriteString(w, files[name])
		}
		if err != nil {
			return nil, fmt.Errorf("pack %s: %w", name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("pack the files of a VM type: %w", err)
	}
	return b.Bytes(), nil
}

// unpackFiles returns the files of an untrusted archive of at most mostLayer bytes. It ignores the sizes in the
// archive.
func unpackFiles(layer []byte) (map[string]string, error) {
	files, size := map[string]string{}, 0
	for r := tar.NewReader(bytes.NewReader(layer)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the layer: %w", err)
		}
		name := header.Name
		_, twice := files[name]
		switch {
		case header.Typeflag != tar.TypeReg:
			return nil, fmt.Errorf("file %q is not a regular file", name)
		case twice:
			return nil, fmt.Errorf("file %q exists twice", name)
		case len(files) == MaxFiles:
			return nil, fmt.Errorf("there are more than %d files", MaxFiles)
		}
		text, err := io.ReadAll(io.LimitReader(r, MaxFile+1)) // a sparse file may be larger than its archive
		if err != nil {
			return nil, fmt.Errorf("read file %q of the layer: %w", name, err)
		}
		if err := checkFile(name, string(text)); err != nil {
			return nil, err
		}
		if size += len(text); size > maxSize {
			return nil, fmt.Errorf("the files have more than %d bytes", maxSize)
		}
		files[name] = string(text)
	}
}
