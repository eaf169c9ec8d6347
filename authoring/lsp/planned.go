package lsp

import (
	"context"
	"slices"
	"strings"

	"vmop/authoring/lint"
	"vmop/authoring/sample"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// planned contains the names in the plans of a type: what change, replace and the properties of options can refer to.
type planned struct {
	program string // of QEMU
	machine string // the type of the machine
	options []plannedOption
	// things are the names of everything else that replace can remove, such as "helper swtpm".
	things []string
	// standIn means that the names come from the stock type that the type builds on.
	standIn bool
}

// plannedOption is an option of a plan.
type plannedOption struct {
	selector string // "-device sound0"
	plan.Option
}

// addPlan adds the names of a plan that are not known from another sample.
func (n *planned) addPlan(p *plan.Plan) {
	n.program = p.QEMU.Executable
	for _, o := range p.QEMU.Args {
		if o.Flag == "-machine" && n.machine == "" {
			n.machine = o.Structured().Backend()
		}
		name := vmtypes.Selector(o)
		if name != "" && n.optionNamed(name) == nil {
			o.Origin = nil // it is large
			n.options = append(n.options, plannedOption{name, o})
		}
	}
	for _, name := range vmtypes.Things(p) {
		if !slices.Contains(n.things, name) {
			n.things = append(n.things, name)
		}
	}
}

// optionNamed returns the option with a selector, or nil.
func (n *planned) optionNamed(selector string) *plannedOption {
	i := slices.IndexFunc(n.options, func(o plannedOption) bool { return o.selector == selector })
	if i < 0 {
		return nil
	}
	return &n.options[i]
}

// words returns the option as in a command line.
func (o plannedOption) words() string {
	return strings.Join(o.Words(func(name string) string { return "<" + name + ">" }), " ")
}

// defines returns the kind of object that an option defines, or "".
func (o plannedOption) defines() qemuopt.Kind {
	if known := qemuopt.Flag(o.Flag); known != nil {
		return known.Makes
	}
	return ""
}

// recordPlans lints the plans of a type, and keeps only their names, because a plan with its origins takes about
// 100 KB.
func (o Options) recordPlans(e *evaluation, name string, plans []*plan.Plan) {
	names := e.planned[name]
	if names == nil && len(plans) > 0 {
		names = &planned{}
		e.planned[name] = names
	}
	programs := map[string][]*plan.Plan{}
	for _, p := range plans {
		names.addPlan(p)
		programs[p.QEMU.Executable] = append(programs[p.QEMU.Executable], p)
	}
	for program, made := range programs {
		e.programs[program] = true
		qemu := o.QEMU(program)
		if needsNewer(qemu, e.oldest[name]) {
			qemu = nil
		}
		e.found = append(e.found, lint.Plans(made, e.source.Modules, askable(qemu))...)
	}
}

// planLoaded adds the names in the plan of the stock type that a type without a plan builds on. The author may be
// writing a change of this plan.
func (o Options) planLoaded(ctx context.Context, e *evaluation, name string, samples []*sample.Sample) {
	if e.planned[name] != nil || ctx.Err() != nil {
		return
	}
	stock := ""
	for rest := e.source.Modules[name+".star"]; stock == ""; {
		_, after, ok := strings.Cut(rest, `"`+vmtypes.StockPrefix)
		if !ok {
			return
		}
		word, _, _ := strings.Cut(after, `"`)
		if word = strings.TrimSuffix(word, ".star"); vmtypes.IsStock(word) {
			stock = word
		}
		rest = after
	}
	vm, err := sample.ParseVM([]byte("name: vm\n"))
	if err != nil {
		return
	}
	host := sample.HostFacts{}
	if len(samples) > 0 {
		vm, host = samples[0].VM, samples[0].Host
		vm.Options = nil
	}
	if p, _ := o.Evaluator.Launch(ctx, e.source, stock, vm, host.Host()); p != nil {
		e.planned[name] = &planned{standIn: true}
		e.planned[name].addPlan(p)
	}
}

// keepNames adds the names of an earlier evaluation for types without names, because their text is incomplete while
// the author types.
func (e *evaluation) keepNames(earlier *evaluation) {
	if earlier == nil {
		return
	}
	for name, names := range earlier.planned {
		_, exists := e.source.Modules[name+".star"]
		if now := e.planned[name]; exists && (now == nil || now.standIn) {
			e.planned[name] = names
		}
	}
	for name, options := range earlier.declared {
		if _, exists := e.source.Modules[name+".star"]; exists && e.declared[name] == nil {
			e.declared[name] = options
		}
	}
}
