package reference

import "slices"

// attrs are the functions that declare options of a type.
func attrs() []Function {
	values := func(of string) Parameter {
		return keyword("values", "list["+of+"] | None", "None", "the allowed values")
	}
	bounds := func(of string) []Parameter {
		return []Parameter{
			keyword("minimum", of+" | None", "None", "the smallest allowed value"),
			keyword("maximum", of+" | None", "None", "the largest allowed value"),
		}
	}
	return []Function{
		attr("attr.string", "str", []Parameter{values("str")},
			"An option that is a string. A number, `true` or `false` must be quoted in the configuration.",
			`options = {"mode": attr.string(default = "fast", values = ["fast", "safe"], doc = "What to optimize `+
				`for.")}`),
		attr("attr.file", "str", nil,
			"An option that is a file or a folder of the host. A relative path begins at the folder of the configuration; "+
				"the module gets an absolute one. In a cluster it is a file in the image repository, and nothing else is "+
				"accepted ([decision](../decisions/0049-option-files.md)). Every option that a type makes QEMU or a helper "+
				"open must be declared so.",
			`options = {"drivers": attr.file(default = "", doc = "The CD with drivers.")}`),
		attr("attr.int", "int", append([]Parameter{values("int")}, bounds("int")...),
			"An option that is a whole number.",
			`options = {"queues": attr.int(default = 1, minimum = 1, maximum = 8, doc = "Queues of each network `+
				`card.")}`),
		attr("attr.bool", "bool", nil, "An option that is `true` or `false`.",
			`options = {"quiet": attr.bool(default = False, doc = "Whether the machine has no sound card.")}`),
		attr("attr.size", "int | str", append([]Parameter{values("int | str")}, bounds("int | str")...),
			"An option that is a number of bytes. The configuration and the arguments may give it with a unit, "+
				"`\"1.5 GiB\"`; the module gets an integer.",
			`options = {"base": attr.size(default = "1 GiB", minimum = "128 MiB", doc = "The memory at the start.")}`),
		composed("attr.list", required("of", "Attr", "what the items are"), "list",
			"An option that is a list. The module gets a tuple.",
			`options = {"ports": attr.list(attr.int(minimum = 1), default = [], doc = "Ports to open.")}`),
		composed("attr.dict", required("of", "Attr", "what the values are"), "dict",
			"An option that is a mapping from keys that the user chooses to values.",
			`options = {"labels": attr.dict(attr.string(), default = {}, doc = "What to call the machine.")}`),
		composed("attr.record", required("fields", "dict[str, Attr]", "the fields, declared like options"), "dict",
			"An option that is a mapping with declared fields; the module reads them as attributes. With `default = "+
				"{}` it always exists, with the defaults of its fields.",
			`options = {"share": attr.record(doc = "A folder for the guest.", fields = {
    "source": attr.string(mandatory = True, doc = "The folder on the host."),
    "tag": attr.string(default = "share", doc = "What the guest mounts."),
})}`),
	}
}

// attr is a function whose parameters are all keywords.
func attr(name, of string, more []Parameter, doc, example string) Function {
	return Function{
		Name: name, Result: "Attr", Doc: doc, Example: example + "\n",
		Parameters: slices.Concat([]Parameter{
			keyword("default", of+" | None", "None", "the value if the configuration gives none; `None` if omitted"),
			keyword("doc", "str", `""`, "what the option is for, in a sentence or two for users"),
			keyword("mandatory", "bool", "False", "whether the configuration must give a value"),
		}, more),
	}
}

// composed is a function for options made of others.
func composed(name string, of Parameter, kind, doc, example string) Function {
	f := attr(name, kind, nil, doc, example)
	f.Parameters = append([]Parameter{of}, f.Parameters...)
	return f
}
