package lint

import (
	"maps"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"vmop/vmspec"
	"vmop/vmtypes"
)

// The rule in this file follows launch through its branches and calls, and finds fields of optional sections, such as
// vm.display.spice, that are read without a test of the section. Whenever a condition or a call could have tested a
// section in a way that the rule does not understand, the section counts as tested.

// sectionRule is the rule in this file.
const sectionRule = "untested-section"

// untestedSection finds fields of optional sections that a type reads without a test.
func untestedSection(m *module) {
	if m.mentionsSection() {
		m.followLaunch(func(name string) bool { return name == m.name })
	}
}

// untestedSections finds such fields in the modules of the folder that types load.
func (f Folder) untestedSections(read func(string) (string, error)) []Finding {
	mentioned := map[string]bool{}
	for name, source := range f.Modules {
		if m := parseModule(name, source); m != nil && !m.isType() && m.mentionsSection() {
			mentioned[name] = true
		}
	}
	var list []Finding
	for name, source := range f.Modules {
		m := parseModule(name, source)
		if m == nil || len(mentioned) == 0 {
			continue
		}
		m.around.Read = read
		for _, loaded := range m.followLaunch(func(name string) bool { return mentioned[name] }) {
			list = append(list, loaded.allowedFindings()...)
		}
	}
	return list
}

// followLaunch follows launch, and adds findings to the modules with wanted names. It returns the other modules that it
// has read.
func (m *module) followLaunch(wanted func(name string) bool) map[string]*module {
	launch := m.functionNamed("launch")
	if !m.isType() || len(launch.Params) == 0 {
		return nil
	}
	vm, ok := launch.Params[0].(*syntax.Ident)
	if !ok {
		return nil
	}
	f := &follower{
		module: m, wanted: wanted, optional: vmspec.OptionalSections(), loaded: map[string]*module{},
		touched: sectionSet{}, followed: map[*syntax.CallExpr]sectionSet{},
	}
	f.execFunction(launch, facts{paths: map[string]string{vm.Name: "vm"}})
	maps.DeleteFunc(f.loaded, func(_ string, other *module) bool { return other == nil })
	return f.loaded
}

// isLibrary reports whether the module is part of the stock library.
func (m *module) isLibrary() bool { return strings.HasPrefix(m.name, vmtypes.StockPrefix) }

// mentionsSection reports whether the module contains the name of an optional section as a field.
func (m *module) mentionsSection() bool {
	var names []string
	for _, path := range vmspec.OptionalSections() {
		names = append(names, path[strings.LastIndexByte(path, '.')+1:])
	}
	found := false
	syntax.Walk(m.file, func(n syntax.Node) bool {
		dot, ok := n.(*syntax.DotExpr)
		found = found || ok && slices.Contains(names, dot.Name.Name)
		return !found
	})
	return found
}

// Limits of followed calls: their depth and their number.
const (
	deepestCall = 12
	mostCalls   = 2000
)

// A follower executes functions without their values.
type follower struct {
	module   *module                // the module of the current function
	wanted   func(name string) bool // whether findings are added to a module
	optional []string
	depth    int
	calls    int
	returned []facts            // the facts at the return statements of the current function
	loaded   map[string]*module // nil: cannot be read
	touched  sectionSet         // the sections that the current function reads
	// followed are the sections that the functions of calls have read.
	followed map[*syntax.CallExpr]sectionSet
}

// execFunction returns the facts about sections at the end of a function. s contains the facts about its parameters.
func (f *follower) execFunction(def *syntax.DefStmt, s facts) facts {
	outer := f.returned
	f.returned = nil
	s.hints = nil
	end := f.execBlock(def.Body, s)
	for _, r := range f.returned {
		end = end.joinWith(r)
	}
	f.returned = outer
	return end
}

// execBlock executes statements.
func (f *follower) execBlock(block []syntax.Stmt, s facts) facts {
	for _, stmt := range block {
		if s.over {
			return s
		}
		s = f.execStatement(stmt, s)
	}
	return s
}

// execStatement executes a statement.
func (f *follower) execStatement(stmt syntax.Stmt, s facts) facts {
	switch stmt := stmt.(type) {
	case *syntax.ExprStmt:
		s = f.eval(stmt.X, s)
		s.over = endsFunction(stmt) || isCall(stmt.X, "refuse")
		s.failed = s.over
	case *syntax.AssignStmt:
		s = f.eval(stmt.RHS, s)
		s = f.assign(stmt.LHS, stmt.RHS, "", s)
	case *syntax.IfStmt:
		s = f.eval(stmt.Cond, s)
		o := f.outcomesOf(stmt.Cond, s)
		if f.module.isLibrary() {
			o.partial = nil // its tests of sections together with something else are not for types
		}
		return s.joinBranches(o, f.execBlock(stmt.True, s.when(o.yes, o.doubtful)),
			f.execBlock(stmt.False, s.when(o.no, o.doubtful)))
	case *syntax.ForStmt:
		s = f.eval(stmt.X, s)
		body := f.execBlock(stmt.Body, f.assign(stmt.Vars, stmt.X, "[]", s))
		s.guarded = body.guarded
		return f.forget(stmt.Vars, s.when(nil, unite(body.tested, body.doubtful)))
	case *syntax.ReturnStmt:
		if stmt.Result != nil {
			s = f.eval(stmt.Result, s)
		}
		f.returned = append(f.returned, s)
		s.over, s.failed = true, false
	case *syntax.BranchStmt:
		s.over = stmt.Token != syntax.PASS
	case *syntax.DefStmt:
		return f.forget(stmt.Name, s)
	}
	return s
}

// forget removes the facts about assigned variables.
func (f *follower) forget(target syntax.Expr, s facts) facts {
	s = s.cloneFacts()
	for _, id := range assignedNames(target) {
		delete(s.paths, id.Name)
		delete(s.hints, id.Name)
	}
	return s
}

// assign assigns a value, or with the suffix [] the elements of a value.
func (f *follower) assign(target, value syntax.Expr, suffix string, s facts) facts {
	before := s
	s = f.forget(target, s)
	hints := f.sectionsIn(value, before)
	for _, id := range assignedNames(target) {
		s.hints[id.Name] = hints
	}
	element := target
	if call, ok := value.(*syntax.CallExpr); ok && isCall(call, "enumerate") && len(call.Args) > 0 {
		if pair := tupleElements(target); len(pair) == 2 {
			element, value = pair[1], call.Args[0]
		}
	}
	if id, ok := element.(*syntax.Ident); ok {
		if path := f.pathOf(value, before); path != "" {
			s.paths[id.Name] = path + suffix
		}
	}
	return s
}

// tupleElements returns the elements of a tuple, or nil.
func tupleElements(e syntax.Expr) []syntax.Expr {
	switch e := e.(type) {
	case *syntax.ParenExpr:
		return tupleElements(e.X)
	case *syntax.TupleExpr:
		return e.List
	}
	return nil
}

// pathOf returns the path of the field that an expression reads, or "".
func (f *follower) pathOf(e syntax.Expr, s facts) string {
	return vmtypes.FieldPath(e, func(name string) string { return s.paths[name] })
}

// eval evaluates an expression, and returns the facts after it.
func (f *follower) eval(e syntax.Expr, s facts) facts {
	switch e := e.(type) {
	case *syntax.Ident:
		f.touch(s.paths[e.Name])
	case *syntax.DotExpr:
		s = f.eval(e.X, s)
		f.touch(f.pathOf(e, s))
		f.readField(e, s)
	case *syntax.ParenExpr:
		return f.eval(e.X, s)
	case *syntax.UnaryExpr:
		if e.X != nil {
			return f.eval(e.X, s)
		}
	case *syntax.BinaryExpr:
		return f.evalBinary(e, s)
	case *syntax.CondExpr:
		s = f.eval(e.Cond, s)
		o := f.outcomesOf(e.Cond, s)
		return s.joinBranches(o, f.eval(e.True, s.when(o.yes, o.doubtful)), f.eval(e.False, s.when(o.no, o.doubtful)))
	case *syntax.CallExpr:
		return f.evalCall(e, s)
	case *syntax.Comprehension:
		f.evalComprehension(e, s)
	case *syntax.IndexExpr:
		return f.eval(e.Y, f.eval(e.X, s))
	case *syntax.SliceExpr:
		return f.eval(e.X, s)
	case *syntax.ListExpr:
		return f.evalAll(e.List, s)
	case *syntax.TupleExpr:
		return f.evalAll(e.List, s)
	case *syntax.DictExpr:
		for _, item := range e.List {
			entry := item.(*syntax.DictEntry)
			s = f.eval(entry.Value, f.eval(entry.Key, s))
		}
	}
	return s // a lambda may be called later, or never
}

func (f *follower) evalAll(list []syntax.Expr, s facts) facts {
	for _, e := range list {
		s = f.eval(e, s)
	}
	return s
}

// touch notes that the current function reads a section.
func (f *follower) touch(path string) {
	if slices.Contains(f.optional, path) {
		f.touched[path] = true
	}
}

// readField adds a finding if the owner of a field is an optional section that was not tested.
func (f *follower) readField(e *syntax.DotExpr, s facts) {
	path := f.pathOf(e.X, s)
	within := func(section string) bool { return strings.HasPrefix(path, section+".") && !s.isQuiet(section) }
	if slices.Contains(f.optional, path) && !s.isQuiet(path) && f.wanted(f.module.name) &&
		!slices.ContainsFunc(f.optional, within) { // that section has a finding already
		f.module.rule = sectionRule
		f.module.addFinding(e, vmspec.AbsentSection(path))
	}
}

// evalBinary evaluates the operands of an operator. The second operand of "and" and "or" depends on the first.
func (f *follower) evalBinary(e *syntax.BinaryExpr, s facts) facts {
	s = f.eval(e.X, s)
	switch e.Op {
	case syntax.AND:
		o := f.outcomesOf(e.X, s)
		f.eval(e.Y, s.when(o.yes, o.doubtful))
		return s
	case syntax.OR:
		o := f.outcomesOf(e.X, s)
		f.eval(e.Y, s.when(o.no, o.doubtful))
		return s
	}
	return f.eval(e.Y, s)
}

// evalComprehension evaluates a comprehension. Its variables end with it.
func (f *follower) evalComprehension(e *syntax.Comprehension, s facts) {
	for _, clause := range e.Clauses {
		switch clause := clause.(type) {
		case *syntax.ForClause:
			s = f.assign(clause.Vars, clause.X, "[]", f.eval(clause.X, s))
		case *syntax.IfClause:
			s = f.eval(clause.Cond, s)
			o := f.outcomesOf(clause.Cond, s)
			s = s.when(o.yes, o.doubtful)
		}
	}
	if entry, ok := e.Body.(*syntax.DictEntry); ok {
		f.eval(entry.Value, f.eval(entry.Key, s))
		return
	}
	f.eval(e.Body, s)
}

// evalCall evaluates the arguments of a call, and follows the call.
func (f *follower) evalCall(e *syntax.CallExpr, s facts) facts {
	s = f.eval(e.Fn, s)
	values := make([]syntax.Expr, len(e.Args))
	for i, arg := range e.Args {
		values[i] = arg
		if keyword, ok := arg.(*syntax.BinaryExpr); ok && keyword.Op == syntax.EQ {
			values[i] = keyword.Y
		}
		s = f.eval(values[i], s)
	}
	id, ok := e.Fn.(*syntax.Ident)
	if ok && (vmtypes.Predeclared().Has(id.Name) || starlark.Universe.Has(id.Name)) {
		return s // no builtin tests a section
	}
	isVM := slices.ContainsFunc(values, func(value syntax.Expr) bool { return f.pathOf(value, s) != "" })
	if ok && isVM && f.depth < deepestCall && f.calls < mostCalls {
		if m, def := f.findFunction(f.module, id.Name); def != nil {
			end := f.call(m, def, e, s)
			s = s.when(end.tested, end.doubtful)
			s.guarded = unite(s.guarded, end.guarded)
			return s
		}
	}
	all := f.sectionsIn(e, s)
	f.touched = unite(f.touched, all)
	if !f.module.isLibrary() { // the library does not leave tests to a function in a variable
		s.guarded = unite(s.guarded, all)
	}
	return s
}

// call follows a call of a function in a module, and returns the facts at the end of the function.
func (f *follower) call(m *module, def *syntax.DefStmt, e *syntax.CallExpr, s facts) facts {
	inner := facts{paths: map[string]string{}, tested: s.tested, doubtful: s.doubtful, guarded: s.guarded}
	for i, param := range def.Params {
		id, ok := parameterName(param).(*syntax.Ident)
		if !ok {
			continue
		}
		if arg := argumentOf(e, i, id.Name); arg != nil {
			if path := f.pathOf(arg, s); path != "" {
				inner.paths[id.Name] = path
			}
		}
	}
	module, touched := f.module, f.touched
	f.module, f.touched = m, sectionSet{}
	f.calls++
	f.depth++
	end := f.execFunction(def, inner)
	f.depth--
	f.followed[e] = f.touched
	f.module, f.touched = module, unite(touched, f.touched)
	return end
}

// findFunction returns the function with a name in a module, or in the module that it loads the name from, with the
// function's module.
func (f *follower) findFunction(m *module, name string) (*module, *syntax.DefStmt) {
	for range deepestLoad {
		if def := m.functionNamed(name); def != nil {
			return m, def
		}
		from, original := m.loadOf(name)
		if from == "" {
			return nil, nil
		}
		next, known := f.loaded[from]
		if !known {
			next = m.loadedModule(from)
			f.loaded[from] = next
		}
		if next == nil {
			return nil, nil
		}
		m, name = next, original
	}
	return nil, nil
}

// loadOf returns the module that a name is loaded from, and the name in that module; "" if it is not loaded.
func (m *module) loadOf(name string) (from, original string) {
	for _, stmt := range m.file.Stmts {
		load, ok := stmt.(*syntax.LoadStmt)
		if !ok {
			continue
		}
		for i, to := range load.To {
			if to.Name == name {
				return load.ModuleName(), load.From[i].Name
			}
		}
	}
	return "", ""
}

// sectionsIn returns the optional sections that the value of an expression could depend on: those that it reads, those
// in the arguments of its calls, and those that its variables depend on.
func (f *follower) sectionsIn(e syntax.Expr, s facts) sectionSet {
	all := sectionSet{}
	add := func(path string, below bool) {
		for _, section := range f.optional {
			if section == path || below && strings.HasPrefix(section, path) || strings.HasPrefix(path, section+".") {
				all[section] = true
			}
		}
	}
	within := s
	syntax.Walk(e, func(n syntax.Node) bool { // a comprehension uses its variables before it binds them
		if n, ok := n.(*syntax.ForClause); ok {
			within = f.assign(n.Vars, n.X, "[]", within)
		}
		return true
	})
	syntax.Walk(e, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			if read, ok := f.followed[n]; ok {
				all = unite(all, read)
				return true
			}
			for _, arg := range n.Args {
				if keyword, ok := arg.(*syntax.BinaryExpr); ok && keyword.Op == syntax.EQ {
					arg = keyword.Y
				}
				if path := f.pathOf(arg, within); path != "" {
					add(path, true)
				}
			}
		case *syntax.Ident:
			all = unite(all, within.hints[n.Name])
			add(within.paths[n.Name], false)
		case *syntax.DotExpr:
			add(f.pathOf(n, within), false)
		}
		return true
	})
	return all
}
