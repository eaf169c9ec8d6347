package vmtypes

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"go.starlark.net/syntax"
)

// A Description contains everything that a VM type declares about itself. It is the source for help texts,
// documentation and editors. It has a JSON form for the transfer from another process.
type Description struct {
	// Name is the name of the type in a configuration.
	Name string `json:"name"`
	// Stock means that the type is part of the program.
	Stock bool `json:"stock"`
	// Doc is the docstring of the type's module, or "".
	Doc string `json:"doc"`
	// APIVersion is the version of the language; see version.go.
	APIVersion int `json:"apiVersion"`
	// Options are the declared options, in the order of the source, with their places.
	Options []Option `json:"options"`
	// Sizing contains sizes of new VMs; zero if the type declares none.
	Sizing Sizing `json:"sizing,omitzero"`
	// Drivers are the drivers that the setup of guests lacks; zero if the type declares none.
	Drivers Drivers `json:"drivers,omitzero"`
	// Modules are all modules of the type. The module that defines launch comes first. Each module precedes the
	// modules that it loads.
	Modules []Module `json:"modules"`
}

// A Module describes one file of a VM type.
type Module struct {
	// Name is the name in load statements: "@vmtypes//lib/tpm.star", or "asset.star".
	Name string `json:"name"`
	// Doc is the docstring of the module, without indentation.
	Doc string `json:"doc"`
	// Loads are the names of the loaded modules.
	Loads []string `json:"loads,omitempty"`
	// Functions and Values are the names that other modules can load, in the order of the source. Names that
	// begin with "_" are omitted.
	Functions []Function `json:"functions,omitempty"`
	Values    []Value    `json:"values,omitempty"`
}

// A Function describes a function of a module.
type Function struct {
	Name string `json:"name"`
	// Line is the line of the definition, counted from 1.
	Line       int         `json:"line"`
	Parameters []Parameter `json:"parameters,omitempty"`
	// Doc is the docstring of the function, without indentation.
	Doc string `json:"doc"`
}

// A Parameter describes a parameter of a function.
type Parameter struct {
	// Name is the name of the parameter, including its stars.
	Name string `json:"name"`
	// Default is the source text of the default; "" if there is none.
	Default string `json:"default,omitempty"`
}

// A Value describes a global variable of a module.
type Value struct {
	Name string `json:"name"`
	// Line is the line of the definition, counted from 1.
	Line int `json:"line"`
	// Doc is the comment above the variable.
	Doc string `json:"doc,omitempty"`
}

// UnmarshalJSON reads an option and restores whole numbers as int64.
func (o *Option) UnmarshalJSON(data []byte) error {
	type plain Option // without this method
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode((*plain)(o)); err != nil {
		return err
	}
	for a := &o.Attr; a != nil; a = a.Of {
		a.Default = numbersOf(a.Default)
		for i, v := range a.Values {
			a.Values[i] = numbersOf(v)
		}
		for _, c := range a.RequiredIf {
			numbersOf(c.Values)
		}
	}
	return nil
}

// numbersOf converts all json.Number in a value to int64 or float64.
func numbersOf(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // JSON has no other numbers
		return f
	case []any:
		for i := range v {
			v[i] = numbersOf(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = numbersOf(v[key])
		}
	}
	return v
}

// Signature returns the function's name with its parameters: "f(a, b = 1)".
func (f Function) Signature() string {
	words := make([]string, len(f.Parameters))
	for i, p := range f.Parameters {
		words[i] = p.Name
		if p.Default != "" {
			words[i] += " = " + p.Default
		}
	}
	return f.Name + "(" + strings.Join(words, ", ") + ")"
}

// Describe returns the type's description. It parses the sources again, which takes some milliseconds.
func (t *Type) Describe() Description {
	d := Description{
		Name: t.name, Stock: strings.HasPrefix(t.entry, stockPrefix), APIVersion: t.apiVersion,
		Options: t.options.options, Sizing: t.sizing, Drivers: t.drivers, Modules: []Module{},
	}
	if d.Options == nil {
		d.Options = []Option{}
	}
	for _, m := range slices.Backward(t.modules) { // the entry was loaded last
		d.Modules = append(d.Modules, DescribeModule(m.name, m.source))
	}
	d.Doc = d.Modules[0].Doc
	return d
}

// DescribeModule returns the description of a module from its source. If the source has a syntax error, the
// description contains only the name.
func DescribeModule(name, source string) Module {
	m := Module{Name: name}
	file, err := fileOptions().Parse(name, source, syntax.RetainComments)
	if err != nil {
		return m
	}
	m.Doc = docstringOf(file.Stmts)
	for _, stmt := range file.Stmts {
		switch s := stmt.(type) {
		case *syntax.LoadStmt:
			if loaded, err := resolveLoad(name, s.ModuleName()); err == nil && !slices.Contains(m.Loads, loaded) {
				m.Loads = append(m.Loads, loaded)
			}
		case *syntax.DefStmt:
			if !strings.HasPrefix(s.Name.Name, "_") {
				m.Functions = append(m.Functions, describeFunction(s, source))
			}
		case *syntax.AssignStmt:
			if id, ok := s.LHS.(*syntax.Ident); ok && s.Op == syntax.EQ && !strings.HasPrefix(id.Name, "_") {
				m.Values = append(m.Values, Value{Name: id.Name, Line: int(id.NamePos.Line), Doc: commentsAbove(s)})
			}
		}
	}
	return m
}

// docstringOf returns the string at the beginning of a file or a function.
func docstringOf(stmts []syntax.Stmt) string {
	if len(stmts) == 0 {
		return ""
	}
	expr, ok := stmts[0].(*syntax.ExprStmt)
	if !ok {
		return ""
	}
	literal, ok := expr.X.(*syntax.Literal)
	if !ok || literal.Token != syntax.STRING {
		return ""
	}
	text, _ := literal.Value.(string)
	return unindentDocstring(text)
}

// unindentDocstring removes the source's indentation from a docstring. The first line has no indentation.
func unindentDocstring(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	least := -1
	for _, line := range lines[1:] {
		if rest := strings.TrimLeft(line, " "); rest != "" && (least < 0 || len(line)-len(rest) < least) {
			least = len(line) - len(rest)
		}
	}
	for i, line := range lines[1:] {
		lines[i+1] = strings.TrimRight(line[min(max(least, 0), len(line)):], " ")
	}
	return strings.Join(lines, "\n")
}

func describeFunction(def *syntax.DefStmt, source string) Function {
	f := Function{Name: def.Name.Name, Line: int(def.Def.Line), Doc: docstringOf(def.Body)}
	for _, p := range def.Params {
		switch p := p.(type) {
		case *syntax.Ident:
			f.Parameters = append(f.Parameters, Parameter{Name: p.Name})
		case *syntax.BinaryExpr: // name = default
			start, end := p.Y.Span()
			f.Parameters = append(f.Parameters, Parameter{
				Name:    p.X.(*syntax.Ident).Name,
				Default: textOf(source, start, end),
			})
		case *syntax.UnaryExpr: // *, *args or **kwargs
			name := p.Op.String()
			if id, ok := p.X.(*syntax.Ident); ok {
				name += id.Name
			}
			f.Parameters = append(f.Parameters, Parameter{Name: name})
		}
	}
	return f
}

// textOf returns the source between two positions, on one line. Columns count characters.
func textOf(source string, start, end syntax.Position) string {
	var b strings.Builder
	for line := start.Line; line <= end.Line; line++ {
		text := []rune(sourceLine(source, int(line)))
		from, to := 0, len(text)
		if line == start.Line {
			from = min(int(start.Col)-1, to)
		}
		if line == end.Line {
			to = max(min(int(end.Col)-1, to), from)
		}
		b.WriteString(string(text[from:to]) + " ")
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// commentsAbove returns the text of the comments right above a statement.
func commentsAbove(s syntax.Node) string {
	if s.Comments() == nil {
		return ""
	}
	start, _ := s.Span()
	var lines []string
	next := start.Line
	for _, c := range slices.Backward(s.Comments().Before) {
		if c.Start.Line != next-1 {
			break
		}
		lines = append(lines, strings.TrimSpace(strings.TrimPrefix(c.Text, "#")))
		next--
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}
