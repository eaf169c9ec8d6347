package reference

import "slices"

// attrFunctions returns the functions that declare options of a type.
func attrFunctions() []Function {
	return slices.Concat(textFunctions(), numberFunctions(), composedFunctions())
}

// allowedValues returns the parameter with the allowed values of an option.
func allowedValues(of string) Parameter {
	return keywordParameter("values", "list["+of+"] | None", "None", "the allowed values")
}

// textFunctions returns the functions for options that are strings.
func textFunctions() []Function {
	return []Function{
		attrFunction("attr.string", "str", []Parameter{
			allowedValues("str"),
			keywordParameter("pattern", "str", `""`, "a regular expression in RE2 syntax that must match the whole string"),
			keywordParameter("example", "str | None", "None",
				"an allowed string; errors, help and forms show it instead of the pattern"),
			keywordParameter("min_length", "int | None", "None", "the smallest allowed number of characters"),
			keywordParameter("max_length", "int | None", "None", "the largest allowed number of characters"),
		},
			"An option that is a string. A number, `true` or `false` must be quoted in the configuration.",
			`options = {
    "mode": attr.string(default = "fast", values = ["fast", "safe"], doc = "What to optimize for."),
    "ticket": attr.string(pattern = "[A-Z]+-[0-9]+", example = "OPS-17", doc = "The ticket of the change."),
}`),
		attrFunction("attr.file", "str", []Parameter{
			keywordParameter("secret", "bool", "False", "whether the file contains a secret: vmrunner then refuses a plan "+
				"that contains its content"),
		},
			"An option that is a file or a folder of the host. Relative paths begin at the folder of the configuration; "+
				"the module gets an absolute path. In a cluster, only files in the image repository are accepted. Use it for "+
				"every option that names a file for QEMU or a helper.",
			`options = {"drivers": attr.file(default = "", doc = "The CD with drivers.")}`),
	}
}

// numberFunctions returns the functions for options that are numbers or switches.
func numberFunctions() []Function {
	limits := func(of string) []Parameter {
		return []Parameter{
			allowedValues(of), keywordParameter("minimum", of+" | None", "None", "the smallest allowed value"),
			keywordParameter("maximum", of+" | None", "None", "the largest allowed value"),
		}
	}
	return []Function{
		attrFunction("attr.int", "int", limits("int"),
			"An option that is a whole number.",
			`options = {"queues": attr.int(default = 1, minimum = 1, maximum = 8, doc = "Queues of each network `+
				`card.")}`),
		attrFunction("attr.bool", "bool", nil, "An option that is `true` or `false`.",
			`options = {"quiet": attr.bool(default = False, doc = "Whether the machine has no sound card.")}`),
		attrFunction("attr.size", "int | str", limits("int | str"),
			"An option that is a number of bytes. The configuration and the arguments may contain a unit, "+
				"`\"1.5 GiB\"`; the module gets an integer.",
			`options = {"base": attr.size(default = "1 GiB", minimum = "128 MiB", doc = "The memory at the start.")}`),
		attrFunction("attr.duration", "int | str", limits("int | str"),
			"An option that is a time. The configuration and the arguments may contain units, `90s`, `5m`, `1h30m`, "+
				"`2d`; the module gets an integer, in seconds.",
			`options = {"idle": attr.duration(default = "5m", maximum = "1h", doc = "When to stop an idle guest.")}`),
		attrFunction("attr.percent", "int | str", limits("int | str"),
			"An option that is a percentage, `50%` or `50`; the module gets an integer. Without `minimum` and `maximum`, "+
				"the range is 0% to 100%.",
			`options = {"share": attr.percent(default = "50%", minimum = 10, doc = "The guest's share of the card.")}`),
		attrFunction("attr.rate", "int | str", limits("int | str"),
			"An option that is a number of bytes or bits per second, `10 MiB/s` or `100 Mbit/s`; the module gets an "+
				"integer, in bytes per second.",
			`options = {"limit": attr.rate(minimum = "1 MiB/s", doc = "The most that each disk reads and writes.")}`),
	}
}

// composedFunctions returns the functions for options that contain other options.
func composedFunctions() []Function {
	return []Function{
		composedFunction("attr.list", requiredParameter("of", "Attr", "the declaration of the items"), "list",
			[]Parameter{
				keywordParameter("min_items", "int | None", "None", "the smallest allowed number of items"),
				keywordParameter("max_items", "int | None", "None", "the largest allowed number of items"),
				keywordParameter("unique", "bool", "False", "whether each item may occur only once"),
			},
			"An option that is a list. The module gets a tuple.",
			`options = {"ports": attr.list(attr.int(minimum = 1), default = [], unique = True, doc = "Ports to open.")}`),
		composedFunction("attr.dict", requiredParameter("of", "Attr", "the declaration of the values"), "dict", nil,
			"An option that is a mapping. The user chooses the keys.",
			`options = {"labels": attr.dict(attr.string(), default = {}, doc = "What to call the machine.")}`),
		composedFunction("attr.record", requiredParameter("fields", "dict[str, Attr]",
			"the fields, declared like options"), "dict", nil,
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
			keywordParameter("default", of+" | Callable | None", "None",
				"the value if the configuration omits it, or a function that computes it from the preceding options; "+
					"`None` if omitted"),
			keywordParameter("doc", "str", `""`, "what the option is for, in a sentence or two for users"),
			keywordParameter("mandatory", "bool", "False", "whether the configuration must set a value"),
			keywordParameter("required_if", "dict[str, Any] | None", "None", "values of other options of the type; if "+
				"all of these options have one of their values, the configuration must set this option"),
			keywordParameter("deprecated", "str", `""`, "what to use instead, such as `\"use mode\"`: users who set the "+
				"option get a warning"),
			keywordParameter("aliases", "list[str] | None", "None", "former names, which still work in configurations"),
			keywordParameter("label", "str", `""`, "the name on forms; the option's name if omitted"),
			keywordParameter("group", "str", `""`, "the heading on forms above all options with the same group"),
		}, more),
	}
}

// composedFunction returns a function for options that contain other options.
func composedFunction(name string, of Parameter, kind string, more []Parameter, doc, example string) Function {
	f := attrFunction(name, kind, more, doc, example)
	f.Parameters = append([]Parameter{of}, f.Parameters...)
	return f
}
