package vmtypes

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// A Coverage counts the executed code of custom modules. The context of an evaluation carries it (WithCoverage), even
// into the processes of package evaluate. The interpreter does not report lines. Therefore a call of a counter is added
// to the syntax tree of a module at each point, without changes to its positions. A Coverage is safe for concurrent
// use. The zero value is empty; nil ignores all counts.
//
// See docs/decisions/0190-tests-of-vm-types.md.
type Coverage struct {
	mu     sync.Mutex
	counts CoverageCounts
}

// CoverageCounts maps the names of modules to the counts of their points. Point number n of CoveragePoints has the two
// elements 2n and 2n+1: the executions of a statement or lambda and 0, or the true and false values of a condition.
type CoverageCounts map[string][]int

// A PointKind is the kind of a CoveragePoint.
type PointKind string

// The kinds of points. The name of a condition is the Starlark operator or keyword.
const (
	PointStatement PointKind = "statement"
	PointLambda    PointKind = "lambda"
	PointIf        PointKind = "if"
	PointAnd       PointKind = "and"
	PointOr        PointKind = "or"
)

// IsCondition reports whether the point is a condition, with two counts: a condition of an if, or the left operand of
// an operator.
func (k PointKind) IsCondition() bool { return k == PointIf || k == PointAnd || k == PointOr }

// A CoveragePoint is a place in a module with a counter for its executions.
type CoveragePoint struct {
	Kind PointKind
	// Line and Column are the place, counted from 1.
	Line, Column int
	// Function is the name of the function that begins with a statement; otherwise "".
	Function string
}

type coverageKey struct{}

// WithCoverage returns a context for evaluations that c counts.
func WithCoverage(ctx context.Context, c *Coverage) context.Context {
	return context.WithValue(ctx, coverageKey{}, c)
}

// CoverageOf returns the Coverage of a context, or nil.
func CoverageOf(ctx context.Context) *Coverage {
	c, _ := ctx.Value(coverageKey{}).(*Coverage)
	return c
}

// Add adds counts. It ignores modules with a different number of points than before.
func (c *Coverage) Add(counts CoverageCounts) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, added := range counts {
		sums := c.countsOf(name, len(added))
		if len(sums) != len(added) {
			continue
		}
		for i, n := range added {
			sums[i] += max(0, n)
		}
	}
}

// Take returns the counts, and sets them to zero.
func (c *Coverage) Take() CoverageCounts {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := make(CoverageCounts, len(c.counts))
	for name, counts := range c.counts {
		taken[name] = append([]int(nil), counts...)
		clear(counts) // loaded modules keep counting in it
	}
	return taken
}

// countsOf returns the counts of a module.
func (c *Coverage) countsOf(name string, length int) []int {
	if c.counts == nil {
		c.counts = CoverageCounts{}
	}
	if c.counts[name] == nil {
		c.counts[name] = make([]int, length)
	}
	return c.counts[name]
}

// CoveragePoints returns the points of a module in the order of CoverageCounts; nil for a module with a syntax error.
func CoveragePoints(name, source string) []CoveragePoint {
	file, err := fileOptions().Parse(name, source, 0)
	if err != nil {
		return nil
	}
	return addCounters(file)
}

// The names of the counters. Modules cannot use them, because they are not words of the language.
const (
	countPoint     = "count:point"     // (point) returns True
	countCondition = "count:condition" // (point, value) returns the value
)

// instrumentModule adds counters to a module, and returns the functions that they call.
func (c *Coverage) instrumentModule(name string, file *syntax.File) starlark.StringDict {
	points := addCounters(file)
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := c.countsOf(name, 2*len(points))
	count := func(args starlark.Tuple, by int) {
		point, _ := args[0].(starlark.Int).Int64()
		c.mu.Lock()
		defer c.mu.Unlock()
		counts[2*int(point)+by]++
	}
	counter := func(name string, count func(args starlark.Tuple) starlark.Value) starlark.Value {
		return starlark.NewBuiltin(name, func(
			_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple,
		) (starlark.Value, error) {
			return count(args), nil
		})
	}
	return starlark.StringDict{
		countPoint: counter(countPoint, func(args starlark.Tuple) starlark.Value {
			count(args, 0)
			return starlark.True
		}),
		countCondition: counter(countCondition, func(args starlark.Tuple) starlark.Value {
			if args[1].Truth() {
				count(args, 0)
			} else {
				count(args, 1)
			}
			return args[1]
		}),
	}
}

// addCounters inserts a call before each statement and around each condition. Other nodes and positions stay the same.
func addCounters(file *syntax.File) []CoveragePoint {
	n := &counters{added: map[syntax.Node]bool{}}
	syntax.Walk(file, func(node syntax.Node) bool {
		if node != nil && !n.added[node] {
			n.addToNode(node)
		}
		return true
	})
	return n.points
}

type counters struct {
	points []CoveragePoint
	added  map[syntax.Node]bool // operators that the counters need
}

func (n *counters) addToNode(node syntax.Node) {
	switch node := node.(type) {
	case *syntax.File:
		node.Stmts = n.countStatements(node.Stmts)
	case *syntax.DefStmt:
		before := len(n.points)
		node.Body = n.countStatements(node.Body)
		if len(n.points) > before {
			n.points[before].Function = node.Name.Name
		}
	case *syntax.IfStmt:
		node.Cond = n.countCondition(PointIf, node.Cond)
		node.True, node.False = n.countStatements(node.True), n.countStatements(node.False)
	case *syntax.ForStmt:
		node.Body = n.countStatements(node.Body)
	case *syntax.IfClause:
		node.Cond = n.countCondition(PointIf, node.Cond)
	case *syntax.CondExpr:
		node.Cond = n.countCondition(PointIf, node.Cond)
	case *syntax.BinaryExpr:
		switch node.Op {
		case syntax.AND:
			node.X = n.countCondition(PointAnd, node.X)
		case syntax.OR:
			node.X = n.countCondition(PointOr, node.X)
		}
	case *syntax.LambdaExpr:
		// The counter comes first, because the body may fail.
		counted := &syntax.BinaryExpr{
			X:  n.callCounter(countPoint, PointLambda, syntax.Start(node.Body)),
			Op: syntax.AND, OpPos: syntax.Start(node.Body), Y: node.Body,
		}
		n.added[counted] = true
		node.Body = counted
	}
}

// countStatements returns the statements with a counter before each. It omits def and load statements, and docstrings.
func (n *counters) countStatements(statements []syntax.Stmt) []syntax.Stmt {
	var list []syntax.Stmt
	for _, s := range statements {
		switch s := s.(type) {
		case *syntax.LoadStmt, *syntax.DefStmt:
		case *syntax.ExprStmt:
			if _, isText := s.X.(*syntax.Literal); isText {
				break
			}
			list = append(list, &syntax.ExprStmt{X: n.callCounter(countPoint, PointStatement, syntax.Start(s))})
		default:
			list = append(list, &syntax.ExprStmt{X: n.callCounter(countPoint, PointStatement, syntax.Start(s))})
		}
		list = append(list, s)
	}
	return list
}

func (n *counters) countCondition(kind PointKind, x syntax.Expr) syntax.Expr {
	return n.callCounter(countCondition, kind, syntax.Start(x), x)
}

// callCounter returns a call of a counter at a place, for a new point.
func (n *counters) callCounter(name string, kind PointKind, at syntax.Position, more ...syntax.Expr) *syntax.CallExpr {
	number := len(n.points)
	n.points = append(n.points, CoveragePoint{Kind: kind, Line: int(at.Line), Column: int(at.Col)})
	point := &syntax.Literal{Token: syntax.INT, TokenPos: at, Raw: strconv.Itoa(number), Value: int64(number)}
	return &syntax.CallExpr{
		Fn: &syntax.Ident{NamePos: at, Name: name}, Lparen: at, Rparen: at,
		Args: append([]syntax.Expr{point}, more...),
	}
}

// countExecutions adds counters to a custom module if the loader counts its evaluations. It returns the names that the
// module can use.
func (l *loader) countExecutions(m *module, file *syntax.File) starlark.StringDict {
	if l.ctx == nil { // the module is only compiled
		return l.predeclared
	}
	coverage := CoverageOf(l.ctx)
	if coverage == nil || strings.HasPrefix(m.name, stockPrefix) {
		return l.predeclared
	}
	names := coverage.instrumentModule(m.name, file)
	for name, v := range l.predeclared {
		names[name] = v
	}
	return names
}
