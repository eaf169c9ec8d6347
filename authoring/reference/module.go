package reference

import (
	"fmt"
	"strings"

	"go.starlark.net/syntax"
)

// A Module describes the names that a Starlark file defines for other modules.
type Module struct {
	// Name is the name in load statements.
	Name string
	// Doc is the docstring of the module.
	Doc string
	// Functions are the functions of the module, in source order.
	Functions []Function
	// Constants are the other global names.
	Constants []string
}

// ReadModule parses the text of a module, without evaluating it.
func ReadModule(name, source string) (Module, error) {
	file, err := new(syntax.FileOptions).Parse(name, source, 0)
	if err != nil {
		return Module{}, fmt.Errorf("read module: %w", err)
	}
	m := Module{Name: name, Doc: docstringOf(file.Stmts)}
	for _, statement := range file.Stmts {
		switch s := statement.(type) {
		case *syntax.DefStmt:
			m.Functions = append(m.Functions, Defined(s, source))
		case *syntax.AssignStmt:
			if id, ok := s.LHS.(*syntax.Ident); ok {
				m.Constants = append(m.Constants, id.Name)
			}
		}
	}
	return m, nil
}

// Defined returns the description of a function definition. source is the text of the module. The docstring may
// describe parameters below a line "Args:", and the result below "Returns:".
func Defined(def *syntax.DefStmt, source string) Function {
	f := Function{Name: def.Name.Name}
	var args map[string]string
	f.Doc, args = argumentDocs(docstringOf(def.Body))
	keyword := false
	for _, parameter := range def.Params {
		var p Parameter
		switch x := parameter.(type) {
		case *syntax.Ident:
			p.Name = x.Name
		case *syntax.BinaryExpr:
			p.Name, p.Default = Text(x.X, source), Text(x.Y, source)
		case *syntax.UnaryExpr: // *args, **kwargs, and a bare star
			keyword = keyword || x.Op == syntax.STAR
			if x.X == nil {
				continue
			}
			p.Name = x.Op.String() + Text(x.X, source)
		}
		p.Keyword = keyword && !p.Rest()
		p.Doc = args[p.Bare()]
		f.Parameters = append(f.Parameters, p)
	}
	return f
}

// Text returns the source of an expression on one line.
func Text(e syntax.Expr, source string) string {
	start, end := e.Span()
	lines := strings.SplitAfter(source, "\n")
	if int(end.Line) > len(lines) || start.Line < 1 {
		return ""
	}
	var b strings.Builder
	for n := start.Line; n <= end.Line; n++ {
		line := []rune(lines[n-1])
		from, to := 0, len(line)
		if n == start.Line {
			from = min(int(start.Col)-1, len(line))
		}
		if n == end.Line {
			to = min(int(end.Col)-1, len(line))
		}
		b.WriteString(string(line[min(from, to):to]))
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// docstringOf returns the string at the beginning of a body, without the indentation of the source.
func docstringOf(body []syntax.Stmt) string {
	if len(body) == 0 {
		return ""
	}
	first, ok := body[0].(*syntax.ExprStmt)
	if !ok {
		return ""
	}
	literal, ok := first.X.(*syntax.Literal)
	if !ok || literal.Token != syntax.STRING {
		return ""
	}
	return unindent(literal.Value.(string))
}

// unindent removes the common indentation of all lines except the first.
func unindent(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	least := -1
	for _, line := range lines[1:] {
		if blanks := len(line) - len(strings.TrimLeft(line, " \t")); strings.TrimSpace(line) != "" &&
			(least < 0 || blanks < least) {
			least = blanks
		}
	}
	for i, line := range lines[1:] {
		lines[i+1] = strings.TrimRight(line[min(max(least, 0), len(line)):], " \t")
	}
	return strings.Join(lines, "\n")
}

// argumentDocs removes the lines below "Args:" from a docstring and returns them by parameter.
func argumentDocs(doc string) (rest string, args map[string]string) {
	args = map[string]string{}
	var kept []string
	within, last := false, ""
	for line := range strings.SplitSeq(doc, "\n") {
		indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
		switch name, text, ok := strings.Cut(strings.TrimSpace(line), ":"); {
		case strings.TrimSpace(line) == "Args:":
			within = true
		case within && indented && ok && isName(strings.TrimLeft(name, "*")):
			last = strings.TrimLeft(name, "*")
			args[last] = strings.TrimSpace(text)
		case within && indented && last != "":
			args[last] += " " + strings.TrimSpace(line)
		case within && strings.TrimSpace(line) == "":
		default:
			within = false
			kept = append(kept, line)
		}
	}
	return strings.TrimSpace(strings.Join(kept, "\n")), args
}

func isName(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9')
	}) < 0
}
