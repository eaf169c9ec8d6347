package vmtypestest

import (
	"path/filepath"
	"slices"

	"vmop/authoring/sample"
	"vmop/vmtypes"
)

// Affected returns the files of the folder (modules, tests and samples) that changed files can affect: the changed
// files, modules that load them directly or indirectly, and the samples of affected types. All names are relative to
// the folder.
func (f *Folder) Affected(source vmtypes.Source, changed []string) map[string]bool {
	affected := map[string]bool{}
	for _, name := range changed {
		affected[name] = true
	}
	loads := map[string][]string{}
	for name, text := range source.Modules {
		loads[name] = vmtypes.DescribeModule(name, text).Loads
	}
	for more := true; more; {
		more = false
		for name, loaded := range loads {
			if !affected[name] && slices.ContainsFunc(loaded, func(l string) bool { return affected[l] }) {
				affected[name], more = true, true
			}
		}
	}
	for _, name := range f.Samples {
		s, err := sample.Read(filepath.Join(f.Dir, name))
		if err == nil && affected[s.Type+".star"] {
			affected[name] = true
		}
	}
	for name := range affected { // omit removed files and other files
		_, isModule := source.Modules[name]
		if !isModule && !slices.Contains(f.Samples, name) {
			delete(affected, name)
		}
	}
	return affected
}
