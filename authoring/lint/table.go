package lint

// rules contains all rules: first the rules about VM types, followed by the rules about Starlark in general, which have
// buildifier's names.
var rules = []Rule{
	{
		Name:     unknownFlag,
		Reason:   "QEMU does not start with an option that it doesn't know.",
		Bad:      "x = option(\"-machin\", \"q35\")\n",
		Good:     "x = option(\"-machine\", \"q35\")\n",
		AsksQEMU: true, check: unknownToQEMU,
	},
	{
		Name:     unknownValue,
		Reason:   "Devices, machines, backends and accelerators differ between versions and builds of QEMU.",
		Bad:      "x = option(\"-device\", \"virtio-rgn-pci\", {})\n",
		Good:     "x = option(\"-device\", \"virtio-rng-pci\", {})\n",
		AsksQEMU: true, check: unknownToQEMU,
	},
	{
		Name:     unknownProperty,
		Reason:   "QEMU does not start with a property that the device, object or option doesn't have.",
		Bad:      "x = option(\"-device\", \"virtio-rng-pci\", {\"max_bytes\": 1024})\n",
		Good:     "x = option(\"-device\", \"virtio-rng-pci\", {\"max-bytes\": 1024})\n",
		AsksQEMU: true, check: unknownToQEMU,
	},
	{
		Name: "impossible-plan",
		Reason: "QEMU, or the runner, would refuse the plan of a sample: two devices are in one place, a bus or a " +
			"backend is missing, or a value is malformed. The linter finds this without QEMU.",
	},
	{
		Name: "implicit-address",
		Reason: "A PCI device without addr gets the first free slot. Adding a card or disk before it changes the " +
			"slot, and the guest finds its hardware in a different place. docs/vm-types/compare.md explains the " +
			"effects.",
	},
	{
		Name:   "properties-in-text",
		Reason: "Properties inside a string are neither checked nor escaped, and replace() cannot find an id there.",
		Bad:    "x = option(\"-device\", \"virtio-rng-pci,id=rng\")\n",
		Good:   "x = option(\"-device\", \"virtio-rng-pci\", {\"id\": \"rng\"})\n",
		check:  propertiesInText,
	},
	{
		Name:   "doubled-comma",
		Reason: "vmrunner doubles commas in values where QEMU requires it; a doubled comma would become four.",
		Bad:    "x = option(\"-name\", None, {\"guest\": \"a,,b\"})\n",
		Good:   "x = option(\"-name\", None, {\"guest\": \"a,b\"})\n",
		check:  doubledComma,
	},
	{
		Name:   "undeclared-option",
		Reason: "vm.options has only the options that the type declares; reading any other fails when a VM starts.",
		Bad: "options = {\"asset\": attr.string(default = \"\")}\n\ndef launch(vm, host):\n    return " +
			"part(options = [option(\"-name\", vm.options.aset)], executable = host.find([vm.options.asset]))\n",
		Good: "options = {\"asset\": attr.string(default = \"\")}\n\ndef launch(vm, host):\n    return " +
			"part(executable = host.find([vm.options.asset]))\n",
		check: undeclaredOption,
	},
	{
		Name:   "unused-option",
		Reason: "A user who sets the option expects an effect.",
		Bad: "options = {\"asset\": attr.string(default = \"\")}\n\ndef launch(vm, host):\n    return " +
			"part(executable = host.find([vm.name]))\n",
		Good: "options = {\"asset\": attr.string(default = \"\")}\n\ndef launch(vm, host):\n    return " +
			"part(executable = host.find([vm.options.asset]))\n",
		check: unusedOption,
	},
	{
		Name: sectionRule,
		Reason: "vm.display, vm.kernel and other sections are None if the configuration omits them, and None has no " +
			"fields.",
		Bad: "def launch(vm, host):\n    return part(executable = host.find([\"/q\"]), options = " +
			"[option(\"-vnc\", vm.display.vnc.port)])\n",
		Good: "def launch(vm, host):\n    vnc = vm.display and vm.display.vnc\n    return part(executable = " +
			"host.find([\"/q\"]), options = [option(\"-vnc\", vnc.port) if vnc else None])\n",
		check: untestedSection,
	},
	{
		Name:   "api-version",
		Reason: "With it, a runner that is too old reports the version instead of an undefined name.",
		Bad:    "def launch(vm, host):\n    return part(executable = host.find([vm.name]))\n",
		Good:   "api_version = 1\n\ndef launch(vm, host):\n    return part(executable = host.find([vm.name]))\n",
		check:  apiVersion,
	},
	{
		Name:   "untested",
		Reason: "A type without tests is first tested by a user's VM. A test or a sample takes a minute to write.",
	},
	{
		Name:   "shadowing",
		Reason: "A definition with the name of a builtin hides it in the whole file and misleads readers.",
		Bad:    "def part(x):\n    return [x]\n",
		Good:   "def my_part(x):\n    return [x]\n",
		check:  findShadowing,
	},
	{
		Name:   "unknown-rule",
		Reason: "A comment that disables an unknown rule has no effect.",
		Bad:    "x = 1  # lint: disable=shadow\n",
		Good:   "part = 1  # lint: disable=shadowing\n",
	},
	{
		Name:   "module-docstring",
		Reason: "The docstring describes the file's purpose, and is shown in lists of types.",
		Bad:    "x = 1\n",
		Good:   "\"\"\"What x is.\"\"\"\n\nx = 1\n",
		check:  moduleDocstring,
	},
	{
		Name:   "function-docstring",
		Reason: "Other modules build on public functions. The name of a private one begins with an underscore.",
		Bad:    "def f():\n    return 1\n",
		Good:   "def f():\n    \"\"\"Returns the first number.\"\"\"\n    return _one()\n\ndef _one():\n    return 1\n",
		check:  functionDocstring,
	},
	{
		Name:   "load",
		Reason: "An unused load misleads readers and costs time.",
		Bad:    "load(\"@vmtypes//lib/qemu.star\", \"device\", \"object\")\n\nx = device(\"virtio-rng-pci\")\n",
		Good:   "load(\"@vmtypes//lib/qemu.star\", \"device\")\n\nx = device(\"virtio-rng-pci\")\n",
		check:  unusedLoad,
	},
	{
		Name: "unused-variable",
		Reason: "A variable that is never read is a leftover or a mistake: often a different one was meant. The " +
			"parameters of launch are exempt.",
		Bad:   "def f():\n    a = 1\n    b = 2\n    return a\n",
		Good:  "def f(_unused):\n    a = 1\n    return a\n",
		check: unusedVariable,
	},
	{
		Name:   "unreachable",
		Reason: "Statements after a return or a fail are never executed.",
		Bad:    "def f():\n    return 1\n    fail(\"x\")\n",
		Good:   "def f(x):\n    if x:\n        return 1\n    fail(\"x\")\n",
		check:  findUnreachable,
	},
	{
		Name:   "return-value",
		Reason: "A function that returns a value on some paths only has usually forgotten a return.",
		Bad:    "def f(x):\n    if x:\n        return 1\n",
		Good:   "def f(x):\n    if x:\n        return 1\n    return None\n",
		check:  returnValue,
	},
	{
		Name:   "no-effect",
		Reason: "part() and similar functions only return a value. If it isn't used, it never reaches QEMU.",
		Bad:    "def f():\n    part(options = [option(\"-nodefaults\")])\n",
		Good:   "def f():\n    return part(options = [option(\"-nodefaults\")])\n",
		check:  noEffect,
	},
	{
		Name:   "name-conventions",
		Reason: "Functions and variables are written in snake_case, constants in capitals.",
		Bad:    "def myPart():\n    return None\n",
		Good:   "def my_part():\n    return None\n",
		check:  nameConventions,
	},
	{
		Name:   "confusing-name",
		Reason: "The names l, I and O are easily confused with digits.",
		Bad:    "l = [1]\n",
		Good:   "ones = [1]\n",
		check:  confusingName,
	},
	{
		Name:   "print",
		Reason: "A VM type is pure: the output of print is discarded. In a test, assert reports more.",
		Bad:    "def f(x):\n    print(x)\n    return x\n",
		Good:   "def f(x):\n    if not x:\n        fail(\"x is %r\" % x)\n    return x\n",
		check:  findPrinting,
	},
}
