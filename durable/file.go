// Package durable gives files another text: all of it, or the file stays as it was.
package durable

import (
	"errors"
	"os"
	"path/filepath"
)

// File gives a file that is there another text. Who reads it meanwhile gets the
// one or the other, and a disk that is full takes nothing away. A link stays one;
// what it leads to is rewritten.
func File(path string, text []byte) error {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".rewritten")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	err = errors.Join(err, file.Chmod(info.Mode().Perm()), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(file.Name()))
	}
	return err
}
