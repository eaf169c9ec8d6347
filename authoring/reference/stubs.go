package reference

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Stubs returns a stub file (.pyi) for what VM types can use, so that editors
// that know Python complete and explain it. Pyright, and editors that use it, read
// a file of the name [StubsName] in the root of a project.
func Stubs() string {
	var b strings.Builder
	b.WriteString("# What VM types can use, for editors that know Python. Made by vmrunner vmtype stubs.\n\n" +
		"from collections.abc import Callable, Iterable\nfrom typing import Any\n\n" +
		"Value = str | int | bool | None | Tap | Listener | list[str | int | bool | Tap | Listener]\n" +
		"Options = Any\n\n" +
		"def load(module: str, /, *names: str, **renamed: str) -> None:\n" +
		"    \"\"\"Loads names of another module: \"@vmtypes//lib/tpm.star\" of the library, or \"x.star\" beside " +
		"this file.\"\"\"\n")
	for _, o := range slices.Concat(Objects(), TestingObjects(), vmObjects()) {
		stubClass(&b, o.Name, o.Doc, o.Fields, o.Methods)
	}
	modules := map[string][]string{}
	for _, f := range slices.Concat(Builtins(), Testing()) {
		module, name, member := strings.Cut(f.Name, ".")
		if module == "assert" {
			continue // a statement of Python
		}
		if member { // the members' names, such as int, must not hide types
			modules[module] = append(modules[module], name)
			f.Name = "_" + module + "_" + name
		}
		b.WriteString("\n" + stubFunction(f, "", ""))
	}
	for _, module := range slices.Sorted(maps.Keys(modules)) {
		fmt.Fprintf(&b, "\nclass %s:\n", module)
		for _, name := range modules[module] {
			fmt.Fprintf(&b, "    %s = staticmethod(_%s_%[1]s)\n", name, module)
		}
	}
	language := Language()
	fail := slices.IndexFunc(language, func(f Function) bool { return f.Name == "fail" })
	b.WriteString("\n" + stubFunction(language[fail], "", ""))
	return b.String()
}

// StubsName is the name under which Pyright looks for additional builtins.
const StubsName = "__builtins__.pyi"

// vmObjects returns vm and its sections as objects.
func vmObjects() []Object {
	keys := VM()
	objects := []Object{vmObject("VM", "vm", "The vm section of a configuration, with its defaults.", keys)}
	for _, k := range keys {
		name, path := strings.TrimSuffix(k.Type, " | None"), k.Path
		if list, ok := strings.CutPrefix(name, "tuple["); ok {
			name, path = strings.TrimSuffix(list, ", ...]"), path+"[]"
		}
		if len(Below(path, keys)) > 0 {
			objects = append(objects, vmObject(name, path, k.Doc, keys))
		}
	}
	return objects
}

func vmObject(name, path, doc string, keys []Key) Object {
	o := Object{Name: name, Word: path, Doc: doc}
	for _, k := range Below(path, keys) {
		text := k.Doc
		if d := k.defaultText(); d != "" {
			text += " Default: " + d + "."
		}
		o.Fields = append(o.Fields, Field{k.Name(), k.Type, strings.TrimSpace(text)})
	}
	return o
}

func stubClass(b *strings.Builder, name, doc string, fields []Field, methods []Function) {
	fmt.Fprintf(b, "\nclass %s:\n    %s\n", name, docString(doc, "    "))
	for _, f := range fields {
		fmt.Fprintf(b, "    %s: %s\n    %s\n", f.Name, stubType(f.Type), docString(f.Doc, "    "))
	}
	for _, m := range methods {
		b.WriteString(stubFunction(m, "    ", "self"))
	}
}

// stubFunction returns a def with a docstring; first is a parameter before all.
func stubFunction(f Function, indent, first string) string {
	var parameters []string
	if first != "" {
		parameters = append(parameters, first)
	}
	keyword := slices.ContainsFunc(f.Parameters,
		func(p Parameter) bool { return strings.HasPrefix(p.Name, "*") && !strings.HasPrefix(p.Name, "**") })
	for _, p := range f.Parameters {
		if p.Keyword && !keyword {
			parameters, keyword = append(parameters, "*"), true
		}
		text := p.Name + ": " + stubType(p.Type)
		if p.Default != "" {
			text += " = ..."
		}
		parameters = append(parameters, text)
	}
	result := stubType(f.Result)
	if f.Result == "" {
		result = "None"
	}
	doc := f.Doc
	for _, p := range f.Parameters {
		if p.Doc != "" {
			doc += "\n\n" + p.Bare() + ": " + p.Doc
		}
	}
	return fmt.Sprintf("%sdef %s(%s) -> %s:\n%s    %s\n", indent, f.Name, strings.Join(parameters, ", "), result,
		indent, docString(doc, indent+"    "))
}

// stubType leaves out what Python has no name for.
func stubType(t string) string {
	switch t {
	case "struct", "Any":
		return "Any"
	}
	return strings.NewReplacer("[struct]", "[Any]", "struct | None", "Any", "Iterable", "Iterable[Any]", "Callable",
		"Callable[..., Any]").Replace(t)
}

// docString returns a text as Python's docstring.
func docString(text, indent string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(Plain(text), `\`, `\\`), `"""`, `'''`)
	if strings.HasSuffix(text, `"`) {
		text += " "
	}
	lines := strings.Split(text, "\n")
	for i := range lines {
		if i > 0 && lines[i] != "" {
			lines[i] = indent + lines[i]
		}
	}
	return `"""` + strings.Join(lines, "\n") + `"""`
}
