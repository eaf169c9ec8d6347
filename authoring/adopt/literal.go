package adopt

import (
	"slices"
	"strings"

	"go.starlark.net/syntax"

	"vmop/vmtypes/plan"
)

// editLiteral changes properties in the call that sets them, if the module itself contains this call with a literal
// dict. It reports whether it was possible. The caller must evaluate the result: the call can create several options.
func (m *moduleEditor) editLiteral(e edit) bool {
	if len(e.set) == 0 || e.selector == "-machine" || e.replace != nil {
		return false
	}
	dict := m.dictAt(lastPlace(e.origin))
	if dict == nil {
		return false
	}
	added, cuts := []string{}, []replacement{}
	for _, s := range e.set {
		at := slices.IndexFunc(dict.List, func(entry syntax.Expr) bool {
			key, ok := entry.(*syntax.DictEntry).Key.(*syntax.Literal)
			return ok && key.Value == s.key
		})
		if at < 0 {
			added = append(added, quoted(s.key)+": "+s.literal())
			continue
		}
		value := dict.List[at].(*syntax.DictEntry).Value
		if !isLiteral(value) {
			return false // it depends on something that a constant would ignore
		}
		from, to := value.Span()
		cuts = append(cuts, replacement{m.offset(from), m.offset(to), s.literal()})
	}
	if len(added) > 0 {
		end := m.offset(dict.Rbrace)
		before := strings.TrimRight(m.text[:end], " \n\t")
		text := strings.Join(added, ", ")
		if len(dict.List) > 0 && !strings.HasSuffix(before, ",") {
			text = ", " + text
		}
		cuts = append(cuts, replacement{len(before), len(before), text})
	}
	m.cuts = append(m.cuts, cuts...)
	return true
}

// isLiteral reports whether an expression is a constant.
func isLiteral(e syntax.Expr) bool {
	switch e := e.(type) {
	case *syntax.Literal:
		return true
	case *syntax.Ident:
		return e.Name == "True" || e.Name == "False" || e.Name == "None"
	}
	return false
}

// lastPlace returns the place of the last change of an option, or of its creation.
func lastPlace(origin plan.Origin) plan.Frame {
	if len(origin) == 0 {
		return plan.Frame{}
	}
	place := origin[0]
	for _, f := range origin {
		if f.Step == plan.Changed {
			place = f
		}
	}
	return place
}

// dictAt returns the literal dict of properties in the only call at a place that can set some; nil if there is none.
func (m *moduleEditor) dictAt(place plan.Frame) *syntax.DictExpr {
	if place.File != m.name {
		return nil
	}
	var found []*syntax.DictExpr
	syntax.Walk(m.file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok || int(call.Lparen.Line) != place.Line || len(call.Args) == 0 {
			return true
		}
		name, ok := call.Fn.(*syntax.Ident)
		if !ok || !slices.Contains([]string{"option", "device", "object", "chardev", "netdev", "blockdev", "change"},
			name.Name) {
			return true
		}
		dict, _ := call.Args[len(call.Args)-1].(*syntax.DictExpr)
		found = append(found, dict)
		return true
	})
	if len(found) != 1 {
		return nil
	}
	return found[0]
}
