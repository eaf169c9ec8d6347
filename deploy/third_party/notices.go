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

// notices returns the text with the licenses of all modules. A module without a license is an error, because it may not
// be distributed.
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

// legalFiles returns the files that contain a license, a notice, or a text that a license refers to, relative to the
// module's folder. It searches the folders of the used packages and their parent folders.
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

// legal reports whether a file name, such as LICENSE.md or COPYING-MIT, belongs to the notices and is not a source
// file.
func legal(name string) bool {
	stem := strings.ToUpper(name)
	if cut := strings.IndexAny(stem, ".-_"); cut > 0 {
		stem = stem[:cut]
	}
	words := []string{"LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "PATENTS", "UNLICENSE"}
	return slices.Contains(words, stem) && !strings.HasSuffix(name, ".go")
}
