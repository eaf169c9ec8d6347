package lint

import (
	"errors"

	"go.starlark.net/syntax"

	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// AddFaults adds the errors in the plan of a sample of a type, if err is a *vmtypes.FaultsError.
func (f *Folder) AddFaults(vmType string, err error) {
	var wrong *vmtypes.FaultsError
	if !errors.As(err, &wrong) {
		return
	}
	if f.faults == nil {
		f.faults = map[string][]plan.Fault{}
	}
	f.faults[vmType] = append(f.faults[vmType], wrong.Faults...)
}

// faultFindings returns the added errors at the lines that created the options. Errors without such a line are at the
// function launch of the type.
func (f Folder) faultFindings() []Finding {
	var all []Finding
	p := &planned{modules: map[string]*module{}, sources: f.Modules}
	for vmType, faults := range f.faults {
		for _, fault := range faults {
			p.addFaultFinding(vmType+".star", fault)
		}
	}
	for _, m := range p.modules {
		all = append(all, m.allowedFindings()...)
	}
	return all
}

func (p *planned) addFaultFinding(file string, fault plan.Fault) {
	in := p.moduleNamed(file)
	var place syntax.Node
	if in != nil && in.isType() {
		place = in.functionNamed("launch").Name
	}
	for _, frame := range fault.Origin {
		if m := p.moduleNamed(frame.File); m != nil {
			in, place = m, m.nodeMentioning(frame.Line, "")
			break
		}
	}
	if in == nil || place == nil {
		return // of the library
	}
	in.rule = "impossible-plan"
	in.addFinding(place, fault.Message)
}
