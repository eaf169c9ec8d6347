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
	// The errors of AddFaults, by the name of the type.
	faults map[string][]plan.Fault
	// Unasked are the names of types that need a newer QEMU than the installed one. The rules that query QEMU are not
	// applied to these types.
	Unasked map[string]bool
}

// PlanFindings returns the findings in plans of types in the folder; see Plans.
func (f Folder) PlanFindings(plans []*plan.Plan, qemu QEMU) []Finding {
	var asked, unasked []*plan.Plan
	for _, p := range plans {
		if f.Unasked[typeOf(p.Type)] {
			unasked = append(unasked, p)
		} else {
			asked = append(asked, p)
		}
	}
	return append(Plans(asked, f.Modules, qemu), Plans(unasked, f.Modules, nil)...)
}

// typeOf returns the name of the type in a module, or in a path of a module.
func typeOf(name string) string {
	return strings.TrimSuffix(name[strings.LastIndexByte(name, '/')+1:], ".star")
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
		own := around
		if f.Unasked[typeOf(name)] {
			own.QEMU = nil
		}
		all = append(all, File(name, source, own)...)
	}
	all = append(all, f.untestedTypes()...)
	all = append(all, f.faultFindings()...)
	all = append(all, f.untestedSections(around.Read)...)
	return Sort(append(all, f.PlanFindings(f.Plans, around.QEMU)...))
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
		typeName := typeOf(name)
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
