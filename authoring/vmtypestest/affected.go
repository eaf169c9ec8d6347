package vmtypestest

import (
	"path/filepath"
	"slices"

	"vmop/authoring/sample"
	"vmop/vmtypes"
)

// Affected returns which files of the folder, modules, tests and samples, may do
// otherwise when some have changed: these, what loads them, also through others,
// and the samples of types that do. Names are as seen from the folder.
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
	for name := range affected { // what is gone, or something else
		_, isModule := source.Modules[name]
		if !isModule && !slices.Contains(f.Samples, name) {
			delete(affected, name)
		}
	}
	return affected
}
