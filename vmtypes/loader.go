package vmtypes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// stockPrefix is the prefix of the embedded library in load statements.
const stockPrefix = "@vmtypes//"

// maxSteps is the maximum number of steps of one call or one module. The standard type takes about 3,000 steps,
// plus 300 for each further disk.
const maxSteps = 10_000_000

// fileOptions returns the dialect: standard Starlark with sets.
func fileOptions() *syntax.FileOptions { return &syntax.FileOptions{Set: true} }

// loader loads one module graph. Only one goroutine may use it.
type loader struct {
	ctx         context.Context
	read        func(module string) (string, error)
	compiled    func(module, source string) *stockModule // may be nil
	predeclared starlark.StringDict
	// entries are the modules found so far; nil marks a module that is being loaded.
	entries map[string]*module
	loading []string  // names of the modules that are being loaded, outermost first
	order   []*module // in the order in which loading ended
}

// A module is an evaluated file.
type module struct {
	name    string
	source  string
	stock   *stockModule // keeps it in use; nil for other modules
	globals starlark.StringDict
	version int // declared version of the language; 0 without a declaration
	err     error
}

func newLoader(ctx context.Context, read func(string) (string, error)) *loader {
	return &loader{ctx: ctx, read: read, predeclared: Predeclared(), entries: map[string]*module{}}
}

// resolveLoad returns the name of the module for load(spec) in the module from.
func resolveLoad(from, spec string) (string, error) {
	local, stock := strings.CutPrefix(spec, stockPrefix)
	switch {
	case path.Ext(spec) != ".star":
		return "", errors.New("modules are files that end in .star")
	case stock && fs.ValidPath(local):
		return spec, nil
	case strings.ContainsAny(spec, `/\:`):
		return "", fmt.Errorf("write %sNAME.star for the library, or NAME.star for a file in the same folder",
			stockPrefix)
	}
	if rest, ok := strings.CutPrefix(from, stockPrefix); ok {
		return stockPrefix + path.Join(path.Dir(rest), spec), nil
	}
	return spec, nil
}

// loadModule returns the module after evaluating it.
func (l *loader) loadModule(name string) (*module, error) {
	if m, ok := l.entries[name]; ok {
		if m == nil {
			return nil, fmt.Errorf("modules load each other in a cycle: %s",
				strings.Join(append(l.loading, name), " loads "))
		}
		return m, m.err
	}
	l.entries[name] = nil
	l.loading = append(l.loading, name)
	defer func() { l.loading = l.loading[:len(l.loading)-1] }()
	m := &module{name: name}
	m.source, m.err = l.read(name)
	if m.err == nil {
		m.globals, m.err = l.execModule(m)
	}
	if m.err != nil && m.source != "" {
		m.err = explainError(m.err, l.sourceOf)
	}
	l.entries[name] = m
	l.order = append(l.order, m)
	return m, m.err
}

func (l *loader) execModule(m *module) (globals starlark.StringDict, err error) {
	program, predeclared, err := l.compileModule(m)
	if err != nil {
		return nil, err
	}
	thread := l.newThread(m)
	defer recoverAs(thread, &err)
	stop := limitThread(l.ctx, thread)
	defer stop()
	globals, err = program.Init(thread, predeclared)
	globals.Freeze()
	return globals, explainLimit(l.ctx, thread, err)
}

// newThread returns a thread that can execute the load statements of m.
func (l *loader) newThread(m *module) *starlark.Thread {
	return &starlark.Thread{
		Name:  "load " + m.name,
		Print: discardPrint,
		Load: func(_ *starlark.Thread, spec string) (starlark.StringDict, error) {
			name, err := resolveLoad(m.name, spec)
			if err != nil {
				return nil, err
			}
			loaded, err := l.loadModule(name)
			if err != nil {
				return nil, err
			}
			return loaded.globals, nil
		},
	}
}

// compileModule returns the compiled form of a module, and the names that it can use.
func (l *loader) compileModule(m *module) (*starlark.Program, starlark.StringDict, error) {
	if l.compiled != nil {
		if m.stock = l.compiled(m.name, m.source); m.stock != nil {
			return m.stock.program, l.predeclared, nil
		}
	}
	file, err := fileOptions().Parse(m.name, m.source, 0)
	if err != nil {
		return nil, nil, explainError(err, func(string) string { return m.source })
	}
	if err := m.readVersion(file); err != nil {
		return nil, nil, err
	}
	predeclared := l.countExecutions(m, file)
	program, err := starlark.FileProgram(file, predeclared.Has)
	var list resolve.ErrorList
	if errors.As(err, &list) {
		for i := range list {
			list[i].Msg = reassignedHint(list[i].Msg, file) + suggestName(list[i].Msg, file, l.predeclared)
		}
	}
	if err != nil {
		return nil, nil, explainError(err, func(string) string { return m.source })
	}
	return program, predeclared, nil
}

// suggestName returns a suggestion for "undefined: name".
func suggestName(msg string, file *syntax.File, predeclared starlark.StringDict) string {
	name, ok := strings.CutPrefix(msg, "undefined: ")
	if !ok || file == nil {
		return ""
	}
	candidates := sortedNames(predeclared, starlark.Universe)
	syntax.Walk(file, func(n syntax.Node) bool {
		if id, ok := n.(*syntax.Ident); ok && id.Binding != nil && id.Name != name {
			if b, ok := id.Binding.(*resolve.Binding); ok && b.Scope != resolve.Undefined {
				candidates = append(candidates, id.Name)
			}
		}
		return true
	})
	if hint := foreignNames[name]; hint != "" {
		return "; " + hint
	}
	return didYouMean(name, candidates)
}

// foreignNames maps names from Python to the Starlark alternative.
var foreignNames = map[string]string{
	"sum":        "Starlark has no sum: add up in a loop within a function",
	"isinstance": "compare type(x) with \"string\", \"int\", \"list\" …",
	"open":       "a VM type reads no files; ask host.exists(path)",
	"map":        "write [f(x) for x in list]",
	"filter":     "write [x for x in list if wanted(x)]",
	"round":      "Starlark has no round: use // for whole numbers",
	"pow":        "Starlark has no pow: use * in a loop, or << for powers of two",
	"format":     "write \"%s\" % x, or \"{}\".format(x)",
}

// sourceOf returns the text of a module that was read, or "".
func (l *loader) sourceOf(name string) string {
	for _, m := range l.order {
		if m.name == name {
			return m.source
		}
	}
	src, err := l.read(name)
	if err != nil {
		return ""
	}
	return src
}

// limitThread limits a thread's steps and time. The caller must call the returned function.
func limitThread(ctx context.Context, thread *starlark.Thread) (stop func() bool) {
	thread.SetMaxExecutionSteps(maxSteps)
	if ctx.Err() != nil { // AfterFunc would cancel the thread in another goroutine, perhaps much later
		thread.Cancel(context.Cause(ctx).Error())
	}
	return context.AfterFunc(ctx, func() { thread.Cancel(context.Cause(ctx).Error()) })
}

// explainLimit replaces the interpreter's message with a readable message if the thread reached a limit.
func explainLimit(ctx context.Context, thread *starlark.Thread, err error) error {
	var eval *starlark.EvalError
	if errors.As(err, &eval) && strings.HasPrefix(eval.Msg, "Starlark computation cancelled") {
		if thread.ExecutionSteps() >= maxSteps || ctx.Err() != nil {
			eval.Msg = limitReason(ctx)
		}
	}
	return err
}

// recoverAs converts a panic of the interpreter to an error at the current place of the thread.
func recoverAs(thread *starlark.Thread, err *error) {
	if r := recover(); r != nil {
		*err = &starlark.EvalError{Msg: fmt.Sprintf("the interpreter panicked: %v", r), CallStack: thread.CallStack()}
	}
}

// discardPrint implements print() in a module. It discards the text, because types are pure.
func discardPrint(*starlark.Thread, string) {}
