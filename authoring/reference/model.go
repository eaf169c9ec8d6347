package reference

import "strings"

// A Function is a builtin or a function of a module.
type Function struct {
	// Name as it is called: "option", "hotplug.cpus", "find" of an object.
	Name string
	// Parameters in their order.
	Parameters []Parameter
	// Result is the type of what it returns; "" means nothing.
	Result string
	// Doc describes it.
	Doc string
	// Example is Starlark that could stand in launch(vm, host) or in a test.
	Example string
}

// A Parameter is one of a function.
type Parameter struct {
	// Name, with one star in front if it takes all further values, with two if
	// it takes all further keywords.
	Name string
	// Type is what can be given.
	Type string
	// Default as source; "" means that the parameter must be given.
	Default string
	// Keyword says that it is given by name only.
	Keyword bool
	// Doc describes it.
	Doc string
}

// requiredParameter is a parameter that must be given, by position or by name.
func requiredParameter(name, of, doc string) Parameter {
	return Parameter{Name: name, Type: of, Doc: doc}
}

// optionalParameter is a parameter with a default, given by position or by name.
func optionalParameter(name, of, value, doc string) Parameter {
	return Parameter{Name: name, Type: of, Default: value, Doc: doc}
}

// keywordParameter is a parameter with a default, given by name only.
func keywordParameter(name, of, value, doc string) Parameter {
	return Parameter{Name: name, Type: of, Default: value, Keyword: true, Doc: doc}
}

// An Object is a kind of value with fields.
type Object struct {
	// Name of the type in signatures: "Option".
	Name string
	// Word is the result of type(): "option".
	Word string
	// Doc describes it.
	Doc     string
	Fields  []Field
	Methods []Function
}

// A Field is what follows the dot.
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

// Rest reports whether the parameter takes all further arguments.
func (p Parameter) Rest() bool { return strings.HasPrefix(p.Name, "*") }

// Bare returns the name without stars.
func (p Parameter) Bare() string { return strings.TrimLeft(p.Name, "*") }

// String returns the parameter as in the head of a function.
func (p Parameter) String() string {
	if p.Default == "" {
		return p.Name
	}
	return p.Name + " = " + p.Default
}

// Signature returns the head of the function without def: "f(a, b = 1)".
func (f Function) Signature() string {
	words := make([]string, len(f.Parameters))
	for i, p := range f.Parameters {
		words[i] = p.String()
	}
	return f.Name + "(" + strings.Join(words, ", ") + ")"
}

// Parameter returns the parameter of this name; ok is false if there is none.
func (f Function) Parameter(name string) (p Parameter, ok bool) {
	for _, p := range f.Parameters {
		if p.Name == name {
			return p, true
		}
	}
	return Parameter{}, false
}
