package share

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"vmop/internal/atomicfile"
	"vmop/vmtypes/artifact"
	"vmop/vmtypes/signature"
)

// A Taken is a type from a registry, with the reference from which it was read.
type Taken struct {
	*artifact.Fetched
	Image string
}

// Write writes the files of a type into a folder, and creates the folder if necessary. If a file exists with other
// content, Write fails without writing any file.
func Write(dir string, c *artifact.Content) error {
	if err := keepOthers(dir, c.Files, nil); err != nil {
		return err
	}
	return writeAll(dir, c.Files)
}

// Replace writes types into a folder and its lock file. It replaces types with the same name, and removes files that
// the new version lacks. Replace fails without writing anything if it would replace a file that belongs to another
// type, was changed, or is missing in the lock file.
func (l *Lock) Replace(dir string, types ...Taken) error {
	after := Lock{Types: slices.Clone(l.Types)}
	files := map[string]string{}
	for _, t := range types {
		if err := t.addToLock(&after); err != nil {
			return err
		}
		for name, text := range t.Files {
			if other, twice := files[name]; twice && other != text {
				return fmt.Errorf("two of the types have a file %s", name)
			}
			files[name] = text
		}
	}
	old, now := l.fileOwners(), after.fileOwners()
	for name, text := range files {
		for _, t := range now[name] {
			if t.Files[name] != sha256Of([]byte(text)) {
				return fmt.Errorf("the type %s has another file %s", t.Name, name)
			}
		}
	}
	if err := keepOthers(dir, files, old); err != nil {
		return err
	}
	gone := map[string]string{}
	for name := range old {
		if _, stays := now[name]; !stays {
			gone[name] = ""
		}
	}
	if err := keepOthers(dir, gone, old); err != nil {
		return err
	}
	if err := writeAll(dir, files); err != nil {
		return err
	}
	for name := range gone {
		if err := os.Remove(inFolder(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove a file that the type has no more: %w", err)
		}
	}
	l.Types = after.Types
	return l.writeFile(dir)
}

// addToLock adds the type to a lock, or replaces the type with the same name.
func (t Taken) addToLock(l *Lock) error {
	entry := Locked{
		Name: t.Name, Image: t.Image, Digest: t.Digest, Version: t.Tag, Proof: t.Proof, Files: map[string]string{},
	}
	if t.Proof != nil {
		entry.Key = t.SignedBy.PEM()
	} else if i := slices.IndexFunc(l.Types, func(o Locked) bool { return o.Name == t.Name && o.Key != "" }); i >= 0 {
		return fmt.Errorf("type %s from %s is not signed, but the type in the lock file was; name the key with --key, or "+
			"remove key and proof from %s to accept it without", t.Name, t.Image, signature.LockFile)
	}
	for name, text := range t.Files {
		entry.Files[name] = sha256Of([]byte(text))
	}
	l.Types = slices.DeleteFunc(l.Types, func(other Locked) bool { return other.Name == t.Name })
	l.Types = append(l.Types, entry)
	return nil
}

// fileOwners returns the types that contain a file, by file name.
func (l *Lock) fileOwners() map[string][]Locked {
	all := map[string][]Locked{}
	for _, t := range l.Types {
		for name := range t.Files {
			all[name] = append(all[name], t)
		}
	}
	return all
}

// keepOthers returns an error if a file exists that must not be replaced: its content differs from both the new content
// and the lock file.
func keepOthers(dir string, files map[string]string, owners map[string][]Locked) error {
	for _, name := range sortedNames(files) {
		sum, err := checksumIn(dir, name)
		if err != nil {
			return err
		}
		as := func(t Locked) bool { return t.Files[name] == sum }
		switch path := inFolder(dir, name); {
		case sum == "", sum == sha256Of([]byte(files[name])), slices.ContainsFunc(owners[name], as):
		case owners[name] != nil:
			return fmt.Errorf("%s was changed since it was vendored; no files were written: remove or rename it", path)
		default:
			return fmt.Errorf("%s exists with different content; no files were written: remove or rename it", path)
		}
	}
	return nil
}

// writeAll writes files into a folder, and creates missing subfolders.
func writeAll(dir string, files map[string]string) error {
	for _, name := range sortedNames(files) {
		path := inFolder(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("create the folder of a VM type: %w", err)
		}
		if err := atomicfile.Write(path, []byte(files[name]), 0o644, atomicfile.Synced); err != nil {
			return err
		}
	}
	return nil
}

func inFolder(dir, name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }

func sortedNames(files map[string]string) []string { return slices.Sorted(maps.Keys(files)) }
