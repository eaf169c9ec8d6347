package vmtypes

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"vmop/internal/printable"
	"vmop/internal/spelling"
	"vmop/vmtypes/plan"
)

// An Error is an error in a VM type, with its place in the source.
type Error struct {
	// Message describes the error.
	Message string
	// File, Line and Column are the place; Line is 0 if the place is unknown. Column counts from 1.
	File         string
	Line, Column int
	// Source is the text of the line.
	Source string
	// Calls are the calls that led to the place, innermost first.
	Calls plan.Origin
	// Refusal means that the type refused the VM: it called fail, or host.find found no file.
	Refusal bool
	cause   error
}

// Error returns message, place, source line with a caret, and calls.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Line == 0 {
		return printable.Text(e.Message)
	}
	fmt.Fprintf(&b, "%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
	if e.Source != "" {
		number := strconv.Itoa(e.Line)
		line, blanks := excerptAround(e.Source, e.Column-1)
		fmt.Fprintf(&b, "\n    %s | %s", number, strings.ReplaceAll(line, "\t", " "))
		fmt.Fprintf(&b, "\n    %s | %s^", strings.Repeat(" ", len(number)), strings.Repeat(" ", blanks))
	}
	for i, f := range e.Calls {
		if i == mostCalls {
			fmt.Fprintf(&b, "\n    called through %d more functions", len(e.Calls)-i)
			break
		}
		fmt.Fprintf(&b, "\n    called from %s:%d in %s", f.File, f.Line, f.Function)
	}
	return printable.Text(b.String())
}

// Unwrap returns the interpreter's error.
func (e *Error) Unwrap() error { return e.cause }

// Errors are several errors that were found together.
type Errors []*Error

// Error returns the texts of all errors, separated by newlines.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// A FaultsError means that a VM type computed a plan that cannot work.
type FaultsError struct {
	Type   string
	Faults []plan.Fault
}

// Error lists all errors, one per line.
func (e *FaultsError) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.String()
	}
	return fmt.Sprintf("the plan of VM type %s cannot work:\n  %s", e.Type, printable.Text(strings.Join(lines, "\n  ")))
}

func didYouMean(word string, candidates []string) string {
	if near := spelling.Nearest(word, candidates); near != "" {
		return " (did you mean " + near + "?)"
	}
	return ""
}

// explainError converts an interpreter error to an *Error or Errors. source returns the text of a module.
func explainError(err error, source func(module string) string) error {
	var one *Error
	var several Errors
	var undefined resolve.ErrorList
	var syntaxErr syntax.Error
	var evalErr *starlark.EvalError
	switch {
	case errors.As(err, &several):
		return several
	case errors.As(err, &one):
		if one.Source != "" || one.Line == 0 {
			return one
		}
		filled := *one
		filled.Source = sourceLine(source(one.File), one.Line)
		return &filled
	case errors.As(err, &undefined):
		for _, e := range undefined[:min(len(undefined), mostErrors)] {
			several = append(several, errorAt(e.Pos, e.Msg, nil, err, source))
		}
		return several
	case errors.As(err, &syntaxErr):
		return explainSyntax(syntaxErr, source)
	case errors.As(err, &evalErr):
		return explainEval(evalErr, source)
	}
	return &Error{Message: clipMessage(err.Error()), cause: err}
}

// explainSyntax moves the place of an unexpected end of line from the beginning of the next line to the end of
// the line.
func explainSyntax(err syntax.Error, source func(string) string) error {
	pos := err.Pos
	if strings.HasPrefix(err.Msg, "got newline") && pos.Col == 1 && pos.Line > 1 {
		pos.Line--
		pos.Col = int32(len(sourceLine(source(pos.Filename()), int(pos.Line)))) + 1
	}
	before, rest := splitAt(source(pos.Filename()), pos)
	return errorAt(pos, err.Msg+syntaxHint(err.Msg, before, rest), nil, err, source)
}

// splitAt returns the text before a place, and the rest of the line.
func splitAt(text string, pos syntax.Position) (before, rest string) {
	lines := strings.SplitAfterN(text, "\n", int(pos.Line)+1)
	if int(pos.Line) > len(lines) || pos.Line < 1 {
		return text, ""
	}
	line := []rune(lines[pos.Line-1])
	column := min(max(int(pos.Col)-1, 0), len(line))
	return strings.Join(lines[:pos.Line-1], "") + string(line[:column]), string(line[column:])
}

func explainEval(err *starlark.EvalError, source func(string) string) error {
	stack := reversedFrames(err.CallStack)
	msg := strings.TrimPrefix(err.Msg, "fail: ")
	// Wrong arguments of a call, and a recursion, are the caller's mistake.
	if len(stack) > 1 && isCallersError(msg, stack[0].Name) {
		msg += suggestParameter(msg, stack[0], source)
		stack = stack[1:]
	}
	place, calls := innermostPlace(stack)
	e := errorAt(place, evalHint(msg, place, source(place.Filename())), calls, err, source)
	e.Refusal = strings.HasPrefix(err.Msg, "fail: ") || errors.As(err, new(missingFileError))
	return e
}

// innermostPlace returns the innermost place in a module, and the calls that led there.
func innermostPlace(stack []starlark.CallFrame) (place syntax.Position, calls plan.Origin) {
	for _, f := range stack {
		switch {
		case f.Pos.Line == 0:
		case place.Line == 0:
			place = f.Pos
		default:
			calls = append(calls, plan.Frame{File: f.Pos.Filename(), Line: int(f.Pos.Line), Function: f.Name})
		}
	}
	return place, calls
}

// isCallersError recognizes the interpreter's messages about wrong arguments in a call of a module's function, and
// about a recursion.
func isCallersError(msg, function string) bool {
	rest, ok := strings.CutPrefix(msg, "function "+function+" ")
	return ok && (rest == "called recursively" || strings.HasPrefix(rest, "got an unexpected") ||
		strings.HasPrefix(rest, "missing") || strings.HasPrefix(rest, "accepts") ||
		strings.HasPrefix(rest, "got multiple"))
}

// suggestParameter returns a suggestion for an unknown keyword argument. frame is the called function.
func suggestParameter(msg string, frame starlark.CallFrame, source func(string) string) string {
	_, quoted, ok := strings.Cut(msg, "unexpected keyword argument ")
	name, err := strconv.Unquote(quoted)
	if !ok || err != nil {
		return ""
	}
	file, err := fileOptions().Parse(frame.Pos.Filename(), source(frame.Pos.Filename()), 0)
	if err != nil {
		return ""
	}
	var params []string
	for _, stmt := range file.Stmts {
		if def, ok := stmt.(*syntax.DefStmt); ok && def.Name.Name == frame.Name {
			params = append(params, parameterNames(def)...)
		}
	}
	return didYouMean(name, params)
}

func parameterNames(def *syntax.DefStmt) []string {
	var list []string
	for _, p := range def.Params {
		switch p := p.(type) {
		case *syntax.Ident:
			list = append(list, p.Name)
		case *syntax.BinaryExpr: // name = default
			if id, ok := p.X.(*syntax.Ident); ok {
				list = append(list, id.Name)
			}
		}
	}
	return list
}

func reversedFrames(stack starlark.CallStack) []starlark.CallFrame {
	out := make([]starlark.CallFrame, 0, len(stack))
	for i := len(stack) - 1; i >= 0; i-- {
		out = append(out, stack[i])
	}
	return out
}

func errorAt(pos syntax.Position, msg string, calls plan.Origin, cause error, source func(string) string) *Error {
	e := &Error{
		Message: clipMessage(msg), File: pos.Filename(), Line: int(pos.Line), Column: int(pos.Col), Calls: calls,
		cause: cause,
	}
	e.Source = sourceLine(source(e.File), e.Line)
	return e
}

// sourceLine returns line number line of a text, counted from 1, or "".
func sourceLine(text string, line int) string {
	for ; line > 1; line-- {
		_, rest, ok := strings.Cut(text, "\n")
		if !ok {
			return ""
		}
		text = rest
	}
	first, _, _ := strings.Cut(text, "\n")
	return first
}

// limitReason returns the reason why a thread was canceled.
func limitReason(ctx context.Context) string {
	if cause := context.Cause(ctx); cause != nil {
		return "took too long: " + cause.Error()
	}
	return "took too many steps; does a loop never end?"
}
