package lint

import "go.starlark.net/syntax"

// outcomes are the sections that exist if a condition is true, and if it is false. The condition could have tested the
// doubtful sections in a way that the rule does not understand. partial are the sections that it tests together with
// something else.
type outcomes struct{ yes, no, doubtful, partial sectionSet }

// outcomesOf returns the outcomes of a condition.
func (f *follower) outcomesOf(e syntax.Expr, s facts) outcomes {
	if path := f.pathOf(e, s); path != "" {
		return outcomes{yes: sectionSet{path: true}}
	}
	switch e := e.(type) {
	case *syntax.ParenExpr:
		return f.outcomesOf(e.X, s)
	case *syntax.UnaryExpr:
		if e.Op == syntax.NOT {
			o := f.outcomesOf(e.X, s)
			o.yes, o.no = o.no, o.yes
			return o
		}
	case *syntax.BinaryExpr:
		switch e.Op {
		case syntax.AND, syntax.OR:
			x, y := f.outcomesOf(e.X, s), f.outcomesOf(e.Y, s)
			o := outcomes{
				doubtful: unite(x.doubtful, y.doubtful),
				partial:  unite(x.yes, x.no, x.partial, y.yes, y.no, y.partial),
			}
			if e.Op == syntax.AND {
				o.yes, o.no = unite(x.yes, y.yes), intersect(x.no, y.no)
			} else {
				o.yes, o.no = intersect(x.yes, y.yes), unite(x.no, y.no)
			}
			return o
		case syntax.EQL, syntax.NEQ:
			path := f.pathOf(e.X, s)
			section := sectionSet{path: true}
			switch {
			case path == "" || unlessNone(e.Y) != nil:
			case e.Op == syntax.EQL:
				return outcomes{no: section}
			default:
				return outcomes{yes: section}
			}
		}
	}
	return outcomes{doubtful: f.sectionsIn(e, s)}
}
