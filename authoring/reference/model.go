package reference

import "strings"

// A Function is a builtin or a function of a module.
type Function struct {
	// Name is the name in a call: "option", "hotplug.cpus"; for a method only its own name, "find".
	Name string
	// Parameters are the parameters, in order.
	Parameters []Parameter
	// Result is the type of the result; "" if there is no result.
	Result string
	// Doc is the description.
	Doc string
	// Example is Starlark code for launch(vm, host) or for a test.
	Example string
}

// A Parameter is a parameter of a function.
type Parameter struct {
	// Name begins with one star if the parameter receives all further values, and with two stars if it receives all
	// further keyword arguments.
	Name string
	// Type is the type of allowed values.
	Type string
	// Default is the source of the default; "" means that the parameter is required.
	Default string
	// Keyword means that the parameter can only be given by name.
	Keyword bool
	// Doc is the description.
	Doc string
}

// requiredParameter returns a required parameter, given by position or by name.
func requiredParameter(name, of, doc string) Parameter {
	return Parameter{Name: name, Type: of, Doc: doc}
}

// optionalParameter returns a parameter with a default, given by position or by name.
func optionalParameter(name, of, value, doc string) Parameter {
	return Parameter{Name: name, Type: of, Default: value, Doc: doc}
}

// keywordParameter returns a parameter with a default, given by name only.
func keywordParameter(name, of, value, doc string) Parameter {
	return Parameter{Name: name, Type: of, Default: value, Keyword: true, Doc: doc}
}

// An Object is a kind of value with fields.
type Object struct {
	// Name is the type's name in signatures: "Option".
	Name string
	// Word is the result of type(): "option".
	Word string
	// Doc is the description.
	Doc     string
	Fields  []Field
	Methods []Function
}

// A Field is a field of an Object.
type Field struct {
	Name, Type, Doc string
}

// Summary returns the first sentence of a text, on one line.
func Summary(doc string) string {
	first, _, _ := strings.Cut(doc, "\n\n")
	first = strings.Join(strings.Fields(first), " ")
	if sentence, _, more := strings.Cut(first, ". "); more {
		return sentence + "."
	}
	return first
}

// Rest reports whether the parameter receives all further arguments.
func (p Parameter) Rest() bool { return strings.HasPrefix(p.Name, "*") }

// Bare returns the name without stars.
func (p Parameter) Bare() string { return strings.TrimLeft(p.Name, "*") }

// String returns the parameter as in a function definition.
func (p Parameter) String() string {
	if p.Default == "" {
		return p.Name
	}
	return p.Name + " = " + p.Default
}

// Signature returns the function's name with its parameters: "f(a, b = 1)".
func (f Function) Signature() string {
	words := make([]string, len(f.Parameters))
	for i, p := range f.Parameters {
		words[i] = p.String()
	}
	return f.Name + "(" + strings.Join(words, ", ") + ")"
}

// Parameter returns the parameter with this name; ok is false if it does not exist.
func (f Function) Parameter(name string) (p Parameter, ok bool) {
	for _, p := range f.Parameters {
		if p.Name == name {
			return p, true
		}
	}
	return Parameter{}, false
}
