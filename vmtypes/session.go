package vmtypes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"vmop/vmspec"
)

// Bounds of what an input of a session says.
const (
	mostOutput = 64 << 10 // bytes
	mostNames  = 1000
)

// A Session evaluates what a user types, statement by statement. It is used by
// one goroutine.
type Session struct {
	loader  *loader
	globals starlark.StringDict
	inputs  []string // their texts, for messages
	output  strings.Builder
}

// Session begins a session in which the modules of the library can be loaded. vm
// and host are those of a VM of the type vmType, whose options vm.options has; a
// type that can't be loaded has none.
func (l *Library) Session(ctx context.Context, vmType string, spec vmspec.Spec, host Host) (*Session, error) {
	s := &Session{loader: newLoader(ctx, l.read), globals: Predeclared()}
	s.loader.compiled = precompiled
	var options declared
	if t, err := l.Load(ctx, vmType); err == nil {
		options = t.options
	} else {
		spec.Options = nil
	}
	vm, err := new(records).vm(vmType, spec, options, host.Files)
	if err != nil {
		return nil, err
	}
	s.globals["vm"], s.globals["host"] = vm, hostValue{&host}
	return s, nil
}

// sessionOptions are the dialect that is typed: a name may be assigned again, and
// loops may stand outside of functions.
func sessionOptions() *syntax.FileOptions {
	o := fileOptions()
	o.TopLevelControl, o.GlobalReassign, o.LoadBindsGlobally = true, true, true
	return o
}

// Run evaluates one input, and returns what it prints and, if it is an expression
// and not None, its value; of a part, the plan that it makes. The error is an
// *Error or Errors.
func (s *Session) Run(ctx context.Context, text string) (output string, err error) {
	s.inputs = append(s.inputs, text)
	s.output.Reset()
	if err = s.run(ctx, text); err != nil {
		err = explain(err, s.source)
	}
	return s.output.String(), err
}

func (s *Session) run(ctx context.Context, text string) (err error) {
	name := s.name(len(s.inputs))
	file, err := sessionOptions().Parse(name, text, 0)
	if err != nil {
		return err
	}
	thread := s.loader.thread(&module{name: name})
	thread.Print = func(_ *starlark.Thread, text string) { s.print(text) }
	defer recoverAs(thread, &err)
	defer limit(ctx, thread)()
	if len(file.Stmts) == 1 {
		if only, ok := file.Stmts[0].(*syntax.ExprStmt); ok {
			v, err := starlark.EvalExprOptions(file.Options, thread, only.X, s.globals)
			if err == nil && v != starlark.None {
				s.show(v)
			}
			return explainLimit(ctx, thread, err)
		}
	}
	return explainLimit(ctx, thread, starlark.ExecREPLChunk(file, thread, s.globals))
}

// show prints a value; a part as the plan that it makes.
func (s *Session) show(v starlark.Value) {
	if p, ok := v.(*partValue); ok {
		_, text, _ := strings.Cut(p.plan("").Text(), "\n") // without the type
		s.print(strings.TrimSuffix(text, "\n"))
		return
	}
	s.print(v.String())
}

func (s *Session) print(text string) {
	if room := mostOutput - s.output.Len(); len(text) >= room {
		text = strings.ToValidUTF8(text[:max(room, 0)], "")
		if room <= 0 {
			return
		}
		text += "…"
	}
	s.output.WriteString(text + "\n")
}

// name is what an input is called in messages, counted from 1.
func (*Session) name(n int) string { return fmt.Sprintf("input %d", n) }

// source returns the text of an input or a module.
func (s *Session) source(name string) string {
	for i, text := range s.inputs {
		if name == s.name(i+1) {
			return text
		}
	}
	return s.loader.source(name)
}

// Complete returns the ways in which a line could go on, each with the word at its
// end completed: a name, a field of a value, or a module to load.
func (s *Session) Complete(line string) []string {
	if i := strings.LastIndexByte(line, '"'); i >= 0 && strings.HasSuffix(strings.TrimSpace(line[:i]), "load(") {
		return s.withPrefix(line[:i+1], line[i+1:], s.modules())
	}
	start := len(line)
	for start > 0 && (isWord(line[start-1]) || line[start-1] == '.') {
		start--
	}
	before, path := line[:start], strings.Split(line[start:], ".")
	if len(path) == 1 {
		return s.withPrefix(before, path[0], append(names(s.globals, starlark.Universe), "def", "for", "if", "load"))
	}
	v := s.globals[path[0]]
	for _, name := range path[1 : len(path)-1] {
		v = field(v, name)
	}
	owner, ok := v.(starlark.HasAttrs)
	if !ok {
		return nil
	}
	return s.withPrefix(before+strings.Join(path[:len(path)-1], ".")+".", path[len(path)-1], owner.AttrNames())
}

func (s *Session) modules() []string {
	list := stockModules()
	for _, m := range s.loader.order {
		list = append(list, m.name)
	}
	return list
}

func (*Session) withPrefix(before, word string, candidates []string) []string {
	var list []string
	for _, c := range candidates {
		if strings.HasPrefix(c, word) && len(list) < mostNames {
			list = append(list, before+c)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

func field(v starlark.Value, name string) starlark.Value {
	if owner, ok := v.(starlark.HasAttrs); ok {
		if v, err := owner.Attr(name); err == nil {
			return v
		}
	}
	return nil
}

func isWord(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// ReadStatement reads lines, without their ends, until they are a statement: a
// def ends with an empty line. It returns them, and what is wrong with them.
// readLine's error ends the reading; it is returned as it is.
func ReadStatement(readLine func() (string, error)) (text string, err error) {
	var lines strings.Builder
	var readErr error
	_, err = sessionOptions().ParseCompoundStmt("input", func() ([]byte, error) {
		line, err := readLine()
		if errors.Is(err, io.EOF) && lines.Len() > 0 && readErr == nil {
			readErr = err
			return []byte("\n"), nil // ends a statement
		}
		if err != nil {
			readErr = err
			return nil, err
		}
		lines.WriteString(line + "\n")
		return []byte(line + "\n"), nil
	})
	if readErr != nil && lines.Len() == 0 {
		return "", readErr
	}
	text = lines.String()
	if err != nil {
		return text, explain(err, func(string) string { return text })
	}
	return text, nil
}
