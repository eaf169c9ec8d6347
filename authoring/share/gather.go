package share

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"vmop/authoring/sample"
	"vmop/internal/readfile"
	"vmop/vmtypes"
	"vmop/vmtypes/artifact"
)

// Gather returns the files that belong to a type in a folder. source contains the modules of the folder. The files are:
//
//   - the modules that the type loads, except stock modules
//   - the tests of these modules, with the modules that only tests load
//   - the samples of the type
func Gather(dir string, source vmtypes.Source, about vmtypes.Description) (*artifact.Content, error) {
	c := &artifact.Content{Name: about.Name, APIVersion: max(about.APIVersion, 1), Files: map[string]string{}}
	own := map[string]bool{}
	for _, m := range about.Modules {
		if !strings.HasPrefix(m.Name, vmtypes.StockPrefix) {
			own[m.Name] = true
		}
	}
	for name := range source.Modules {
		if !strings.HasSuffix(name, "_test.star") {
			continue
		}
		if loaded := loadClosure(source, name); isTestOf(source, loaded, own) {
			for name := range loaded {
				c.Files[name] = source.Modules[name]
			}
		}
	}
	for name := range own {
		c.Files[name] = source.Modules[name]
	}
	return c, addSamples(c, dir)
}

// loadClosure returns a module and all modules of its folder that it loads, directly or indirectly.
func loadClosure(source vmtypes.Source, name string) map[string]bool {
	all, next := map[string]bool{}, []string{name}
	for len(next) > 0 {
		name, next = next[0], next[1:]
		text, there := source.Modules[name]
		if !there || all[name] {
			continue
		}
		all[name] = true
		next = append(next, vmtypes.DescribeModule(name, text).Loads...)
	}
	return all
}

// isTestOf reports whether a test belongs to the type: it loads a module of the type, and no other type.
func isTestOf(source vmtypes.Source, loaded, own map[string]bool) bool {
	tested := false
	for name := range loaded {
		tested = tested || own[name]
		if !own[name] && definesLaunch(name, source.Modules[name]) {
			return false
		}
	}
	return tested
}

// definesLaunch reports whether a module defines a VM type.
func definesLaunch(name, text string) bool {
	m := vmtypes.DescribeModule(name, text)
	return slices.ContainsFunc(m.Functions, func(f vmtypes.Function) bool { return f.Name == "launch" }) ||
		slices.ContainsFunc(m.Values, func(v vmtypes.Value) bool { return v.Name == "launch" })
}

// Types returns the names of the types among the modules of a folder, sorted.
func Types(source vmtypes.Source) []string {
	var names []string
	for _, file := range slices.Sorted(maps.Keys(source.Modules)) {
		name := strings.TrimSuffix(file, ".star")
		if !strings.HasSuffix(name, "_test") && !vmtypes.IsStock(name) && definesLaunch(file, source.Modules[file]) {
			names = append(names, name)
		}
	}
	return names
}

// addSamples adds the samples of the type. An unreadable sample is an error, because its type is unknown.
func addSamples(c *artifact.Content, dir string) error {
	paths, err := sample.Find(dir)
	if err != nil {
		return err
	}
	for _, path := range paths {
		s, err := sample.Read(path)
		if err != nil {
			return fmt.Errorf("sample %s: %w", path, err)
		}
		if s.Type != c.Name {
			continue
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return fmt.Errorf("sample %s: %w", path, err)
		}
		text, err := readfile.ReadFile(path, artifact.MaxFile)
		if err != nil {
			return fmt.Errorf("sample %s: %w", path, err)
		}
		c.Files[filepath.ToSlash(name)] = string(text)
	}
	return nil
}
