package lsp

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"vmop/authoring/reference"
	"vmop/vmtypes"
)

// A view is a document together with the information about it.
type view struct {
	server *server
	folder *folder
	document
	declared map[string][]vmtypes.Option
	open     map[string]*text
	planned  map[string]*planned
	program  string // the QEMU program of the type
	editor   support
}

// viewOf returns the view of an open document.
func (s *server) viewOf(uri string) (*view, error) {
	f, d, err := s.documentFor(uri)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := &view{server: s, folder: f, document: d, open: ownTexts(f.open), program: usualProgram, editor: s.editor}
	if f.result == nil {
		return v, nil
	}
	v.declared, v.planned = f.result.declared, f.result.planned
	if names := v.planned[strings.TrimSuffix(d.module, ".star")]; names != nil {
		v.program = names.program
	}
	return v, nil
}

// usualProgram is the QEMU program for modules that define no type.
const usualProgram = "qemu-system-x86_64"

// moduleText returns the text of a module.
func (v *view) moduleText(name string) (*text, bool) {
	if strings.HasPrefix(name, vmtypes.StockPrefix) {
		source, err := vmtypes.StockModule(name)
		return newText(source), err == nil
	}
	if t := v.open[name]; t != nil {
		return t, true
	}
	if v.folder.dir == "" || !filepath.IsLocal(name) {
		return nil, false
	}
	info, err := os.Lstat(filepath.Join(v.folder.dir, name))
	if err != nil || !info.Mode().IsRegular() || info.Size() > vmtypes.MaxModule {
		return nil, false
	}
	source, err := os.ReadFile(filepath.Join(v.folder.dir, name))
	return newText(string(source)), err == nil
}

// loadedTree returns the syntax of the module that this document loads as spec.
func (v *view) loadedTree(spec string) *tree {
	name, err := vmtypes.ResolveLoad(v.document.module, spec)
	if err != nil {
		return nil
	}
	t, ok := v.moduleText(name)
	if !ok {
		return nil
	}
	return parseTree(name, t)
}

// functionAt returns the function for a path: a builtin, a function of this module or of a loaded module, or a method
// of host.
func (v *view) functionAt(path string) (reference.Function, bool) {
	for _, list := range [][]reference.Function{reference.Builtins(), reference.Language(), v.testingFunctions()} {
		if i := slices.IndexFunc(list, func(f reference.Function) bool { return f.Name == path }); i >= 0 {
			return list[i], true
		}
	}
	if of, name, ok := cutLast(path); ok {
		for _, m := range v.objectAt(of).Methods {
			if m.Name == name {
				return m, true
			}
		}
		return reference.Function{}, false
	}
	if v.tree == nil {
		return reference.Function{}, false
	}
	if f, ok := v.tree.documentedFunction(path); ok {
		return f, true
	}
	if from, ok := v.tree.loadedNames()[path]; ok {
		if t := v.loadedTree(from.module); t != nil {
			return t.documentedFunction(from.name)
		}
	}
	return reference.Function{}, false
}

// testingFunctions returns the functions of the testing module if the document is a test.
func (v *view) testingFunctions() []reference.Function {
	if !strings.HasSuffix(v.document.module, "_test.star") {
		return nil
	}
	return reference.Testing()
}

func cutLast(path string) (of, name string, ok bool) {
	i := strings.LastIndexByte(path, '.')
	if i < 0 {
		return "", path, false
	}
	return path[:i], path[i+1:], true
}

// objectAt returns the kind of value for a path, as far as it is known: host, and the values of variables.
func (v *view) objectAt(path string) reference.Object {
	name := ""
	if path == "host" {
		name = "Host"
	} else if of := v.assignedPath(path); of != "" {
		if i := strings.IndexByte(of, '('); i > 0 && of[:i] != path {
			if f, ok := v.functionAt(of[:i]); ok {
				name, _, _ = strings.Cut(f.Result, " | ")
			}
		}
	}
	for _, o := range slices.Concat(reference.Objects(), reference.TestingObjects()) {
		if o.Name == name {
			return o
		}
	}
	return reference.Object{}
}

// keyAt returns the path below vm for a path, with resolved variables: "n.mac" is "vm.network[].mac" in a loop over
// vm.network. It returns "" for all other paths.
func (v *view) keyAt(path string) string {
	first, rest, _ := strings.Cut(path, ".")
	for range 4 { // a variable may have the value of another variable
		if first == "vm" {
			return strings.TrimSuffix("vm."+rest, ".")
		}
		bare, index := strings.CutSuffix(first, "[]")
		of := v.assignedPath(bare)
		if of == "" || strings.Contains(of, "(") {
			return ""
		}
		if index {
			of += "[]"
		}
		var more string
		first, more, _ = strings.Cut(of, ".")
		rest = strings.Trim(more+"."+rest, ".")
	}
	return ""
}

// assignedPath returns the value of a variable if it is a path, an item of a path, or a call: "vm.network[]",
// "plan_of(".
func (v *view) assignedPath(name string) string {
	if name == "" || strings.ContainsAny(name, ".[]") {
		return ""
	}
	variable := regexp.QuoteMeta(name)
	const value = `([A-Za-z_][\w.]*(?:\[[^\]\n]*\])?[\w.]*\(?)`
	loop := regexp.MustCompile(`\bfor (?:\w+, *)?` + variable + ` in (?:enumerate\()?` + value)
	if m := loop.FindStringSubmatch(v.text.content); m != nil {
		return strings.TrimSuffix(withoutIndices(m[1]), "(") + "[]"
	}
	assignment := regexp.MustCompile(`(?m)^[ \t]*` + variable + ` = ` + value)
	if m := assignment.FindStringSubmatch(v.text.content); m != nil {
		return withoutIndices(m[1])
	}
	return ""
}

// withoutIndices removes the index from a path.
func withoutIndices(path string) string {
	before, rest, ok := strings.Cut(path, "[")
	if !ok {
		return path
	}
	_, after, _ := strings.Cut(rest, "]")
	return before + "[]" + after
}

// typeOptions returns the options in vm.options: the options of this module's type or, in a module that defines no
// type, the options of all types of the folder.
func (v *view) typeOptions() []vmtypes.Option {
	if own, ok := v.declared[strings.TrimSuffix(v.document.module, ".star")]; ok {
		return own
	}
	var all []vmtypes.Option
	for _, list := range v.declared {
		for _, o := range list {
			if !slices.ContainsFunc(all, func(have vmtypes.Option) bool { return have.Name == o.Name }) {
				all = append(all, o)
			}
		}
	}
	slices.SortFunc(all, func(a, b vmtypes.Option) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// optionAt returns the option for a path, such as "vm.options.asset".
func (v *view) optionAt(path string) (vmtypes.Option, bool) {
	name, ok := strings.CutPrefix(v.keyAt(path), "vm.options.")
	if !ok {
		return vmtypes.Option{}, false
	}
	for _, o := range v.typeOptions() {
		if o.Name == name {
			return o, true
		}
	}
	return vmtypes.Option{}, false
}
