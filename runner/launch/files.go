package launch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"vmop/internal/atomicfile"
	"vmop/internal/readfile"
	"vmop/runner/prepare"
	"vmop/vmtypes/plan"
)

// copyOnce ensures that the guest has its own copy of a template. An existing copy of another kind (other
// firmware) is renamed and kept; its new name is returned.
//
// A copy without a record of its kind comes from the original system. It is accepted if it has the template's
// size. Flash images of equal size are interchangeable; an image of another size hangs the guest.
func copyOnce(f plan.CopyOnce) (replaced string, err error) {
	have, err := inspectCopy(f)
	if err != nil {
		return "", err
	}
	if have.exists && have.kind != f.Kind {
		if replaced, err = setAside(f.To, have.kind); err != nil {
			return "", err
		}
		have.exists = false
	}
	if have.exists && f.SameSize {
		if err := sameSize(f); err != nil {
			return "", err
		}
	}
	if !have.exists {
		if err := copyFile(f.From, f.To); err != nil {
			return replaced, err
		}
	}
	if have.recorded && have.kind == f.Kind {
		return replaced, nil
	}
	return replaced, atomicfile.Write(f.To+prepare.KindSuffix, []byte(f.Kind+"\n"), 0o600, atomicfile.Synced)
}

// unknownKind is the kind of a copy that matches no known template.
const unknownKind = "unknown"

// A copyState describes a guest's existing copy.
type copyState struct {
	exists, recorded bool
	kind             string
}

// inspectCopy returns the state of the existing copy. An empty or damaged record (earlier versions could leave one
// after a power failure) is ignored, and the copy's size decides instead. If the size differs as well, inspectCopy
// returns an error and the copy is left alone.
func inspectCopy(f plan.CopyOnce) (copyState, error) {
	have, err := os.Stat(f.To)
	if errors.Is(err, fs.ErrNotExist) {
		return copyState{}, nil
	}
	if err != nil {
		return copyState{}, err
	}
	recorded, err := readfile.ReadFile(f.To+prepare.KindSuffix, prepare.LargestNote)
	absent := errors.Is(err, fs.ErrNotExist)
	if err != nil && !absent {
		return copyState{}, err
	}
	if kind := strings.TrimSpace(string(recorded)); len(recorded) > 0 && (kind == f.Kind || isKind(kind)) {
		return copyState{exists: true, recorded: true, kind: kind}, nil
	}
	template, err := os.Stat(f.From)
	switch {
	case err != nil:
		return copyState{}, err
	case have.Size() == template.Size():
		return copyState{exists: true, kind: f.Kind}, nil
	case !absent:
		return copyState{}, fmt.Errorf("%s is damaged, so it is unknown what %s is good for, and its %d bytes aren't the "+
			"%d of its template %s; no file was changed; write the right kind to the record (%s is wanted), or move both "+
			"files away to create new files",
			f.To+prepare.KindSuffix, f.To, have.Size(), template.Size(), f.From, f.Kind)
	}
	return copyState{exists: true, kind: unknownKind}, nil
}

// isKind reports whether a record contains a name, rather than the data of a damaged file.
func isKind(text string) bool {
	const signs = "abcdefghijklmnopqrstuvwxyz0123456789-._"
	return len(text) < 64 && text != "" && strings.Trim(strings.ToLower(text), signs) == ""
}

// sameSize returns an error if a copy is not as large as its template.
func sameSize(f plan.CopyOnce) error {
	have, err := os.Stat(f.To)
	if err != nil {
		return err
	}
	template, err := os.Stat(f.From)
	if err != nil {
		return err
	}
	if have.Size() != template.Size() {
		return fmt.Errorf(
			"it has %d bytes, and its template %s has %d: it is damaged, or of other firmware; no file was changed; replace it with a backup, or move it away to create a new file", have.Size(), f.From, template.Size())
	}
	return nil
}

// setAside renames a file to an unused name, which it returns.
func setAside(path, kind string) (string, error) {
	for n := 0; ; n++ {
		name := path + "." + kind
		if n > 0 {
			name = fmt.Sprintf("%s.%d", name, n)
		}
		_, err := os.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			err = atomicfile.Rename(path, name)
		} else if err == nil {
			continue
		}
		return name, err
	}
}

// copyFile copies a file of the guest. The copy survives a power failure.
func copyFile(from, to string) error {
	in, err := readfile.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	err = atomicfile.Fill(to, 0o600, atomicfile.Synced, func(out *os.File) error {
		_, err := io.Copy(out, in)
		return err
	})
	if err != nil {
		return fmt.Errorf("copy %s to %s: %w", from, to, err)
	}
	return nil
}
