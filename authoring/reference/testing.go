package reference

// TestingModule is the name in load statements of the module that [Testing] describes.
const TestingModule = "@vmtypes//testing.star"

// Testing returns the functions of the testing module, which only test files can load.
func Testing() []Function {
	check := func(name, doc, example string, parameters ...Parameter) Function {
		message := optionalParameter("message", "str", `""`, "a prefix of the failure message, to distinguish cases")
		return Function{
			Name: "assert." + name, Parameters: append(parameters, message), Result: "None", Doc: doc,
			Example: example,
		}
	}
	return []Function{
		{
			Name: "plan_of", Result: "Plan",
			Parameters: []Parameter{
				requiredParameter("launch", "Callable", "the launch function of a type"),
				keywordParameter("host", "dict", "{}",
					"the computer: `files`, `dataDir`, `runtimeDir`, `arch`, `kvm`, `cloudInitImage`, `sysprepImage`, "+
						"`hasDisplayPassword`, `machines`, `firmware`, `cpus`, `nodes`, `hugePages` (by size: "+
						"`{\"2097152\": 512}`), `processors`, `pci` (a list of devices), `sev`, `tdx`, `directIO` (a list of "+
						"images), `aio`; the default is a Debian 12 "+
						"without KVM, with CPUs 0 to 7 and 16 GiB in one node, and without PCI devices"),
				requiredParameter("**vm", "Any", "the vm section, read as strictly as the runner does"),
			},
			Doc: "Returns the plan of a type for a VM.",
			Example: `plan_of(launch, host = {"kvm": True, "files": ["fedora"]}, network = [], maximumRam = "2 GiB")` +
				"\n",
		},
		{
			Name: "draw", Result: "list[dict]",
			Parameters: []Parameter{
				requiredParameter("launch", "Callable", "the launch function of a type"),
				requiredParameter("number", "int", "how many VMs, at most 200"),
				keywordParameter("seed", "int", "1", "the same seed draws the same VMs"),
				requiredParameter("**vm", "Any", "keys of the vm section that are not drawn"),
			},
			Doc: "Draws VMs that the type accepts, with options and computers. Each is a dict with the arguments of `plan_of`. " +
				"The test fails if the type fails for a VM.",
			Example: `plans = [plan_of(launch, **vm) for vm in draw(launch, 20, network = [])]` + "\n",
		},
		check("eq", "Two values are equal.", "assert.eq(1 + 1, 2)\n", anyParameter("got", "the actual value"),
			anyParameter("want", "the expected value")),
		check("ne", "Two values differ.", "assert.ne(1, 2)\n", anyParameter("one", "a value"),
			anyParameter("other", "another value")),
		check("true", "A condition holds.", "assert.true(plan_of(launch).machine, \"there is a machine\")\n",
			anyParameter("condition", "the condition")),
		check("contains", "A list, dict or string contains an element.",
			`assert.contains(plan_of(launch).argv, "-nodefaults")`+"\n",
			anyParameter("whole", "the list, dict, set or string"), anyParameter("element", "the element")),
		check("not_contains", "A list, dict or string doesn't contain an element.",
			`assert.not_contains(plan_of(launch).argv, "-snapshot")`+"\n",
			anyParameter("whole", "the list, dict, set or string"), anyParameter("element", "the element")),
		check("matches", "A string, or one of a list of strings, matches a pattern.",
			`assert.matches(plan_of(launch).argv, "^guest=.*threads=on$")`+"\n",
			requiredParameter("text", "str | list[str]", "the string or strings"), patternParameter()),
		check("fails", "A function fails, with a message that a pattern matches.",
			`assert.fails(lambda: fail("no disk"), "no d.sk")`+"\n",
			requiredParameter("function", "Callable", "called without arguments"), patternParameter()),
	}
}

func patternParameter() Parameter {
	return requiredParameter("pattern", "str", "a regular expression (RE2), which matches anywhere")
}

func anyParameter(name, doc string) Parameter { return requiredParameter(name, "Any", doc) }

// TestingObjects returns the kinds of values in tests.
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
			{"rules", "list[str]", "Changes that are possible while the VM is running, one line each."},
			{"listeners", "dict[str, str]", "Maps the name of a listener to its path."},
			{"sockets", "dict[str, str]", "Maps the role of a socket of QEMU to its path."},
		},
		Methods: []Function{
			{
				Name: "option", Result: "struct | None",
				Parameters: []Parameter{
					requiredParameter("flag", "str", "with its dash"),
					optionalParameter("id", "str", "None", "its `id` or `node-name`"),
				},
				Doc: "The option with this flag and id, with `flag`, `value`, `props` and `text`, or `None`. " +
					"More than one is an error.",
				Example: `plan_of(launch).option("-device", id = "balloon0")` + "\n",
			},
			{
				Name: "options", Result: "list[struct]",
				Parameters: []Parameter{requiredParameter("flag", "str", "with its dash")},
				Doc:        "All options with this flag.",
				Example:    `[o.text for o in plan_of(launch).options("-netdev")]` + "\n",
			},
		},
	}}
}
