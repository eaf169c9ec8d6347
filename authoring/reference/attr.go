package reference

import "slices"

// attrFunctions returns the functions that declare options of a type.
func attrFunctions() []Function {
	values := func(of string) Parameter {
		return keywordParameter("values", "list["+of+"] | None", "None", "the allowed values")
	}
	bounds := func(of string) []Parameter {
		return []Parameter{
			keywordParameter("minimum", of+" | None", "None", "the smallest allowed value"),
			keywordParameter("maximum", of+" | None", "None", "the largest allowed value"),
		}
	}
	return []Function{
		attrFunction("attr.string", "str", []Parameter{values("str")},
			"An option that is a string. A number, `true` or `false` must be quoted in the configuration.",
			`options = {"mode": attr.string(default = "fast", values = ["fast", "safe"], doc = "What to optimize `+
				`for.")}`),
		attrFunction("attr.file", "str", nil,
			"An option that is a file or a folder of the host. Relative paths begin at the folder of the configuration; "+
				"the module gets an absolute path. In a cluster, only files in the image repository are accepted. Use it for "+
				"every option that names a file for QEMU or a helper.",
			`options = {"drivers": attr.file(default = "", doc = "The CD with drivers.")}`),
		attrFunction("attr.int", "int", append([]Parameter{values("int")}, bounds("int")...),
			"An option that is a whole number.",
			`options = {"queues": attr.int(default = 1, minimum = 1, maximum = 8, doc = "Queues of each network `+
				`card.")}`),
		attrFunction("attr.bool", "bool", nil, "An option that is `true` or `false`.",
			`options = {"quiet": attr.bool(default = False, doc = "Whether the machine has no sound card.")}`),
		attrFunction("attr.size", "int | str", append([]Parameter{values("int | str")}, bounds("int | str")...),
			"An option that is a number of bytes. The configuration and the arguments may contain a unit, "+
				"`\"1.5 GiB\"`; the module gets an integer.",
			`options = {"base": attr.size(default = "1 GiB", minimum = "128 MiB", doc = "The memory at the start.")}`),
		composedFunction("attr.list", requiredParameter("of", "Attr", "the declaration of the items"), "list",
			"An option that is a list. The module gets a tuple.",
			`options = {"ports": attr.list(attr.int(minimum = 1), default = [], doc = "Ports to open.")}`),
		composedFunction("attr.dict", requiredParameter("of", "Attr", "the declaration of the values"), "dict",
			"An option that is a mapping. The user chooses the keys.",
			`options = {"labels": attr.dict(attr.string(), default = {}, doc = "What to call the machine.")}`),
		composedFunction("attr.record", requiredParameter("fields", "dict[str, Attr]",
			"the fields, declared like options"), "dict",
			"An option that is a mapping with declared fields; the module reads them as attributes. With `default = "+
				"{}` it always exists, with the defaults of its fields.",
			`options = {"share": attr.record(doc = "A folder for the guest.", fields = {
    "source": attr.string(mandatory = True, doc = "The folder on the host."),
    "tag": attr.string(default = "share", doc = "What the guest mounts."),
})}`),
	}
}

// attrFunction returns a function with keyword parameters only.
func attrFunction(name, of string, more []Parameter, doc, example string) Function {
	return Function{
		Name: name, Result: "Attr", Doc: doc, Example: example + "\n",
		Parameters: slices.Concat([]Parameter{
			keywordParameter("default", of+" | None", "None",
				"the value if the configuration sets none; `None` if omitted"),
			keywordParameter("doc", "str", `""`, "what the option is for, in a sentence or two for users"),
			keywordParameter("mandatory", "bool", "False", "whether the configuration must set a value"),
		}, more),
	}
}

// composedFunction returns a function for options that contain other options.
func composedFunction(name string, of Parameter, kind, doc, example string) Function {
	f := attrFunction(name, kind, nil, doc, example)
	f.Parameters = append([]Parameter{of}, f.Parameters...)
	return f
}
