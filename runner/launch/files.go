package launch

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"vmop/durable"
	"vmop/runner/prepare"
	"vmop/vmtypes/plan"
)

// copyOnce makes sure that the guest has its own copy of a template. A copy
// that is good for something else (other firmware) is kept beside the new one,
// under the name that is returned.
//
// A copy without a record of its kind comes from the original system. It is
// taken over if it is as large as the template: flash images of one size are
// interchangeable, of another they hang the guest.
func copyOnce(f plan.CopyOnce) (replaced string, err error) {
	have, err := inspect(f)
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
	// A kind that a power failure loses is found out again, by the size of the copy.
	return replaced, durable.Write(f.To+prepare.KindSuffix, []byte(f.Kind+"\n"), 0o600, durable.Volatile)
}

// unknownKind is the kind of a copy that fits nothing that is known.
const unknownKind = "unknown"

// A copyState is what is known of a guest's copy.
type copyState struct {
	exists, recorded bool
	kind             string
}

// inspect returns what the existing copy is good for.
func inspect(f plan.CopyOnce) (copyState, error) {
	have, err := os.Stat(f.To)
	if errors.Is(err, fs.ErrNotExist) {
		return copyState{}, nil
	}
	if err != nil {
		return copyState{}, err
	}
	recorded, err := os.ReadFile(f.To + prepare.KindSuffix)
	if err == nil {
		return copyState{exists: true, recorded: true, kind: strings.TrimSpace(string(recorded))}, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return copyState{}, err
	}
	template, err := os.Stat(f.From)
	if err != nil {
		return copyState{}, err
	}
	if have.Size() == template.Size() {
		return copyState{exists: true, kind: f.Kind}, nil
	}
	return copyState{exists: true, kind: unknownKind}, nil
}

// sameSize refuses a copy that is not as large as its template.
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
			"it has %d bytes, and its template %s has %d: it is damaged, or of other firmware; nothing was changed; put a backup in its place, or move it away to have a new one made", have.Size(), f.From, template.Size())
	}
	return nil
}

// setAside renames a file to a name that is free.
func setAside(path, kind string) (string, error) {
	for n := 0; ; n++ {
		name := path + "." + kind
		if n > 0 {
			name = fmt.Sprintf("%s.%d", name, n)
		}
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return name, durable.Rename(path, name)
		}
	}
}

// copyFile copies a file of the guest's, which must be there after a power failure.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	err = durable.Fill(to, 0o600, durable.Synced, func(out *os.File) error {
		_, err := io.Copy(out, in)
		return err
	})
	if err != nil {
		return fmt.Errorf("copy %s to %s: %w", from, to, err)
	}
	return nil
}
