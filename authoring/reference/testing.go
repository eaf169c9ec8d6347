package reference

// TestingModule is how test files load what [Testing] returns.
const TestingModule = "@vmtypes//testing.star"

// Testing returns what is in the module that exists in tests only.
func Testing() []Function {
	check := func(name, doc, example string, parameters ...Parameter) Function {
		message := optional("message", "str", `""`, "a prefix of the failure message, to tell cases apart")
		return Function{
			Name: "assert." + name, Parameters: append(parameters, message), Result: "None", Doc: doc,
			Example: example,
		}
	}
	return []Function{
		{
			Name: "plan_of", Result: "Plan",
			Parameters: []Parameter{
				required("launch", "Callable", "the launch function of a type"),
				keyword("host", "dict", "{}",
					"the computer: `files`, `dataDir`, `runtimeDir`, `arch`, `kvm`, `cloudInitImage`, `sysprepImage`, "+
						"`hasDisplayPassword`, `machines`, `firmware`, `cpus`, `nodes`, `hugePages` (by size: "+
						"`{\"2097152\": 512}`); the default is a Debian 12 without KVM, with CPUs 0 to 7 in one node"),
				required("**vm", "Any", "the vm section, read as strictly as the runner does"),
			},
			Doc: "The plan that a type makes for a VM.",
			Example: `plan_of(launch, host = {"kvm": True, "files": ["fedora"]}, network = [], maximumRam = "2 GiB")` +
				"\n",
		},
		check("eq", "Two values are equal.", "assert.eq(1 + 1, 2)\n", anything("got", "the actual value"),
			anything("want", "the expected value")),
		check("ne", "Two values differ.", "assert.ne(1, 2)\n", anything("one", "a value"),
			anything("other", "another one")),
		check("true", "A condition holds.", "assert.true(plan_of(launch).machine, \"there is a machine\")\n",
			anything("condition", "what counts as true")),
		check("contains", "A list, dict or string contains an element.",
			`assert.contains(plan_of(launch).argv, "-nodefaults")`+"\n",
			anything("whole", "the list, dict, set or string"), anything("element", "what is in it")),
		check("not_contains", "A list, dict or string doesn't contain an element.",
			`assert.not_contains(plan_of(launch).argv, "-snapshot")`+"\n",
			anything("whole", "the list, dict, set or string"), anything("element", "what is not in it")),
		check("matches", "A string, or one of a list of strings, matches a pattern.",
			`assert.matches(plan_of(launch).argv, "^guest=.*threads=on$")`+"\n",
			required("text", "str | list[str]", "the string or strings"), pattern()),
		check("fails", "A function fails, with a message that a pattern matches.",
			`assert.fails(lambda: fail("no disk"), "no d.sk")`+"\n",
			required("function", "Callable", "called without arguments"), pattern()),
	}
}

func pattern() Parameter {
	return required("pattern", "str", "a regular expression (RE2), which matches anywhere")
}

func anything(name, doc string) Parameter { return required(name, "Any", doc) }

// TestingObjects returns the kinds of values that tests see.
func TestingObjects() []Object {
	return []Object{{
		Name: "Plan", Word: "plan", Doc: "A launch plan, from `plan_of`.",
		Fields: []Field{
			{"executable", "str", "QEMU's path."},
			{"argv", "list[str]", "QEMU's arguments, one word each; file descriptors are `<name>`."},
			{"text", "str", "The plan as `vmrunner plan` prints it."},
			{"machine", "dict[str, str]", "Properties of `-machine`; `type` is the machine type."},
			{"helpers", "list[struct]", "Helper processes with `name`, `executable`, `dir`, `argv`, `ready`."},
			{"files", "list[struct]", "Files with `source`, `to`, `kind`, `same_size`."},
			{"taps", "list[struct]", "Interfaces with `name`, `bridge`, `lease`, `filter`, `subnet`, `mac`, `hostname`, `ports`."},
			{"rules", "list[str]", "What may change while the VM is running, one line each."},
			{"listeners", "dict[str, str]", "Maps the name of a listener to its path."},
			{"sockets", "dict[str, str]", "Maps the role of a socket of QEMU to its path."},
		},
		Methods: []Function{
			{
				Name: "option", Result: "struct | None",
				Parameters: []Parameter{
					required("flag", "str", "with its dash"),
					optional("id", "str", "None", "its `id` or `node-name`"),
				},
				Doc: "The option with this flag and id, with `flag`, `value`, `props` and `text`, or `None`. " +
					"More than one is an error.",
				Example: `plan_of(launch).option("-device", id = "balloon0")` + "\n",
			},
			{
				Name: "options", Result: "list[struct]",
				Parameters: []Parameter{required("flag", "str", "with its dash")},
				Doc:        "All options with this flag.",
				Example:    `[o.text for o in plan_of(launch).options("-netdev")]` + "\n",
			},
		},
	}}
}
