package reference

import "slices"

// Builtins returns what every module can use besides Starlark's own functions,
// in the order of the documentation. The names of those that belong together
// have a dot: hotplug.cpus.
func Builtins() []Function {
	return slices.Concat(parts(), things(), rules(), attrs(), []Function{structBuiltin()})
}

// props is how options spell what belongs to them.
const props = "dict[str, Value]"

func parts() []Function {
	return []Function{
		{
			Name: "option", Result: "Option",
			Parameters: []Parameter{
				{Name: "flag", Type: "str", Doc: "the flag with its dash, as in QEMU's manual"},
				{Name: "value", Type: "str | int | Tap | Listener | None", Default: "None", Doc: "what follows the flag; of a tap or listener the number of its descriptor"},
				{Name: "props", Type: props + " | None", Default: "None", Doc: "properties, spelled as in QEMU's manual"},
			},
			Doc: "One option of QEMU (or of a helper). With `props` given, value and properties become a list separated by commas; " +
				"without, the value is passed on as it is, commas and all (`-append`, `-cpu`). An option remembers where it was made.\n\n" +
				"`lib/qemu.star` has a function for each frequent flag: `device`, `object`, `chardev`, `netdev`, `blockdev`, `server_socket`.",
			Example: `option("-rtc", None, {"base": "utc", "clock": "host"})  # -rtc base=utc,clock=host
option("-append", "console=ttyS0,115200 quiet")  # -append console=ttyS0,115200 quiet
`,
		},
		partBuiltin(),
		{
			Name: "combine", Result: "Part",
			Parameters: []Parameter{{Name: "*parts", Type: "Part | None | list", Doc: "the parts; lists may hold lists, and `None` stands for nothing"}},
			Doc: "The sum of parts. Two parts that set the same property of `-machine`, or the executable, to different values are an error; " +
				"use `replace` then.",
			Example: `combine(
    standard(vm, host),
    part(options = [option("-device", "usb-kbd")]),
)
`,
		},
		{
			Name: "replace", Result: "Part",
			Parameters: []Parameter{
				{Name: "part", Type: "Part", Doc: "what to copy; given by position"},
				{Name: "*options", Type: "Option | None | list", Doc: "each takes the place of the one with the same flag and id (`id` or `node-name`; " +
					"without one, the same flag, for `-device` also the same driver)"},
				{Name: "machine", Type: props + " | None", Default: "{}", Keyword: true, Doc: "overrides properties of `-machine`"},
				{Name: "executable", Type: "str", Default: `""`, Keyword: true, Doc: "another QEMU"},
				{Name: "remove", Type: "list[str] | None", Default: "[]", Keyword: true, Doc: "options to drop, by flag and id: `\"-device tablet0\"`; " +
					"with a device go the rules about it"},
			},
			Doc:     "A copy of a part with some options exchanged. What is not there can't be replaced or removed: that is an error with a suggestion.",
			Example: `replace(standard(vm, host), machine = {"hpet": True}, remove = ["-device tablet0"])` + "\n",
		},
	}
}

func partBuiltin() Function {
	list := func(name, of, doc string) Parameter {
		return Parameter{Name: name, Type: "list[" + of + "] | None", Default: "[]", Keyword: true, Doc: doc}
	}
	return Function{
		Name: "part", Result: "Part",
		Parameters: []Parameter{
			{Name: "executable", Type: "str", Default: `""`, Keyword: true, Doc: "QEMU's path"},
			{Name: "machine", Type: props + " | None", Default: "{}", Keyword: true, Doc: "properties of `-machine`; `type` is the machine type"},
			list("options", "Option", "QEMU's options, in their order"),
			{Name: "env", Type: "dict[str, str] | None", Default: "{}", Keyword: true, Doc: "added to QEMU's environment"},
			list("helpers", "Process", "processes that QEMU needs, made by `process`"),
			list("files", "File", "files that must be there, made by `copy_once`"),
			list("taps", "Tap", "network interfaces, made by `tap`"),
			list("listeners", "Listener", "sockets that the runner listens on, made by `listen`"),
			{Name: "sockets", Type: "dict[str, str] | None", Default: "{}", Keyword: true, Doc: "from a role to the path of a unix socket on which QEMU listens; " +
				"the runner uses `console`, `guestAgent` and `vmopAgent`"},
			{Name: "ports", Type: "dict[str, str] | None", Default: "{}", Keyword: true, Doc: "from the role of a socket to the id of the virtio serial port " +
				"in the guest that it leads to: QEMU reports by this id that an agent has opened or closed the port. " +
				"May be left out where the options show it"},
			{Name: "drives", Type: "dict[str, int] | None", Default: "{}", Keyword: true, Doc: "from the id of a device, or the name of a block node, " +
				"to its place in `vm.drives`: the runner names drives as the configuration does when QEMU reports a fault of one. " +
				"May be left out where a rule or the drive's file shows it"},
			list("hotplug", "Rule", "what may change while the VM runs, made by the functions of `hotplug`"),
		},
		Doc: "What one concept needs. All parameters are keywords and may be left out. Lists may hold lists, and `None`, which is left out.",
		Example: `part(
    machine = {"usb": False},
    options = [option("-no-user-config"), option("-accel", "kvm") if host.kvm else None],
)
`,
	}
}

func things() []Function {
	return []Function{
		{
			Name: "process", Result: "Process",
			Parameters: []Parameter{
				{Name: "name", Type: "str", Doc: "what it is called in the log"},
				{Name: "executable", Type: "str", Doc: "the program's path, absolute"},
				{Name: "args", Type: "list[str | int | Option]", Doc: "its arguments; lists may hold lists"},
				{Name: "env", Type: "dict[str, str] | None", Default: "{}", Doc: "added to its environment"},
				{Name: "dir", Type: "str", Default: `""`, Doc: "its working directory"},
				{Name: "ready", Type: "str", Default: `""`, Doc: "a path: QEMU starts when that file exists, and the start is given up after 10 seconds without it"},
				{Name: "role", Type: "str", Default: `""`, Doc: "`tpm` for the process that is the machine's TPM: when it has ended, the runner reports TPMLost " +
					"and keeps the guest from being reset, which would crash QEMU. May be left out where QEMU's `-tpmdev` and the socket show it"},
			},
			Doc: "A helper process, for `helpers` of a part. Helpers start in the order of the list, before QEMU, and are ended after it.",
			Example: `socket = listen("swtpm", host.runtimeDir + "/swtpm-sock")
process(
    name = "swtpm",
    executable = host.find(["/usr/bin/swtpm"], hint = "on Debian it is in the package swtpm"),
    dir = host.dataDir,
    args = ["socket", "--tpm2", option("--ctrl", None, {"type": "unixio", "fd": socket}), "--terminate"],
    role = "tpm",
)
`,
		},
		tapBuiltin(),
		{
			Name: "listen", Result: "Listener",
			Parameters: []Parameter{
				{Name: "name", Type: "str", Doc: "what the plan calls it"},
				{Name: "path", Type: "str", Doc: "where the socket is; at most 107 bytes"},
			},
			Doc: "A unix socket that the runner listens on before anything starts, so that nobody has to wait for it. Put it in `listeners` of a part, " +
				"and where an option wants the file descriptor. See `lib/tpm.star`.",
			Example: `listen("swtpm", host.runtimeDir + "/swtpm-sock")` + "\n",
		},
		{
			Name: "copy_once", Result: "File",
			Parameters: []Parameter{
				{Name: "source", Type: "str", Doc: "the file to copy"},
				{Name: "to", Type: "str", Doc: "where the copy is to be"},
				{Name: "kind", Type: "str", Default: `""`, Doc: "what kind of file it is; a copy of another kind is kept under the name `to.kind` and made anew"},
				{Name: "same_size", Type: "bool", Default: "False", Doc: "whether a copy that is not as large as the source is damaged: the VM doesn't start with it, and it is left as it is"},
			},
			Doc:     "A file that is copied when it isn't there yet and belongs to the VM from then on, for `files` of a part.",
			Example: `copy_once("/usr/share/OVMF/OVMF_VARS_4M.fd", to = host.dataDir + "/fw-vars.fd", kind = "uefi-4m", same_size = True)` + "\n",
		},
	}
}

func tapBuiltin() Function {
	return Function{
		Name: "tap", Result: "Tap",
		Parameters: []Parameter{
			{Name: "name", Type: "str", Doc: "the interface on the host, at most 15 characters"},
			{Name: "bridge", Type: "str | None", Default: "None", Doc: "the bridge to attach it to"},
			{Name: "subnet", Type: "str | None", Default: "None", Doc: "instead of a bridge: a private IPv4 subnet behind it, `\"10.0.2.0/24\"`; `\"auto\"` is one that is free"},
			{Name: "mac", Type: "str | None", Default: "None", Doc: "the guest's hardware address, for DHCP"},
			{Name: "hostname", Type: "str | None", Default: "None", Doc: "the guest's name, for DHCP"},
			{Name: "ports", Type: "list[PortForward] | None", Default: "[]", Doc: "ports of the host that lead to the guest: values with `protocol`, `address`, `host`, `guest`, such as `vm.network[0].ports`"},
		},
		Doc: "A network interface that the runner opens, attached to a bridge or with a private subnet behind it. Put it in `taps` of a part, " +
			"and where an option wants its file descriptor: the number is filled in.",
		Example: `lan = tap("vmlan0", bridge = "br0")
part(taps = [lan], options = [option("-netdev", "tap", {"id": "lan", "fd": lan})])
`,
	}
}

func structBuiltin() Function {
	return Function{
		Name: "struct", Result: "struct",
		Parameters: []Parameter{{Name: "**fields", Type: "Any", Doc: "the fields and their values"}},
		Doc:        "A value with fields.",
		Example:    "point = struct(x = 1, y = 2)\npoint.x  # 1\n",
	}
}

// Objects returns the kinds of values that the builtins make, and those that
// launch is given, except for vm, which [VM] describes.
func Objects() []Object {
	return []Object{
		{Name: "Option", Word: "option", Doc: "An option of QEMU or of a helper, made by `option`.", Fields: []Field{
			{"flag", "str", "The flag with its dash."},
			{"value", "str | None", "What follows the flag, `None` if nothing does."},
			{"props", "dict[str, str]", "Its properties as they are spelled on the command line."},
		}},
		{Name: "Part", Word: "part", Doc: "What one concept needs, made by `part`, `combine` and `replace`.", Fields: []Field{
			{"options", "tuple[Option, ...]", "Its options. Those of `-machine` are not among them."},
		}},
		{Name: "Process", Word: "process", Doc: "A helper process, made by `process`."},
		{Name: "Tap", Word: "tap", Doc: "A network interface, made by `tap`; as a property it is its file descriptor."},
		{Name: "Listener", Word: "listener", Doc: "A socket, made by `listen`; as a property it is its file descriptor."},
		{Name: "File", Word: "file", Doc: "A file that is copied once, made by `copy_once`."},
		{Name: "Attr", Word: "attr", Doc: "Which values an option of the type may have, made by the functions of `attr`."},
		{Name: "Rule", Word: "hotplug rule", Doc: "What may change while the VM runs, made by the functions of `hotplug`."},
		host(), firmware(),
	}
}
