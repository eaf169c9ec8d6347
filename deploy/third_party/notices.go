package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const preamble = `The programs of this project contain the following works of others, each under
the licence printed with it. This file is made by "make generate".
`

// notices returns the text with the licences of all modules. A module without
// one may not be handed on, and is an error.
func notices(modules []module) ([]byte, error) {
	var text bytes.Buffer
	text.WriteString(preamble)
	for _, m := range modules {
		files, err := legalFiles(m)
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s has no licence in %s", m.Name, m.Dir)
		}
		fmt.Fprintf(&text, "\n%s\n%s\n", strings.Repeat("=", 78), strings.TrimSpace(m.Name+" "+m.Version))
		for _, file := range files {
			content, err := os.ReadFile(filepath.Join(m.Dir, file))
			if err != nil {
				return nil, fmt.Errorf("read the licence of %s: %w", m.Name, err)
			}
			plain := strings.TrimSpace(strings.ReplaceAll(string(content), "\r", ""))
			fmt.Fprintf(&text, "\n--- %s\n\n%s\n", file, plain)
		}
	}
	return text.Bytes(), nil
}

// legalFiles names the files, relative to the module's folder, that hold a
// licence, a notice, or what a licence refers to: in the folders of the packages
// that are used, and in those above them.
func legalFiles(m module) ([]string, error) {
	folders := map[string]bool{".": true}
	for _, dir := range m.Packages {
		relative, err := filepath.Rel(m.Dir, dir)
		if err != nil {
			return nil, fmt.Errorf("place the package %s in its module: %w", dir, err)
		}
		for ; relative != "."; relative = filepath.Dir(relative) {
			folders[relative] = true
		}
	}
	var files []string
	for folder := range folders {
		entries, err := os.ReadDir(filepath.Join(m.Dir, folder))
		if err != nil {
			return nil, fmt.Errorf("look for a licence: %w", err)
		}
		for _, entry := range entries {
			if !entry.IsDir() && legal(entry.Name()) {
				files = append(files, filepath.Join(folder, entry.Name()))
			}
		}
	}
	slices.Sort(files)
	return files, nil
}

// legal tells by a file's name, LICENSE.md or COPYING-MIT, that it belongs into the
// notices, and that it is no source file.
func legal(name string) bool {
	stem := strings.ToUpper(name)
	if cut := strings.IndexAny(stem, ".-_"); cut > 0 {
		stem = stem[:cut]
	}
	words := []string{"LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "PATENTS", "UNLICENSE"}
	return slices.Contains(words, stem) && !strings.HasSuffix(name, ".go")
}
