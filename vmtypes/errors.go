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

	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// An Error is something wrong with a VM type, at a place in its source.
type Error struct {
	// Message says what is wrong.
	Message string
	// File, Line and Column are the place; Line is 0 if there is none. Column
	// counts from 1.
	File         string
	Line, Column int
	// Source is the text of the line.
	Source string
	// Calls led to the place; the first is where it was called from.
	Calls plan.Origin
	cause error
}

// Error returns message, place, source line with a caret, and calls.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Line == 0 {
		b.WriteString(e.Message)
		return b.String()
	}
	fmt.Fprintf(&b, "%s:%d:%d: %s", e.File, e.Line, e.Column, e.Message)
	if e.Source != "" {
		number := strconv.Itoa(e.Line)
		fmt.Fprintf(&b, "\n    %s | %s", number, strings.ReplaceAll(e.Source, "\t", " "))
		fmt.Fprintf(&b, "\n    %s | %s^", strings.Repeat(" ", len(number)), strings.Repeat(" ", max(e.Column-1, 0)))
	}
	for _, f := range e.Calls {
		fmt.Fprintf(&b, "\n    called from %s:%d in %s", f.File, f.Line, f.Function)
	}
	return b.String()
}

// Unwrap returns what the interpreter reported.
func (e *Error) Unwrap() error { return e.cause }

// A FaultsError says that a VM type computed a plan that cannot work.
type FaultsError struct {
	Type   string
	Faults []plan.Fault
}

// Error returns all faults, one after the other.
func (e *FaultsError) Error() string {
	lines := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		lines[i] = f.String()
	}
	return fmt.Sprintf("the plan of VM type %s has %d fault(s):\n  %s", e.Type, len(e.Faults), strings.Join(lines, "\n  "))
}

func didYouMean(word string, candidates []string) string {
	if near := vmspec.Nearest(word, candidates); near != "" {
		return " (did you mean " + near + "?)"
	}
	return ""
}

// explain turns an error of the interpreter into one or more *Error; source
// returns the text of a module.
func explain(err error, source func(module string) string) error {
	var already *Error
	if errors.As(err, &already) {
		return already
	}
	var list resolve.ErrorList
	var syntaxErr syntax.Error
	var evalErr *starlark.EvalError
	switch {
	case errors.As(err, &list):
		all := make([]error, len(list))
		for i, e := range list {
			all[i] = at(e.Pos, e.Msg, nil, err, source)
		}
		return errors.Join(all...)
	case errors.As(err, &syntaxErr):
		return at(syntaxErr.Pos, syntaxErr.Msg, nil, err, source)
	case errors.As(err, &evalErr):
		return explainEval(evalErr, source)
	}
	return &Error{Message: err.Error(), cause: err}
}

func explainEval(err *starlark.EvalError, source func(string) string) error {
	var calls plan.Origin
	var place syntax.Position
	for _, f := range reversed(err.CallStack) {
		switch {
		case f.Pos.Line == 0:
		case place.Line == 0:
			place = f.Pos
		case f.Pos.Filename() != "":
			calls = append(calls, plan.Frame{File: f.Pos.Filename(), Line: int(f.Pos.Line), Function: f.Name})
		}
	}
	return at(place, strings.TrimPrefix(err.Msg, "fail: "), calls, err, source)
}

func reversed(stack starlark.CallStack) []starlark.CallFrame {
	out := make([]starlark.CallFrame, 0, len(stack))
	for i := len(stack) - 1; i >= 0; i-- {
		out = append(out, stack[i])
	}
	return out
}

func at(pos syntax.Position, msg string, calls plan.Origin, cause error, source func(string) string) *Error {
	e := &Error{Message: msg, File: pos.Filename(), Line: int(pos.Line), Column: int(pos.Col), Calls: calls, cause: cause}
	lines := strings.Split(source(e.File), "\n")
	if e.Line >= 1 && e.Line <= len(lines) {
		e.Source = lines[e.Line-1]
	}
	return e
}

// limitReason explains why a thread was cancelled.
func limitReason(ctx context.Context) string {
	if cause := context.Cause(ctx); cause != nil {
		return "took too long: " + cause.Error()
	}
	return "took too many steps; does a loop never end?"
}
