package vmtypes

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/tools/txtar"
)

// The comment of an archive: its first line names the entry, so that a person
// who opens the file knows what it is.
const archiveEntry = "VM type "

// Archive returns the type with all its modules as one txtar: readable, and
// enough to load it again with LoadArchive.
func (t *Type) Archive() ([]byte, error) {
	a := &txtar.Archive{Comment: []byte(archiveEntry + t.entry + "\n" +
		"This VM keeps this version of its type until updateVmType asks for a newer one.\n\n")}
	for _, m := range t.modules {
		if m.source == "" || !strings.HasSuffix(m.source, "\n") {
			return nil, fmt.Errorf("archive VM type %s: module %s must end with a newline", t.name, m.name)
		}
		a.Files = append(a.Files, txtar.File{Name: m.name, Data: []byte(m.source)})
	}
	data := txtar.Format(a)
	if back := txtar.Parse(data); len(back.Files) != len(a.Files) {
		return nil, fmt.Errorf("archive VM type %s: a module contains a line of the form -- name --", t.name)
	}
	return data, nil
}

// LoadArchive returns the type that Archive stored.
func LoadArchive(ctx context.Context, data []byte) (*Type, error) {
	a := txtar.Parse(data)
	first, _, _ := strings.Cut(string(a.Comment), "\n")
	entry, ok := strings.CutPrefix(first, archiveEntry)
	if !ok {
		return nil, fmt.Errorf("%w: the first line is %q, want %q and a module", errNotArchive, first, archiveEntry)
	}
	sources := make(map[string]string, len(a.Files))
	for _, f := range a.Files {
		sources[f.Name] = string(f.Data)
	}
	read := func(module string) (string, error) {
		src, ok := sources[module]
		if !ok {
			return "", fmt.Errorf("the archive has no module %s", module)
		}
		return src, nil
	}
	return loadType(ctx, typeName(entry), entry, read, precompiled)
}

// typeName is the name of the type that a module defines.
func typeName(entry string) string {
	return strings.TrimSuffix(strings.TrimPrefix(entry, stockPrefix), ".star")
}

var errNotArchive = errors.New("not an archive of a VM type")
