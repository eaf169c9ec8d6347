package reference

// Language returns Starlark's own functions, without the constants None, True and False.
func Language() []Function {
	x := anyParameter("x", "")
	items := Parameter{Name: "iterable", Type: "Iterable"}
	key := keywordParameter("key", "Callable", "None", "called with each element to get the key of the comparison")
	f := func(name, result, doc string, parameters ...Parameter) Function {
		return Function{Name: name, Parameters: parameters, Result: result, Doc: doc}
	}
	return []Function{
		f("abs", "int | float", "The absolute value of a number.", x),
		f("all", "bool", "Reports whether all elements are true.", items),
		f("any", "bool", "Reports whether any element is true.", items),
		f("bool", "bool", "Reports whether a value is true.", withDefault(x, "False")),
		f("bytes", "bytes", "The UTF-8 encoding of a string, or the bytes in a list of numbers.", x),
		f("chr", "str", "The character with this code point.", Parameter{Name: "i", Type: "int"}),
		f("dict", "dict", "A dict from pairs and keywords.",
			withDefault(Parameter{Name: "pairs", Type: "Iterable"}, "[]"),
			anyParameter("**kwargs", "")),
		f("dir", "list[str]", "The names of a value's fields and methods.", x),
		f("enumerate", "list[tuple[int, Any]]", "Pairs of a number and an element.", items,
			Parameter{Name: "start", Type: "int", Default: "0"}),
		{
			Name: "fail", Parameters: []Parameter{
				anyParameter("*args", "the message"),
				keywordParameter("sep", "str", `" "`, "the separator"),
			},
			Doc: "Ends the evaluation with a message to the user who configured the VM: say what is wrong, and " +
				"how to fix it.",
			Example: "if vm.maximumRam < 64 << 20:\n    fail(\"vm.maximumRam: this type needs 64 MiB\")\n",
		},
		f("float", "float", "A number or a string as a floating-point number.", withDefault(x, "0.0")),
		f("getattr", "Any", "A field by its name.", x, Parameter{Name: "name", Type: "str"},
			anyParameter("default", "")),
		f("hasattr", "bool", "Reports whether a value has a field with this name.", x,
			Parameter{Name: "name", Type: "str"}),
		f("hash", "int", "A number that is the same for the same string.", Parameter{Name: "x", Type: "str | bytes"}),
		f("int", "int", "A number or a string as an integer.", withDefault(x, "0"),
			Parameter{Name: "base", Type: "int", Default: "10"}),
		f("len", "int", "The number of elements; for a string, of bytes.", x),
		f("list", "list", "The elements as a new list.", withDefault(items, "[]")),
		f("max", "Any", "The largest of its arguments, or of one list's elements.", anyParameter("*args", ""), key),
		f("min", "Any", "The smallest of its arguments, or of one list's elements.", anyParameter("*args", ""), key),
		f("ord", "int", "The code point of a character.", Parameter{Name: "s", Type: "str"}),
		f("print", "", "Has no effect: a VM type is pure. `vmrunner vmtype repl` and `why` show values.",
			anyParameter("*args", "")),
		f("range", "range", "Integers: `range(stop)`, `range(start, stop)`, `range(start, stop, step)`.",
			Parameter{Name: "start_or_stop", Type: "int"},
			Parameter{Name: "stop", Type: "int", Default: "None"}, Parameter{Name: "step", Type: "int", Default: "1"}),
		f("repr", "str", "A value in Starlark syntax.", x),
		f("reversed", "list", "The elements in reverse order.", items),
		f("set", "set", "The elements without duplicates.", withDefault(items, "[]")),
		f("sorted", "list", "The elements in order.", items, key,
			Parameter{Name: "reverse", Type: "bool", Default: "False", Keyword: true}),
		f("str", "str", "A value as text.", x),
		f("tuple", "tuple", "The elements as a tuple.", withDefault(items, "()")),
		f("type", "str", "The name of a value's type: `type(1) == \"int\"`.", x),
		f("zip", "list[tuple]", "Tuples of the first elements, of the second elements …",
			anyParameter("*iterables", "")),
	}
}

func withDefault(p Parameter, value string) Parameter {
	p.Default = value
	return p
}
