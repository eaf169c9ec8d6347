package vmtypes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"

	"vmop/internal/printable"
)

// archiveEntry is the prefix of an archive's first line, which names the entry module. It also identifies the file to a
// human reader.
const archiveEntry = "VM type "

// archiveVersion is the prefix of the comment's second line. The version of the language at the time of writing follows
// it. Archives older than language versions lack this line.
const archiveVersion = "API version "

// Archive returns the type with all its modules as a readable txtar archive for LoadArchive.
func (t *Type) Archive() ([]byte, error) {
	comment := archiveEntry + t.entry + "\n"
	if t.apiVersion > 0 {
		comment += archiveVersion + strconv.Itoa(t.apiVersion) + "\n"
	}
	if t.generation != "" {
		comment += archiveGeneration + t.generation + "\n"
	}
	comment += "This VM keeps this version of its type until updateVmType asks for a newer one.\n\n"
	a := &txtar.Archive{Comment: []byte(comment)}
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

// LoadArchive loads the type from an archive that Archive wrote.
func LoadArchive(ctx context.Context, data []byte) (*Type, error) {
	a := txtar.Parse(data)
	entry, rest, err := archivedEntry(a)
	if err != nil {
		return nil, err
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
	version, err := archivedVersion(rest)
	if err != nil {
		return nil, err
	}
	t, err := loadType(ctx, typeName(entry), entry, version, read)
	if err != nil {
		return nil, err
	}
	t.generation = generationLine(rest)
	return t, nil
}

// ArchivedName returns the name of the type in an archive, without evaluating modules.
func ArchivedName(data []byte) (string, error) {
	entry, _, err := archivedEntry(txtar.Parse(data))
	return typeName(entry), err
}

// ArchivedModule returns the text of a module in an archive, without evaluating it. Origins use the same module
// names.
func ArchivedModule(data []byte, name string) (text []byte, found bool) {
	for _, f := range txtar.Parse(data).Files {
		if f.Name == name {
			return f.Data, true
		}
	}
	return nil, false
}

// IsStockArchive reports whether all modules of an archive are identical to modules of the embedded library.
func IsStockArchive(data []byte) bool {
	return !slices.ContainsFunc(txtar.Parse(data).Files, func(f txtar.File) bool {
		file, ok := strings.CutPrefix(f.Name, stockPrefix)
		own, err := stock.ReadFile(file)
		return !ok || err != nil || !bytes.Equal(own, f.Data)
	})
}

// archivedEntry returns the module that defines the type of an archive, and the rest of the comment after the
// first line.
func archivedEntry(a *txtar.Archive) (entry, rest string, err error) {
	first, rest, _ := strings.Cut(string(a.Comment), "\n")
	entry, ok := strings.CutPrefix(first, archiveEntry)
	if !ok {
		return "", "", fmt.Errorf("%w: the first line is %q, but must be %q and a module", errNotArchive,
			printable.Clip(printable.Line(first), 40), archiveEntry)
	}
	return entry, rest, nil
}

// archivedVersion returns the version of the language in an archive, or 0 for an archive that is older than language
// versions. rest is the archive's comment without its first line.
func archivedVersion(rest string) (int, error) {
	line, _, _ := strings.Cut(rest, "\n")
	number, ok := strings.CutPrefix(line, archiveVersion)
	if !ok {
		return 0, nil
	}
	version, err := strconv.Atoi(number)
	if err != nil || version < 1 {
		return 0, fmt.Errorf("%w: the second line is %q, but must be %q and a number", errNotArchive, line,
			archiveVersion)
	}
	if version > APIVersion {
		return 0, fmt.Errorf("the VM type was kept by a newer vmrunner, with version %d of the language of VM types; "+
			"this vmrunner supports version %d: run the VM with the newer vmrunner", version, APIVersion)
	}
	return version, nil
}

// typeName returns the name of the type that a module defines.
func typeName(entry string) string {
	return strings.TrimSuffix(strings.TrimPrefix(entry, stockPrefix), ".star")
}

var errNotArchive = errors.New("not an archive of a VM type")
