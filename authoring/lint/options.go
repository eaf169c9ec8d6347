package lint

import (
	"strings"

	"go.starlark.net/syntax"

	"vmop/internal/spelling"
	"vmop/vmtypes/qemuopt"
)

// The rules in this file check vm.options.

// declarations are the options that a module declares. own are the options in the module itself; all also includes the
// options from other modules.
type declarations struct {
	own []*syntax.Literal
	all []string
	// whole means that no part of the declarations is computed.
	whole bool
}

// globalOptions returns the declarations in the global variable options of a module.
func (m *module) globalOptions() declarations {
	for _, stmt := range m.file.Stmts {
		assign, ok := stmt.(*syntax.AssignStmt)
		if !ok {
			continue
		}
		if id, ok := assign.LHS.(*syntax.Ident); ok && id.Name == "options" {
			d := declarations{whole: true}
			m.addOptions(assign.RHS, &d, 0)
			return d
		}
	}
	return declarations{whole: true}
}

// deepestLoad is the maximum number of modules between a declaration and the checked module.
const deepestLoad = 16

// addOptions adds the declarations in an expression. depth is the number of modules between the expression and the
// checked module.
func (m *module) addOptions(e syntax.Expr, into *declarations, depth int) {
	switch e := e.(type) {
	case *syntax.DictExpr:
		for _, item := range e.List {
			key, ok := item.(*syntax.DictEntry).Key.(*syntax.Literal)
			name, isText := "", false
			if ok {
				name, isText = literalText(key)
			}
			if !isText {
				into.whole = false
				continue
			}
			into.all = append(into.all, name)
			if depth == 0 {
				into.own = append(into.own, key)
			}
		}
	case *syntax.BinaryExpr:
		if e.Op != syntax.PIPE {
			into.whole = false
			return
		}
		m.addOptions(e.X, into, depth)
		m.addOptions(e.Y, into, depth)
	case *syntax.ParenExpr:
		m.addOptions(e.X, into, depth)
	case *syntax.Ident:
		m.namedOptions(e.Name, into, depth)
	default:
		into.whole = false
	}
}

// namedOptions adds the declarations in a global of this module or of a loaded module.
func (m *module) namedOptions(name string, into *declarations, depth int) {
	for _, stmt := range m.file.Stmts {
		switch s := stmt.(type) {
		case *syntax.AssignStmt:
			if id, ok := s.LHS.(*syntax.Ident); ok && id.Name == name {
				m.addOptions(s.RHS, into, depth)
				return
			}
		case *syntax.LoadStmt:
			for i, to := range s.To {
				if to.Name != name {
					continue
				}
				if other := m.loadedModule(s.ModuleName()); other != nil && depth < deepestLoad {
					other.namedOptions(s.From[i].Name, into, depth+1)
				} else {
					into.whole = false
				}
				return
			}
		}
	}
	into.whole = false
}

// loadedModule returns a module that this module loads, or nil.
func (m *module) loadedModule(name string) *module {
	if m.around.Read == nil {
		return nil
	}
	source, err := m.around.Read(name)
	if err != nil {
		return nil
	}
	other := parseModule(name, source)
	if other != nil {
		other.around = m.around
	}
	return other
}

// undeclaredOption finds uses of vm.options.X without a declaration of X. It only checks types, because a library does
// not know which types will load it.
func undeclaredOption(m *module) {
	d := m.globalOptions()
	if !m.isType() || !d.whole {
		return
	}
	known := map[string]bool{}
	for _, name := range d.all {
		known[name] = true
	}
	syntax.Walk(m.file, func(n syntax.Node) bool {
		if name := optionUsed(n); name != nil && !known[name.Name] {
			m.addRepairable(name, "the VM type declares no option "+name.Name+didYouMean(name.Name, d.all)+
				"; declare it in options", replaceName(name, spelling.Nearest(name.Name, d.all)))
		}
		return true
	})
}

// optionUsed returns X of vm.options.X, or nil.
func optionUsed(n syntax.Node) *syntax.Ident {
	dot, ok := n.(*syntax.DotExpr)
	if !ok {
		return nil
	}
	of, ok := dot.X.(*syntax.DotExpr)
	if !ok || of.Name.Name != "options" {
		return nil
	}
	if vm, ok := of.X.(*syntax.Ident); ok && vm.Name == "vm" {
		return dot.Name
	}
	return nil
}

// unusedOption finds options that the module declares and that neither this module nor the modules that it loads read.
func unusedOption(m *module) {
	own := m.globalOptions().own
	if len(own) == 0 {
		return
	}
	words := map[string]int{}
	m.countWords(words, map[string]bool{})
	for _, literal := range own {
		name, _ := literalText(literal)
		if words[name] <= 1 { // the declaration itself counts as one
			m.addFinding(literal, "the option "+name+" is declared but never read")
		}
	}
}

// countWords counts the names of fields and the strings in a module and in all modules that it loads.
func (m *module) countWords(into map[string]int, seen map[string]bool) {
	if seen[m.name] {
		return
	}
	seen[m.name] = true
	syntax.Walk(m.file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.DotExpr:
			into[n.Name.Name]++
		case *syntax.Literal:
			if s, ok := literalText(n); ok {
				into[s]++
			}
		case *syntax.LoadStmt:
			if other := m.loadedModule(n.ModuleName()); other != nil {
				other.countWords(into, seen)
			}
		}
		return true
	})
}

// Rules for the content of options.

// propertiesInText finds properties in the text of an option's value. There, vmrunner does not escape or check them,
// and replace() does not see them.
func propertiesInText(m *module) {
	for _, o := range m.optionCalls() {
		known := qemuopt.Flag(o.flag)
		if known == nil || !known.List || o.props != nil || o.valueNode == nil {
			continue
		}
		literal := o.valueNode
		if format, ok := literal.(*syntax.BinaryExpr); ok && (format.Op == syntax.PERCENT || format.Op == syntax.PLUS) {
			literal = format.X
		}
		if value, ok := literalText(literal); ok && strings.Contains(value, ",") {
			m.addFinding(o.valueNode, "properties belong in a dict: option(\""+o.flag+
				"\", …, {…}); in a string commas are not escaped, and the id is not visible")
		}
	}
}

// doubledComma finds commas that the author has doubled. vmrunner doubles them itself.
func doubledComma(m *module) {
	for _, o := range m.optionCalls() {
		if o.props == nil {
			continue
		}
		syntax.Walk(o.props, func(n syntax.Node) bool {
			if e, ok := n.(syntax.Expr); ok {
				if value, isText := literalText(e); isText && strings.Contains(value, ",,") {
					m.addRepairable(n, "vmrunner doubles commas in values; write one",
						replaceText(e, strings.ReplaceAll(value, ",,", ",")))
				}
			}
			return true
		})
	}
}
