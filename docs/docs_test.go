// Package docs_test checks the documents against the code: it compares their tables, runs their examples, and compares
// the page about the library with the docstrings that it is generated from. style_test.go checks the links.
//
//go:generate go test . -run TestMeanings|TestRules -update
//go:generate go test . -run TestLibrary|TestReference -update
package docs_test

import (
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/bazelbuild/buildtools/build"
	"github.com/stretchr/testify/require"
	"gopkg.in/yaml.v3"

	"vmop/authoring/reference"
	"vmop/runner/config"
	"vmop/test/pages"
	"vmop/vmspec"
	"vmop/vmtypes"
)

var update = flag.Bool("update", false, "write generated pages and the output of commands in pages anew")

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// rows returns the cells of all tables with a key in backquotes in the first column.
func rows(t *testing.T, file string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for line := range strings.Lines(read(t, file)) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		key := strings.Trim(cells[0], "`")
		require.NotContains(t, found, key, "two rows of %s are about %s", file, key)
		found[key] = cells
	}
	return found
}

// keys returns the paths of all YAML keys of a struct, such as "vm.network[].mac".
func keys(path string, of reflect.Type) []string {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		if of.Kind() == reflect.Slice {
			path += "[]"
		}
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || of == reflect.TypeFor[yaml.Node]() {
		return nil
	}
	var list []string
	for i := range of.NumField() {
		key := of.Field(i).Tag.Get("yaml")
		if key == "" {
			continue
		}
		if path != "" {
			key = path + "." + key
		}
		list = append(list, key)
		list = append(list, keys(key, of.Field(i).Type)...)
	}
	return list
}

// Every page is in a list of pages.
func TestEveryPageIsListed(t *testing.T) {
	t.Parallel()
	for pages, list := range map[string]struct{ file, prefix string }{
		"[a-z]*.md": {"README.md", ""}, "tutorials/*.md": {"README.md", "tutorials/"},
		"tasks/*.md": {"README.md", "tasks/"}, "reference/*.md": {"README.md", "reference/"},
		"concepts/*.md": {"README.md", "concepts/"}, "decisions/0*.md": {"decisions/README.md", ""},
		"vm-types/[a-z]*.md": {"vm-types/README.md", ""},
	} {
		files, err := filepath.Glob(pages)
		require.NoError(t, err)
		require.NotEmpty(t, files)
		text := read(t, list.file)
		for _, file := range files {
			require.Contains(t, text, "]("+list.prefix+filepath.Base(file)+")", "%s does not list %s", list.file, file)
		}
	}
}

func TestConfigurationHasEveryKey(t *testing.T) {
	t.Parallel()
	documented := slices.Sorted(maps.Keys(rows(t, "reference/configuration.md")))
	known := slices.Sorted(slices.Values(keys("", reflect.TypeFor[config.Config]())))
	require.Equal(t, known, documented)
}

func TestConfigurationHasTheDefaults(t *testing.T) {
	t.Parallel()
	documented := rows(t, "reference/configuration.md")
	for _, d := range vmspec.Defaults() {
		want := d.Note
		if d.Value != "" {
			want = "`" + d.Value + "`"
			if d.Note != "" {
				want += ": " + d.Note
			}
		}
		cells := documented[d.Path]
		require.GreaterOrEqual(t, len(cells), 3, d.Path)
		require.Equal(t, want, cells[1], "the default of %s", d.Path)
		if d.Unit != "" {
			require.Equal(t, d.Unit, cells[2], "the unit of %s", d.Path)
		}
	}
}

// documents returns the Markdown files of this folder and the other user documents.
func documents(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "*/*.md", "../README.md", "../examples/*/README.md"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		all = append(all, files...)
	}
	return all
}

func blocks(t *testing.T, file string) []pages.Block {
	t.Helper()
	return pages.Read(file, []byte(read(t, file))).Blocks
}

func TestConfigurationsInDocumentsAreRead(t *testing.T) {
	t.Parallel()
	count := 0
	for _, file := range documents(t) {
		for _, b := range blocks(t, file) {
			if b.Language != "yaml" || !strings.Contains(b.Text, "/Runner") {
				continue
			}
			count++
			_, _, err := config.Parse(file, []byte(b.Text))
			require.NoError(t, err, b.Text)
		}
	}
	require.NotZero(t, count)
}

// The modules on a page are formatted, and they load as the reader saves them. The page's commands show what the
// modules compute.
func TestTypesInDocumentsAreTypes(t *testing.T) {
	t.Parallel()
	count := 0
	for _, file := range documents(t) {
		dir := t.TempDir()
		for _, b := range blocks(t, file) {
			if filepath.Ext(b.Name) != ".star" {
				continue
			}
			count++
			name := filepath.Base(b.Name)
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(b.Text), 0o644))
			parsed, err := build.ParseDefault(name, []byte(b.Text))
			require.NoError(t, err)
			require.Equal(t, string(build.Format(parsed)), b.Text, "the format of %s in %s", name, file)
			if strings.HasSuffix(name, "_test.star") {
				continue
			}
			library, err := vmtypes.Open(dir)
			require.NoError(t, err)
			_, err = library.Load(t.Context(), strings.TrimSuffix(name, ".star"))
			require.NoError(t, errors.Join(err, library.Close()), "%s in %s", name, file)
		}
	}
	require.NotZero(t, count)
}

func TestLibraryIsDocumented(t *testing.T) {
	t.Parallel()
	const page = "vm-types/library.md"
	files, err := filepath.Glob("../vmtypes/lib/*.star")
	require.NoError(t, err)
	var modules []reference.Module
	for _, file := range append([]string{"../vmtypes/standard.star"}, files...) {
		name, err := filepath.Rel("../vmtypes", file)
		require.NoError(t, err)
		module, err := reference.ReadModule(vmtypes.StockPrefix+name, read(t, file))
		require.NoError(t, err)
		modules = append(modules, module)
	}
	text := reference.LibraryPage(modules)
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(text), 0o644))
	}
	require.Equal(t, text, read(t, page), "make generate writes it anew")
}
