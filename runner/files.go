package runner

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"vmop/vmtypes/plan"
)

// kindSuffix is appended to the name of a copied file; the file of that name
// remembers what the copy is good for.
const kindSuffix = ".kind"

// copyOnce makes sure that the guest has its own copy of a template. A copy
// that is good for something else (other firmware) is kept beside the new one.
//
// A copy without a record of its kind comes from the original system. It is
// taken over if it is as large as the template: flash images of one size are
// interchangeable, of another they hang the guest.
func copyOnce(f plan.CopyOnce) (replaced string, err error) {
	kind, err := kindOf(f)
	if err != nil {
		return "", err
	}
	if kind == f.Kind {
		return "", os.WriteFile(f.To+kindSuffix, []byte(f.Kind+"\n"), 0o600)
	}
	if kind != "" {
		if replaced, err = setAside(f.To, kind); err != nil {
			return "", err
		}
	}
	if err := copyFile(f.From, f.To); err != nil {
		return "", err
	}
	return replaced, os.WriteFile(f.To+kindSuffix, []byte(f.Kind+"\n"), 0o600)
}

// unknownKind is the kind of a copy that fits nothing that is known.
const unknownKind = "unknown"

// kindOf returns what the existing copy is good for, "" if there is none.
func kindOf(f plan.CopyOnce) (string, error) {
	have, err := os.Stat(f.To)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	recorded, err := os.ReadFile(f.To + kindSuffix)
	if err == nil {
		return strings.TrimSpace(string(recorded)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	template, err := os.Stat(f.From)
	if err != nil {
		return "", err
	}
	if have.Size() == template.Size() {
		return f.Kind, nil
	}
	return unknownKind, nil
}

// setAside renames a file to a name that is free.
func setAside(path, kind string) (string, error) {
	for n := 0; ; n++ {
		name := path + "." + kind
		if n > 0 {
			name = fmt.Sprintf("%s.%d", name, n)
		}
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name, os.Rename(path, name)
		}
	}
}

// copyFile copies by way of a temporary file, so that a full disk leaves
// nothing half-written under the name.
func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(to), "."+filepath.Base(to)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("copy %s to %s: %w", from, to, err), os.Remove(out.Name()))
		}
	}()
	if _, err = io.Copy(out, in); err != nil {
		return errors.Join(err, out.Close())
	}
	if err = out.Sync(); err != nil {
		return errors.Join(err, out.Close())
	}
	if err = out.Close(); err != nil {
		return err
	}
	return os.Rename(out.Name(), to)
}

// writeFile writes a small file atomically.
func writeFile(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(data)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(tmp.Name()))
	}
	return nil
}
