package lint

import "go.starlark.net/syntax"

// The rules in this file check the order of execution and the results.

// findUnreachable finds unreachable statements.
func findUnreachable(m *module) {
	eachBlock(m.file, func(block []syntax.Stmt) {
		for i, stmt := range block {
			if leavesBlock(stmt) && i+1 < len(block) {
				m.addFinding(block[i+1], "this is never reached: the statement before it returns, fails or leaves the loop")
				return
			}
		}
	})
}

// leavesBlock reports whether the code after a statement is unreachable.
func leavesBlock(stmt syntax.Stmt) bool {
	switch s := stmt.(type) {
	case *syntax.BranchStmt:
		return s.Token != syntax.PASS
	case *syntax.IfStmt:
		return len(s.False) > 0 && leavesAll(s.True) && leavesAll(s.False)
	}
	return endsFunction(stmt)
}

// endsFunction reports whether a statement ends the function.
func endsFunction(stmt syntax.Stmt) bool {
	switch s := stmt.(type) {
	case *syntax.ReturnStmt:
		return true
	case *syntax.ExprStmt:
		return isCall(s.X, "fail")
	case *syntax.IfStmt:
		return len(s.False) > 0 && endsAll(s.True) && endsAll(s.False)
	}
	return false
}

func leavesAll(block []syntax.Stmt) bool { return len(block) > 0 && leavesBlock(block[len(block)-1]) }

func endsAll(block []syntax.Stmt) bool {
	for _, stmt := range block {
		if endsFunction(stmt) {
			return true
		}
	}
	return false
}

// isCall reports whether an expression is a call of a function with this name.
func isCall(e syntax.Expr, name string) bool {
	call, ok := e.(*syntax.CallExpr)
	if !ok {
		return false
	}
	id, ok := call.Fn.(*syntax.Ident)
	return ok && id.Name == name
}

// eachBlock calls look with each list of statements.
func eachBlock(file *syntax.File, look func([]syntax.Stmt)) {
	look(file.Stmts)
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.DefStmt:
			look(n.Body)
		case *syntax.ForStmt:
			look(n.Body)
		case *syntax.IfStmt:
			look(n.True)
			look(n.False)
		}
		return true
	})
}

// returnValue finds functions that return a value on some paths only.
func returnValue(m *module) {
	syntax.Walk(m.file, func(n syntax.Node) bool {
		def, ok := n.(*syntax.DefStmt)
		if !ok {
			return true
		}
		withValue := false
		var bare []*syntax.ReturnStmt
		eachReturn(def.Body, func(r *syntax.ReturnStmt) {
			if r.Result == nil {
				bare = append(bare, r)
			} else {
				withValue = true
			}
		})
		if !withValue {
			return true
		}
		for _, r := range bare {
			m.addFinding(r, "this returns no value, but "+def.Name.Name+" returns a value elsewhere; use return None")
		}
		if !endsAll(def.Body) {
			m.addFinding(def.Name, def.Name.Name+
				" returns a value on some paths, but not at its end; use return None")
		}
		return true
	})
}

// eachReturn calls look with the return statements of a function, without the return statements of nested functions.
func eachReturn(body []syntax.Stmt, look func(*syntax.ReturnStmt)) {
	for _, stmt := range body {
		switch s := stmt.(type) {
		case *syntax.ReturnStmt:
			look(s)
		case *syntax.IfStmt:
			eachReturn(s.True, look)
			eachReturn(s.False, look)
		case *syntax.ForStmt:
			eachReturn(s.Body, look)
		}
	}
}

// pure contains the builtins without side effects.
var pure = map[string]bool{
	"part": true, "combine": true, "replace": true, "option": true, "process": true, "tap": true, "listen": true,
	"copy_once": true, "access": true, "struct": true,
}

// noEffect finds statements with an unused value and no side effect.
func noEffect(m *module) {
	eachBlock(m.file, func(block []syntax.Stmt) {
		for i, stmt := range block {
			s, ok := stmt.(*syntax.ExprStmt)
			if !ok {
				continue
			}
			if _, isText := literalText(s.X); isText && i == 0 {
				continue // a docstring
			}
			call, ok := s.X.(*syntax.CallExpr)
			if !ok {
				m.addFinding(s, "this expression has no effect: its value is unused")
				continue
			}
			if id, ok := call.Fn.(*syntax.Ident); ok && pure[id.Name] {
				m.addFinding(s, id.Name+" only returns a value, which is unused; is a return or a combine missing?")
			}
		}
	})
}
