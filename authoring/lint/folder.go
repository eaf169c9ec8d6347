package lint

import (
	"slices"
	"strings"

	"vmop/vmtypes/plan"
)

// A Folder is the input of the linter: the content of a folder of VM types.
type Folder struct {
	// Modules maps the names in load statements to sources.
	Modules map[string]string
	// Around is the environment of each module. Read is called for modules that are missing in Modules.
	Around Surroundings
	// Sampled are the types with samples. Plans are the plans of these samples.
	Sampled []string
	Plans   []*plan.Plan
}

// Findings returns the findings of all rules.
func (f Folder) Findings() []Finding {
	around := f.Around
	around.Read = func(name string) (string, error) {
		if source, ok := f.Modules[name]; ok || f.Around.Read == nil {
			return source, nil
		}
		return f.Around.Read(name)
	}
	var all []Finding
	for name, source := range f.Modules {
		all = append(all, File(name, source, around)...)
	}
	all = append(all, f.untestedTypes()...)
	return Sort(append(all, Plans(f.Plans, f.Modules, around.QEMU)...))
}

// untestedTypes finds types without a sample that no test loads.
func (f Folder) untestedTypes() []Finding {
	loaded := map[string]bool{}
	for name, source := range f.Modules {
		m := parseModule(name, source)
		if m == nil || !m.isTest() {
			continue
		}
		for _, module := range m.loadedNames() {
			loaded[module] = true
		}
	}
	var list []Finding
	for name, source := range f.Modules {
		m := parseModule(name, source)
		typeName := strings.TrimSuffix(name[strings.LastIndexByte(name, '/')+1:], ".star")
		if m == nil || !m.isType() || loaded[name] || slices.Contains(f.Sampled, typeName) {
			continue
		}
		m.rule = "untested"
		m.addFinding(m.functionNamed("launch").Name,
			"no test covers "+typeName+": no *_test.star file loads it, and it has no sample")
		list = append(list, m.allowedFindings()...)
	}
	return list
}
