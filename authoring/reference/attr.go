package reference

import "slices"

// attrs are the functions that declare options of a type.
func attrs() []Function {
	values := func(of string) Parameter {
		return Parameter{Name: "values", Type: "list[" + of + "] | None", Default: "None", Keyword: true, Doc: "all that are allowed"}
	}
	bounds := func(of string) []Parameter {
		return []Parameter{
			{Name: "minimum", Type: of + " | None", Default: "None", Keyword: true, Doc: "the least that is allowed"},
			{Name: "maximum", Type: of + " | None", Default: "None", Keyword: true, Doc: "the most that is allowed"},
		}
	}
	return []Function{
		attr("attr.string", "str", []Parameter{values("str")},
			"An option that is a text. In a configuration a number or a switch must be in quotes to be one.",
			`options = {"mode": attr.string(default = "fast", values = ["fast", "safe"], doc = "What matters more.")}`),
		attr("attr.int", "int", append([]Parameter{values("int")}, bounds("int")...),
			"An option that is a whole number.",
			`options = {"queues": attr.int(default = 1, minimum = 1, maximum = 8, doc = "Queues of each network card.")}`),
		attr("attr.bool", "bool", nil, "An option that is `true` or `false`.",
			`options = {"quiet": attr.bool(default = False, doc = "Whether the machine has no sound card.")}`),
		attr("attr.size", "int | str", append([]Parameter{values("int | str")}, bounds("int | str")...),
			"An option that is a number of bytes. The configuration and the arguments may say it as other sizes, `\"1.5 GiB\"`; the module gets an integer.",
			`options = {"base": attr.size(default = "1 GiB", minimum = "128 MiB", doc = "The memory at the start.")}`),
		composed("attr.list", Parameter{Name: "of", Type: "Attr", Doc: "what the items are"}, "list",
			"An option that is a list. The module gets a tuple.",
			`options = {"ports": attr.list(attr.int(minimum = 1), default = [], doc = "Ports to open.")}`),
		composed("attr.dict", Parameter{Name: "of", Type: "Attr", Doc: "what the values are"}, "dict",
			"An option that is a mapping from texts, which the user chooses, to values.",
			`options = {"labels": attr.dict(attr.string(), default = {}, doc = "What to call the machine.")}`),
		composed("attr.record", Parameter{Name: "fields", Type: "dict[str, Attr]", Doc: "the fields, declared like options"}, "dict",
			"An option that is a mapping with fields, which the author chooses; the module reads them with a dot. With `default = {}` it is there "+
				"in any case, with the defaults of its fields.",
			`options = {"share": attr.record(doc = "A folder for the guest.", fields = {
    "source": attr.string(mandatory = True, doc = "The folder on the host."),
    "tag": attr.string(default = "share", doc = "What the guest mounts."),
})}`),
	}
}

// attr is a function whose parameters are all keywords.
func attr(name, of string, more []Parameter, doc, example string) Function {
	return Function{Name: name, Result: "Attr", Doc: doc, Example: example + "\n", Parameters: slices.Concat([]Parameter{
		{Name: "default", Type: of + " | None", Default: "None", Keyword: true, Doc: "what is used if the configuration gives nothing; without one that is `None`"},
		{Name: "doc", Type: "str", Default: `""`, Keyword: true, Doc: "what the option is for, for users: a sentence or two"},
		{Name: "mandatory", Type: "bool", Default: "False", Keyword: true, Doc: "whether the configuration must give a value"},
	}, more)}
}

// composed is a function for options made of others.
func composed(name string, of Parameter, kind, doc, example string) Function {
	f := attr(name, kind, nil, doc, example)
	f.Parameters = append([]Parameter{of}, f.Parameters...)
	return f
}
