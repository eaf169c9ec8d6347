package lint

import "go.starlark.net/syntax"

// vocabulary is the module with a function for each common flag.
const vocabulary = "@vmtypes//lib/qemu.star"

// makers maps the functions of the vocabulary to their flags, and to the indexes of the arguments with the value and
// the properties.
var makers = map[string]struct {
	flag         string
	value, props int
}{
	"device":   {"-device", 0, 1},
	"object":   {"-object", 0, 2},
	"chardev":  {"-chardev", 1, 2},
	"netdev":   {"-netdev", 1, 2},
	"blockdev": {"-blockdev", 1, 2},
}

// An optionCall is a call that creates an option, as far as the source shows it.
type optionCall struct {
	call *syntax.CallExpr
	flag string // empty if it is computed
	// flagNode, valueNode and props are nil if they are missing in the call.
	flagNode, valueNode, props syntax.Expr
}

// optionCalls returns the calls of option() and of the vocabulary.
func (m *module) optionCalls() []optionCall {
	names := map[string]string{} // the local names of the functions
	for _, stmt := range m.file.Stmts {
		if load, ok := stmt.(*syntax.LoadStmt); ok && load.ModuleName() == vocabulary {
			for i, to := range load.To {
				names[to.Name] = load.From[i].Name
			}
		}
	}
	var list []optionCall
	syntax.Walk(m.file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok {
			return true
		}
		id, ok := call.Fn.(*syntax.Ident)
		if !ok {
			return true
		}
		if maker, ok := makers[names[id.Name]]; ok {
			list = append(list, optionCall{
				call: call, flag: maker.flag, valueNode: argumentOf(call, maker.value, ""),
				props: unlessNone(argumentOf(call, maker.props, "props")),
			})
		} else if id.Name == "option" {
			o := optionCall{
				call: call, flagNode: argumentOf(call, 0, "flag"),
				valueNode: unlessNone(argumentOf(call, 1, "value")), props: unlessNone(argumentOf(call, 2, "props")),
			}
			if o.flagNode != nil {
				o.flag, _ = literalText(o.flagNode)
			}
			list = append(list, o)
		}
		return true
	})
	return list
}

// argumentOf returns the argument of a call with this index or name, or nil.
func argumentOf(call *syntax.CallExpr, n int, name string) syntax.Expr {
	for i, arg := range call.Args {
		if keyword, ok := arg.(*syntax.BinaryExpr); ok && keyword.Op == syntax.EQ {
			if id, ok := keyword.X.(*syntax.Ident); ok && id.Name == name {
				return keyword.Y
			}
			continue
		}
		if i == n {
			return arg
		}
	}
	return nil
}

// unlessNone returns an expression unless it is None.
func unlessNone(e syntax.Expr) syntax.Expr {
	if id, ok := e.(*syntax.Ident); ok && id.Name == "None" {
		return nil
	}
	return e
}

// literalKeys returns the literal keys of a dict, or of several dicts joined with |.
func literalKeys(e syntax.Expr) []*syntax.Literal {
	switch e := e.(type) {
	case *syntax.DictExpr:
		var list []*syntax.Literal
		for _, item := range e.List {
			if literal, ok := item.(*syntax.DictEntry).Key.(*syntax.Literal); ok {
				list = append(list, literal)
			}
		}
		return list
	case *syntax.BinaryExpr:
		if e.Op == syntax.PIPE {
			return append(literalKeys(e.X), literalKeys(e.Y)...)
		}
	case *syntax.ParenExpr:
		return literalKeys(e.X)
	case *syntax.CondExpr:
		return append(literalKeys(e.True), literalKeys(e.False)...)
	}
	return nil
}
