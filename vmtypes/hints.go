package vmtypes

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"vmop/vmspec"
)

// The functions in this file complete the interpreter's messages with the cause, or with a replacement.

// hasFormatted reports whether a text contains a Python f-string.
func hasFormatted(text string) bool {
	for i := 1; i < len(text); i++ {
		if (text[i] == '"' || text[i] == '\'') && text[i-1]|0x20 == 'f' && (i == 1 || !isWordByte(text[i-2])) {
			return true
		}
	}
	return false
}

// syntaxHint suggests a replacement for a statement or string that exists only in Python, or for characters that
// Starlark doesn't know. text is the source up to the error, rest the rest of the line.
func syntaxHint(msg, text, rest string) string {
	line := text[strings.LastIndexByte(text, '\n')+1:]
	switch {
	case strings.HasPrefix(msg, "got import"):
		return "; write load(\"file.star\", \"name\")"
	case strings.HasPrefix(msg, "got try"), strings.HasPrefix(msg, "got raise"), strings.HasPrefix(msg, "got except"):
		return "; Starlark has no exceptions: test before, and call fail(\"…\")"
	case strings.HasPrefix(msg, "got class"):
		return "; Starlark has no classes: use struct(name = value)"
	case strings.HasPrefix(msg, "got with"):
		return "; Starlark has no with"
	case strings.HasPrefix(msg, "got is"),
		strings.HasPrefix(msg, "conditional expression without else") && strings.Contains(rest, " is "):
		return "; Starlark has no is: write == or !="
	case strings.HasPrefix(msg, "got '='"):
		return assignmentHint(msg, line)
	case strings.HasPrefix(msg, "got indent"), strings.HasPrefix(msg, "got outdent"),
		strings.HasPrefix(msg, "unindent"):
		return indentHint(text)
	case strings.HasPrefix(msg, "got string literal") && hasFormatted(line):
		return "; Starlark has no f-strings: write \"%s\" % x, or \"{}\".format(x)"
	}
	if _, quoted, ok := strings.Cut(msg, "unexpected input character "); ok {
		return characterHint(quoted)
	}
	return ""
}

// assignmentHint explains an equals sign at the end of an expression.
func assignmentHint(msg, before string) string {
	first, rest, assigned := strings.Cut(strings.TrimSuffix(before, "="), "=")
	switch {
	case strings.Contains(before, "lambda"):
		return "; a lambda is one expression without an assignment: write a def"
	case strings.HasSuffix(msg, "want ':'"), strings.HasSuffix(msg, "want else"):
		return "; write == to compare"
	case assigned && strings.HasSuffix(msg, "want newline"):
		first, rest = strings.TrimSpace(first), strings.TrimSpace(rest)
		return fmt.Sprintf("; assign one name per line: %s = …, then %s = %s", rest, first, rest)
	}
	return ""
}

// indentHint explains an unexpected indentation if the text mixes tabs and spaces.
func indentHint(text string) string {
	tabs, spaces := false, false
	for line := range strings.Lines(text) {
		indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		tabs, spaces = tabs || strings.Contains(indent, "\t"), spaces || strings.Contains(indent, " ")
	}
	if tabs && spaces {
		return "; the lines are indented with tabs and with spaces, and a tab counts as eight: use four spaces only"
	}
	return ""
}

// characterHint suggests a replacement for a character of a word processor. quoted begins with the character in quotes.
func characterHint(quoted string) string {
	if len(quoted) < 2 {
		return ""
	}
	switch r, _ := utf8.DecodeRuneInString(quoted[1:]); r {
	case '“', '”', '„', '«', '»':
		return "; write a straight quote, \""
	case '‘', '’', '‚':
		return "; write a straight quote, '"
	case '\u00a0', '\\': // the message shows a no-break space as an escape sequence
		return "; write an ordinary space"
	case '–', '—', '−':
		return "; write a hyphen, -"
	}
	return ""
}

// evalHint returns the interpreter's message with its cause, which the source at a place shows.
func evalHint(msg string, place syntax.Position, source string) string {
	switch {
	case strings.HasPrefix(msg, "NoneType has no ."):
		return explainNone(msg, place, source)
	case strings.HasPrefix(msg, "invalid call of non-function"):
		return msg + hiddenFunction(place, source)
	}
	return msg
}

// explainNone explains why the expression before a dot is None.
func explainNone(msg string, place syntax.Position, source string) string {
	file, err := fileOptions().Parse(place.Filename(), source, 0)
	if err != nil {
		return msg
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		dot, ok := n.(*syntax.DotExpr)
		if !ok || dot.Dot.Line != place.Line || dot.Dot.Col != place.Col {
			return true
		}
		path := FieldPath(dot.X, func(name string) string { return pathOfVariable(file, name, place) })
		if absent := vmspec.AbsentSection(path); absent != "" {
			msg = absent
		} else if id, ok := dot.X.(*syntax.Ident); ok {
			msg = id.Name + " is None, so it has no ." + dot.Name.Name + "; test it first"
		}
		return true
	})
	return msg
}

// FieldPath returns the path of the field of vm that an expression reads, "vm.network[].lease"; "" for other
// expressions. variable returns the path of a variable, such as "vm" or "vm.display", or "".
func FieldPath(e syntax.Expr, variable func(name string) string) string {
	switch e := e.(type) {
	case *syntax.ParenExpr:
		return FieldPath(e.X, variable)
	case *syntax.Ident:
		return variable(e.Name)
	case *syntax.DotExpr:
		if path := FieldPath(e.X, variable); path != "" {
			return path + "." + e.Name.Name
		}
	case *syntax.IndexExpr:
		if path := FieldPath(e.X, variable); path != "" {
			return path + "[]"
		}
	}
	return ""
}

// pathOfVariable returns the path of a variable that is used at a place, if one assignment in the function around it
// sets the variable.
func pathOfVariable(file *syntax.File, name string, place syntax.Position) string {
	if name == "vm" {
		return name
	}
	var values []string
	for _, stmt := range file.Stmts {
		def, ok := stmt.(*syntax.DefStmt)
		if start, end := stmt.Span(); !ok || place.Line < start.Line || place.Line > end.Line {
			continue
		}
		syntax.Walk(def, func(n syntax.Node) bool {
			var target, value syntax.Expr
			suffix := ""
			switch n := n.(type) {
			case *syntax.AssignStmt:
				target, value = n.LHS, n.RHS
			case *syntax.ForStmt:
				target, value, suffix = n.Vars, n.X, "[]"
			case *syntax.ForClause:
				target, value, suffix = n.Vars, n.X, "[]"
			}
			if id, ok := target.(*syntax.Ident); ok && id.Name == name {
				values = append(values, FieldPath(value, func(name string) string {
					if name == "vm" {
						return name
					}
					return ""
				})+suffix)
			}
			return true
		})
	}
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// hiddenFunction names the line that assigns the variable that a call at a place calls.
func hiddenFunction(place syntax.Position, source string) string {
	file, err := fileOptions().Parse(place.Filename(), source, 0)
	if err != nil {
		return ""
	}
	isBuiltin := Predeclared().Has
	if resolve.File(file, isBuiltin, starlark.Universe.Has) != nil {
		return ""
	}
	hint := ""
	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok || call.Lparen.Line != place.Line || call.Lparen.Col != place.Col {
			return true
		}
		id, ok := call.Fn.(*syntax.Ident)
		if !ok {
			return true
		}
		bound, ok := id.Binding.(*resolve.Binding)
		if !ok || bound.First == nil {
			return true
		}
		hint = fmt.Sprintf("; line %d assigns %s", bound.First.NamePos.Line, id.Name)
		if isBuiltin(id.Name) || starlark.Universe.Has(id.Name) {
			hint += ", which hides the builtin function: use another name"
		}
		return true
	})
	return hint
}

// reassignedHint replaces the resolver's message about a name that load has already bound.
func reassignedHint(msg string, file *syntax.File) string {
	rest, ok := strings.CutPrefix(msg, "cannot reassign local ")
	name, _, isWord := strings.Cut(rest, " ")
	if !ok || !isWord {
		return msg
	}
	for _, stmt := range file.Stmts {
		load, ok := stmt.(*syntax.LoadStmt)
		if !ok {
			continue
		}
		for _, to := range load.To {
			if to.Name == name {
				return fmt.Sprintf("%s is already loaded in line %d; use another name", name, to.NamePos.Line)
			}
		}
	}
	return msg
}
