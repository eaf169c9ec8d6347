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

// Limits of a session's results.
const (
	mostOutput = 64 << 10 // bytes
	mostNames  = 1000
)

// A Session evaluates interactive input, statement by statement. Only one goroutine may use it.
type Session struct {
	loader  *loader
	globals starlark.StringDict
	inputs  []string // the texts of all inputs, for messages
	output  strings.Builder
}

// Session starts a session that can load the library's modules. vm and host have the values for a VM of the type
// vmType. vm.options contains the options of this type, or is empty if loading the type fails.
func (l *Library) Session(ctx context.Context, vmType string, spec vmspec.Spec, host Host) (*Session, error) {
	s := &Session{loader: newLoader(ctx, l.readSource), globals: Predeclared()}
	s.loader.compiled = precompiledModule
	var options declared
	if t, err := l.Load(ctx, vmType); err == nil {
		options = t.options
		sizes, err := t.Sizes(ctx, spec, host.Files)
		if err != nil {
			return nil, err
		}
		spec = spec.FillSizes(sizes)
	} else {
		spec.Options = nil
	}
	rs := new(records)
	given, err := options.readOptions(limitedCaller(ctx), rs, vmType, spec.Options, host.Files)
	if err != nil {
		return nil, err
	}
	vm := (&Type{generation: Generation}).withClock(spec.WithSize())
	s.globals["vm"], s.globals["host"] = rs.vmRecord(vm, given.value), hostValue{&host}
	return s, nil
}

// sessionOptions returns the dialect for interactive input: names can be reassigned, and loops are allowed
// outside functions.
func sessionOptions() *syntax.FileOptions {
	o := fileOptions()
	o.TopLevelControl, o.GlobalReassign, o.LoadBindsGlobally = true, true, true
	return o
}

// Run evaluates one input. It returns the printed text and, for an expression, the value unless it is None. A
// part is shown as its plan. Errors have the type *Error or Errors.
func (s *Session) Run(ctx context.Context, text string) (output string, err error) {
	s.inputs = append(s.inputs, text)
	s.output.Reset()
	if err = s.runText(ctx, text); err != nil {
		err = explainError(err, s.inputSource)
	}
	return s.output.String(), err
}

func (s *Session) runText(ctx context.Context, text string) (err error) {
	name := s.inputName(len(s.inputs))
	file, err := sessionOptions().Parse(name, text, 0)
	if err != nil {
		return err
	}
	thread := s.loader.newThread(&module{name: name})
	thread.Print = func(_ *starlark.Thread, text string) { s.printText(text) }
	defer recoverAs(thread, &err)
	defer limitThread(ctx, thread)()
	if len(file.Stmts) == 1 {
		if only, ok := file.Stmts[0].(*syntax.ExprStmt); ok {
			v, err := starlark.EvalExprOptions(file.Options, thread, only.X, s.globals)
			if err == nil && v != starlark.None {
				s.showValue(v)
			}
			return explainLimit(ctx, thread, err)
		}
	}
	return explainLimit(ctx, thread, starlark.ExecREPLChunk(file, thread, s.globals))
}

// showValue prints a value. It prints a part as its plan.
func (s *Session) showValue(v starlark.Value) {
	if p, ok := v.(*partValue); ok {
		_, text, _ := strings.Cut(p.asPlan("").Text(), "\n") // without the type
		s.printText(strings.TrimSuffix(text, "\n"))
		return
	}
	s.printText(v.String())
}

func (s *Session) printText(text string) {
	if room := mostOutput - s.output.Len(); len(text) >= room {
		text = strings.ToValidUTF8(text[:max(room, 0)], "")
		if room <= 0 {
			return
		}
		text += "…"
	}
	s.output.WriteString(text + "\n")
}

// inputName returns the name of input number n in messages. The first input has the number 1.
func (*Session) inputName(n int) string { return fmt.Sprintf("input %d", n) }

// inputSource returns the text of an input or a module.
func (s *Session) inputSource(name string) string {
	for i, text := range s.inputs {
		if name == s.inputName(i+1) {
			return text
		}
	}
	return s.loader.sourceOf(name)
}

// Complete returns the possible completions of a line. The word at its end can be a name, a field of a value, or
// a module to load.
func (s *Session) Complete(line string) []string {
	if i := strings.LastIndexByte(line, '"'); i >= 0 && strings.HasSuffix(strings.TrimSpace(line[:i]), "load(") {
		return s.withPrefix(line[:i+1], line[i+1:], s.loadableModules())
	}
	start := len(line)
	for start > 0 && (isWordByte(line[start-1]) || line[start-1] == '.') {
		start--
	}
	before, path := line[:start], strings.Split(line[start:], ".")
	if len(path) == 1 {
		return s.withPrefix(before, path[0], append(sortedNames(s.globals, starlark.Universe), "def", "for", "if",
			"load"))
	}
	v := s.globals[path[0]]
	for _, name := range path[1 : len(path)-1] {
		v = fieldOf(v, name)
	}
	owner, ok := v.(starlark.HasAttrs)
	if !ok {
		return nil
	}
	return s.withPrefix(before+strings.Join(path[:len(path)-1], ".")+".", path[len(path)-1], owner.AttrNames())
}

func (s *Session) loadableModules() []string {
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

func fieldOf(v starlark.Value, name string) starlark.Value {
	if owner, ok := v.(starlark.HasAttrs); ok {
		if v, err := owner.Attr(name); err == nil {
			return v
		}
	}
	return nil
}

func isWordByte(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// ReadStatement reads lines, without line ends, until a statement is complete. An empty line ends a def. It
// returns the text and the syntax error, if any. An error of readLine ends the reading and is returned unchanged.
func ReadStatement(readLine func() (string, error)) (text string, err error) {
	var lines strings.Builder
	var readErr error
	_, err = sessionOptions().ParseCompoundStmt("input", func() ([]byte, error) {
		line, err := readLine()
		if errors.Is(err, io.EOF) && lines.Len() > 0 && readErr == nil {
			readErr = err
			return []byte("\n"), nil // complete the statement
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
		return text, explainError(err, func(string) string { return text })
	}
	return text, nil
}
