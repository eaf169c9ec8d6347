package reference

import "slices"

// Builtins returns the names that every module can use in addition to Starlark's own functions, in the order of the
// documentation. Names of the same group have a common prefix with a dot: hotplug.cpus.
func Builtins() []Function {
	return slices.Concat(partFunctions(), thingFunctions(), ruleFunctions(), attrFunctions(),
		[]Function{refuseBuiltin(), structBuiltin()})
}

// props is the type of an option's properties.
const props = "dict[str, Value]"

func partFunctions() []Function {
	return []Function{
		{
			Name: "option", Result: "Option",
			Parameters: []Parameter{
				requiredParameter("flag", "str", "the flag with its dash, as in QEMU's manual"),
				optionalParameter("value", "str | int | Tap | Listener | None", "None",
					"the value after the flag; a tap or listener stands for its file descriptor"),
				optionalParameter("props", props+" | None", "None", "properties, spelled as in QEMU's manual"),
			},
			Doc: "An option of QEMU (or of a helper). With `props`, value and properties become a comma-separated " +
				"list. Without `props`, the value is passed unchanged, including commas (`-append`, `-cpu`). An option " +
				"records the line that created it.\n\n" +
				"`lib/qemu.star` has a function for each common flag: `device`, `object`, `chardev`, `netdev`, " +
				"`blockdev`, `server_socket`.",
			Example: `option("-rtc", None, {"base": "utc", "clock": "host"})  # -rtc base=utc,clock=host
option("-append", "console=ttyS0,115200 quiet")  # -append console=ttyS0,115200 quiet
`,
		},
		partBuiltin(),
		{
			Name: "combine", Result: "Part",
			Parameters: []Parameter{requiredParameter("*parts", "Part | None | list",
				"the parts; lists may be nested, and `None` is ignored")},
			Doc: "The union of parts. It is an error if two parts set the executable or a property of `-machine` to " +
				"different values; use `replace` instead.",
			Example: `combine(
    standard(vm, host),
    part(options = [option("-device", "usb-kbd")]),
)
`,
		},
		changeBuiltin(),
		{
			Name: "replace", Result: "Part",
			Parameters: []Parameter{
				requiredParameter("part", "Part", "the part to copy; positional only"),
				requiredParameter("*options", "Option | None | list",
					"each replaces the option with the same flag and id (`id` or `node-name`; without an id, the "+
						"same flag, and for `-device` also the same driver)"),
				keywordParameter("machine", props+" | None", "{}", "overrides properties of `-machine`"),
				keywordParameter("executable", "str", `""`, "a different QEMU"),
				keywordParameter("remove", "list[str] | None", "[]",
					"what to remove: options by flag and id, `\"-device tablet0\"`, including the rules for a removed device; "+
						"everything else by the first words of its line in the plan: `\"helper swtpm\"`, `\"file "+
						"fw-vars.fd\"`, `\"tap vmlan0\"`, `\"listen swtpm\"`, `\"socket console\"`, `\"rule disk disk0\"` (or all: "+
						"`\"rule disk\"`), `\"env NAME\"`, `\"access /path\"`"),
			},
			Doc: "Returns a copy of a part with some options replaced. Replacing or removing an option that does not " +
				"exist is an error with a suggestion.",
			Example: `replace(standard(vm, host), machine = {"hpet": True}, remove = ["-device tablet0"])` + "\n",
		},
	}
}

func refuseBuiltin() Function {
	return Function{
		Name: "refuse", Result: "None",
		Parameters: []Parameter{
			requiredParameter("section", "Any", "the section of the configuration: `vm`, `vm.options`, `vm.drives[0]`"),
			requiredParameter("field", "str | None", "the name of its field, such as `\"ticket\"`; `None` refuses the section"),
			requiredParameter("message", "str", "what is wrong, as the rest of a sentence that begins with the field"),
			optionalParameter("hint", "str", `""`, "what to do"),
		},
		Doc: "Refuses a field of the configuration. The user sees its line in the file, its field path in the status of " +
			"the resource, or the message next to the field of a form, but not the module. `refuse` does not end " +
			"`launch`: all refused fields are reported together, and errors that follow from them are not reported. " +
			"Use `fail` for mistakes in your own module.",
		Example: `if vm.firmware == "bios" and vm.maximumRam > 64 << 30:
    refuse(vm, "maximumRam", "can't be more than 64 GiB with a BIOS", hint = "set firmware: uefi")
`,
	}
}

// replaceMethod describes vm.replace.
func replaceMethod() Function {
	return Function{
		Name: "replace", Result: "VM",
		Parameters: []Parameter{requiredParameter("**fields", "Any", "other values, by the names of their fields")},
		Doc: "Returns a copy of the vm section with other values, for example for a stock type. It checks the names and " +
			"types of the fields. Sizes (`maximumCpus`, `currentCpus`, `maximumRam`, `currentRam`) can't be replaced; " +
			"decide them in `defaults(vm)`.",
		Example: `standard(vm.replace(firmware = "secure-4m", useTpm = True), host)` + "\n",
	}
}

func changeBuiltin() Function {
	return Function{
		Name: "change", Result: "Part",
		Parameters: []Parameter{
			requiredParameter("part", "Part", "the part to copy"),
			requiredParameter("option", "str", "the option, by flag and id: `\"-device disk0\"`"),
			requiredParameter("props", props, "its new properties; `None` removes a property"),
		},
		Doc: "Returns a copy of a part with changed properties of one option. Other properties are kept, including taps and " +
			"listeners. `why` shows where the option was created, and where it was changed.",
		Example: `change(standard(vm, host), "-netdev net0", {"vhost": True})` + "\n",
	}
}

func partBuiltin() Function {
	list := func(name, of, doc string) Parameter {
		return keywordParameter(name, "list["+of+"] | None", "[]", doc)
	}
	return Function{
		Name: "part", Result: "Part",
		Parameters: []Parameter{
			keywordParameter("executable", "str", `""`, "the path of QEMU"),
			keywordParameter("machine", props+" | None", "{}", "properties of `-machine`; `type` is the machine type"),
			list("options", "Option", "QEMU's options, in order"),
			keywordParameter("env", "dict[str, str] | None", "{}", "added to QEMU's environment"),
			list("helpers", "Process", "processes that QEMU depends on, from `process`"),
			list("files", "File", "files that must exist, from `copy_once`"),
			list("taps", "Tap", "network interfaces, from `tap`"),
			list("listeners", "Listener", "sockets that the runner listens on, from `listen`"),
			keywordParameter("sockets", "dict[str, str] | None", "{}",
				"maps a role to the path of a unix socket on which QEMU listens; the runner uses `console`, "+
					"`guestAgent` and `vmopAgent`"),
			keywordParameter("ports", "dict[str, str] | None", "{}",
				"maps a socket's role to the id of its virtio serial port in the guest. QEMU reports with "+
					"this id that an agent opened or closed the port. Can be omitted if the options show it"),
			keywordParameter("drives", "dict[str, int] | None", "{}",
				"maps a device's id, or the name of a block node, to its index in `vm.drives`. The runner needs it "+
					"to name the drive when QEMU reports an error. Can be omitted if a rule or the drive's file shows it"),
			list("hotplug", "Rule", "what may change while the VM is running, from the functions of `hotplug`"),
			list("access", "Access", "files that QEMU uses but no option names, from `access`"),
			list("cpus", "int", "the host's CPUs for QEMU and all its threads, except threads that "+
				"`hotplug.affinity` places; an empty list means all CPUs"),
		},
		Doc: "Everything that one concept needs. All parameters are keyword-only and optional. Lists may be nested; " +
			"`None` in a list is ignored.",
		Example: `part(
    machine = {"usb": False},
    options = [option("-no-user-config"), option("-accel", "kvm") if host.kvm else None],
)
`,
	}
}

func thingFunctions() []Function {
	return []Function{
		processBuiltin(),
		tapBuiltin(),
		{
			Name: "listen", Result: "Listener",
			Parameters: []Parameter{
				requiredParameter("name", "str", "its name in the plan"),
				requiredParameter("path", "str", "the path of the socket; at most 107 bytes"),
			},
			Doc: "A unix socket on which the runner listens before it starts any process, so that clients never " +
				"wait for it. Add it to `listeners` of a part, and use it as the value of an option's file descriptor. See " +
				"`lib/tpm.star`.",
			Example: `listen("swtpm", host.runtimeDir + "/swtpm-sock")` + "\n",
		},
		{
			Name: "copy_once", Result: "File",
			Parameters: []Parameter{
				requiredParameter("source", "str", "the file to copy"),
				requiredParameter("to", "str", "the path of the copy"),
				optionalParameter("kind", "str", `""`,
					"the kind of file; an existing copy of another kind is kept as `to.kind`, and a new copy is created"),
				optionalParameter("same_size", "bool", "False",
					"whether a copy must have the source's size; otherwise the VM doesn't start, and "+
						"the copy is left unchanged"),
			},
			Doc: "For `files` of a part: a file that is copied if it doesn't exist yet. From then on, the copy belongs to " +
				"the VM.",
			Example: `copy_once("/usr/share/OVMF/OVMF_VARS_4M.fd", to = host.dataDir + "/fw-vars.fd", kind = ` +
				`"uefi-4m", same_size = True)` + "\n",
		},
		accessBuiltin(),
	}
}

func processBuiltin() Function {
	return Function{
		Name: "process", Result: "Process",
		Parameters: []Parameter{
			requiredParameter("name", "str", "its name in the log"),
			requiredParameter("executable", "str", "the absolute path of the program"),
			requiredParameter("args", "list[str | int | Option]", "its arguments; lists may be nested"),
			optionalParameter("env", "dict[str, str] | None", "{}", "added to its environment"),
			optionalParameter("dir", "str", `""`, "its working directory"),
			optionalParameter("ready", "str", `""`,
				"a path: QEMU starts when this file exists; the start fails if it doesn't appear within "+
					"10 seconds"),
			optionalParameter("role", "str", `""`,
				"`tpm` for a TPM emulator: if it ends, the runner reports TPMLost and prevents "+
					"resets of the guest, which would crash QEMU. Can be omitted if QEMU's `-tpmdev` and "+
					"the socket show it. `network` for a process behind a network card, such as passt: it is a client of a "+
					"socket on which QEMU listens, installs a seccomp filter when it is ready, and is restarted when it ends"),
			optionalParameter("access", "list[Access] | None", "[]",
				"files that it uses but its arguments don't name, from `access`"),
			optionalParameter("confined", "bool", "True",
				"`False` for a program that confines itself and can't do so while the kernel confines it to the "+
					"plan; it then has all rights of the runner"),
			optionalParameter("cpus", "list[int] | None", "[]",
				"the host's CPUs for the process; an empty list means all CPUs"),
		},
		Doc: "For `helpers` of a part: a helper process. Helpers start in the order of the list, before QEMU, and " +
			"stop after QEMU.",
		Example: `socket = listen("swtpm", host.runtimeDir + "/swtpm-sock")
process(
    name = "swtpm",
    executable = host.find(["/usr/bin/swtpm"], hint = "on Debian it is in the package swtpm"),
    dir = host.dataDir,
    args = ["socket", "--tpm2", option("--ctrl", None, {"type": "unixio", "fd": socket}), "--terminate"],
    role = "tpm",
)
`,
	}
}

func accessBuiltin() Function {
	return Function{
		Name: "access", Result: "Access",
		Parameters: []Parameter{
			requiredParameter("path", "str", "an absolute path of a file, or of a folder with its contents"),
			optionalParameter("mode", "str", `"read"`, "`read`, which includes executing, or `write`, which includes reading"),
		},
		Doc: "For `access` of a part or of `process`: allows QEMU or a helper to use a file of the host. The kernel otherwise " +
			"allows only the files in the plan: files that options name, folders of sockets, and devices that an option " +
			"implies. `vmrunner plan --confinement --why` prints them. Use `access` for files that a program opens on its " +
			"own. A file that doesn't exist when the VM starts is omitted.",
		Example: `part(access = [access("/var/lib/fonts"), access("/dev/my-card", "write")])` + "\n",
	}
}

func tapBuiltin() Function {
	return Function{
		Name: "tap", Result: "Tap",
		Parameters: []Parameter{
			requiredParameter("name", "str", "the interface on the host, at most 15 characters"),
			optionalParameter("bridge", "str | None", "None", "the bridge to attach it to"),
			optionalParameter("subnet", "str | None", "None",
				"instead of a bridge: a private IPv4 subnet behind the interface, `\"10.0.2.0/24\"`; `\"auto\"` "+
					"selects an unused subnet"),
			optionalParameter("mac", "str | None", "None", "the guest's hardware address, for DHCP"),
			optionalParameter("hostname", "str | None", "None", "the guest's name, for DHCP"),
			optionalParameter("ports", "list[PortForward] | None", "[]",
				"ports of the host that are forwarded to the guest: values with `protocol`, `address`, `host`, "+
					"`guest`, such as `vm.network[0].ports`"),
			optionalParameter("all_ports_but", "list[int] | None", "None",
				"with a subnet: forwards all ports of the host to the guest, except these and ports on which a "+
					"program listens at the start"),
			optionalParameter("queues", "int", "1", "the number of queues, at most 256. With more than one queue, use the tap as the value of `fds` "+
				"instead of `fd`, and set `{\"mq\": True, \"vectors\": 2 * queues + 2}` for the virtio-net card"),
			optionalParameter("lease", "Lease | None", "None",
				"with a bridge and mac: the addresses that the runner assigns to the guest over DHCP, "+
					"such as `vm.network[0].lease`"),
			optionalParameter("filter", "bool | None", "None",
				"with a lease: whether the guest can use only mac and the lease's address"),
		},
		Doc: "A network interface that the runner opens, attached to a bridge or with a private subnet behind it. " +
			"Add it to `taps` of a part, and use it as the value of an option's file descriptor.",
		Example: `lan = tap("vmlan0", bridge = "br0")
part(taps = [lan], options = [option("-netdev", "tap", {"id": "lan", "fd": lan})])
`,
	}
}

func structBuiltin() Function {
	return Function{
		Name: "struct", Result: "struct",
		Parameters: []Parameter{requiredParameter("**fields", "Any", "the fields and their values")},
		Doc:        "A value with fields.",
		Example:    "point = struct(x = 1, y = 2)\npoint.x  # 1\n",
	}
}

// Objects returns the kinds of values that the builtins return and that launch receives, except for vm, which [VM]
// describes.
func Objects() []Object {
	return append([]Object{
		{Name: "Option", Word: "option", Doc: "An option of QEMU or of a helper, from `option`.", Fields: []Field{
			{"flag", "str", "The flag with its dash."},
			{"value", "str | None", "The value after the flag, or `None`."},
			{"props", "dict[str, str]", "Its properties as spelled on the command line."},
		}},
		{
			Name: "Part", Word: "part",
			Doc: "Everything that one concept needs, from `part`, `combine`, `change` or `replace`.",
			Fields: []Field{
				{"options", "tuple[Option, ...]", "Its options, without `-machine`."},
			},
		},
		{Name: "Process", Word: "process", Doc: "A helper process, from `process`."},
		{
			Name: "Tap", Word: "tap",
			Doc: "A network interface, from `tap`; as the value of a property it stands for its file descriptor.",
		},
		{
			Name: "Listener", Word: "listener",
			Doc: "A socket, from `listen`; as the value of a property it stands for its file descriptor.",
			Fields: []Field{
				{"client", "Listener", "A connection to the socket, for the process at its other end."},
			},
		},
		{Name: "Access", Word: "access", Doc: "Permission to use a file of the host, from `access`."},
		{Name: "File", Word: "file", Doc: "A file that is copied once, from `copy_once`."},
		{
			Name: "Attr", Word: "attr",
			Doc: "The declaration of an option of the type, from the functions of `attr`.",
		},
		{
			Name: "Rule", Word: "hotplug rule",
			Doc: "A change that is possible while the VM is running, from the functions of `hotplug`.",
		},
		hostObject(), nodeObject(), firmwareObject(),
	}, hardwareObjects()...)
}
