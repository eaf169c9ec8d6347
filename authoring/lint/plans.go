package lint

import (
	"slices"
	"strings"

	"go.starlark.net/syntax"

	"vmop/authoring/compare"
	"vmop/internal/spelling"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// Plans returns the findings of the rules in the plans of sample VMs. A plan also contains names that a module
// computes. sources maps names to the modules that findings can be in; Plans omits findings in other modules. qemu may
// be nil.
func Plans(plans []*plan.Plan, sources map[string]string, qemu QEMU) []Finding {
	p := &planned{modules: map[string]*module{}, sources: sources}
	for _, made := range plans {
		for _, placed := range compare.Placements(made) {
			p.addFinding(placed.Device, complaint{
				rule: "implicit-address", word: placed.Device.Value,
				message: "the device " + placed.Device.Value +
					" has no addr, so its slot depends on the devices before it; assign it a fixed slot",
			})
		}
		if qemu == nil {
			continue
		}
		for i := range made.QEMU.Args {
			o := &made.QEMU.Args[i]
			for _, c := range optionComplaints(qemu, o) {
				p.addFinding(o, c)
			}
		}
	}
	var all []Finding
	for _, m := range p.modules {
		all = append(all, m.allowedFindings()...)
	}
	return Sort(all)
}

// optionComplaints returns the parts of a plan's option that the QEMU does not support.
func optionComplaints(qemu QEMU, o *plan.Option) []complaint {
	switch o.Flag {
	case "-cpu":
		value, names := splitCPU(o.Value)
		return complaintsOf(qemu, o.Flag, value, names)
	case "-global":
		return askedGlobal(qemu, o)
	}
	one := o.Structured()
	value, names := one.Value, []string{}
	if known := qemuopt.Flag(o.Flag); known != nil && known.Noun != "" {
		value = one.Backend()
	}
	for _, p := range one.Properties {
		names = append(names, p.Key)
	}
	return complaintsOf(qemu, o.Flag, value, names)
}

// splitCPU splits the value of -cpu into the model and the features. A feature has a + or - before it, or a value after
// it.
func splitCPU(value string) (model string, features []string) {
	model, rest, _ := strings.Cut(value, ",")
	for part := range strings.SplitSeq(rest, ",") {
		name, _, _ := strings.Cut(strings.TrimLeft(part, "+-"), "=")
		if name != "" {
			features = append(features, strings.ReplaceAll(name, "_", "-"))
		}
	}
	return model, features
}

// askedGlobal checks a property that is set for all devices of a kind. QEMU ignores -global for a device that it lacks,
// and only prints a warning.
func askedGlobal(qemu QEMU, o *plan.Option) []complaint {
	driver, property := "", ""
	if o.List {
		driver, _ = o.Get("driver")
		property, _ = o.Get("property")
	} else {
		name, _, _ := strings.Cut(o.Value, "=")
		i := strings.LastIndexByte(name, '.')
		if i < 0 {
			return nil
		}
		driver, property = name[:i], name[i+1:]
	}
	kinds := qemu.Values("-global")
	if driver == "" || kinds == nil {
		return nil
	}
	if !slices.Contains(kinds, driver) {
		return []complaint{{
			unknownValue, driver,
			qemu.Name() + " has no device " + driver + didYouMean(driver, kinds) + ", so -global has no effect",
			spelling.Nearest(driver, kinds),
		}}
	}
	if known := qemu.Properties("-global", driver); known != nil && !slices.Contains(known, property) {
		return []complaint{{
			unknownProperty, property,
			driver + " has no property " + property + " in " + qemu.Name() + didYouMean(property, known),
			spelling.Nearest(property, known),
		}}
	}
	return nil
}

// planned is the state of one call of Plans.
type planned struct {
	sources map[string]string
	modules map[string]*module
}

// addFinding adds a finding at the innermost line in the sources that created an option. If a later change put
// the word of the complaint into the option, the finding is at the line of the change.
func (p *planned) addFinding(o *plan.Option, c complaint) {
	var in *module
	var place syntax.Node
	for _, frame := range o.Origin {
		m := p.moduleNamed(frame.File)
		if frame.Step == plan.Replaced {
			break
		}
		if m == nil {
			continue
		}
		node := m.nodeMentioning(frame.Line, c.word)
		_, isCall := node.(*syntax.CallExpr)
		if in == nil || frame.Step == plan.Changed && !isCall {
			in, place = m, node
		}
	}
	if in != nil {
		in.rule = c.rule
		in.addRepairable(place, c.message, replaceWord(place, c.word, c.meant))
	}
}

// moduleNamed returns a module from the sources, or nil.
func (p *planned) moduleNamed(name string) *module {
	if m, ok := p.modules[name]; ok {
		return m
	}
	source, ok := p.sources[name]
	if !ok {
		return nil
	}
	m := parseModule(name, source)
	if m != nil {
		p.modules[name] = m
	}
	return m
}

// ColumnOf returns the column of the call at a line of a module, counted from 1. If the call contains one of the words
// as a string, it returns the column of the first such word.
func ColumnOf(source string, line int, words []string) int {
	lines := strings.Split(source, "\n")
	if line < 1 || line > len(lines) {
		return 1
	}
	const any = "\x00" // no string of a module
	if m := parseModule("", source); m != nil && len(m.file.Stmts) > 0 {
		for _, word := range append(words, any) {
			node := m.nodeMentioning(line, word)
			_, isCall := node.(*syntax.CallExpr)
			if start, _ := node.Span(); int(start.Line) == line && (!isCall || word == any) {
				return int(start.Col)
			}
		}
	}
	return 1 + len(lines[line-1]) - len(strings.TrimLeft(lines[line-1], " \t"))
}

// nodeMentioning returns the string with this word in the call at a line. If the call contains no such string, it
// returns the call itself.
func (m *module) nodeMentioning(line int, word string) syntax.Node {
	var call syntax.Node = m.file.Stmts[0]
	var found syntax.Node
	syntax.Walk(m.file, func(n syntax.Node) bool {
		c, ok := n.(*syntax.CallExpr)
		if !ok || int(c.Lparen.Line) != line && int(syntax.Start(c).Line) != line {
			return true
		}
		call = c
		syntax.Walk(c, func(n syntax.Node) bool {
			if e, ok := n.(syntax.Expr); ok && found == nil {
				if s, isText := literalText(e); isText && s == word {
					found = e
				}
			}
			return true
		})
		return true
	})
	if found != nil {
		return found
	}
	return call
}
