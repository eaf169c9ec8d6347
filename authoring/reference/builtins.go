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
				required("flag", "str", "the flag with its dash, as in QEMU's manual"),
				optional("value", "str | int | Tap | Listener | None", "None",
					"the value after the flag; for a tap or listener the number of its file descriptor"),
				optional("props", props+" | None", "None", "properties, spelled as in QEMU's manual"),
			},
			Doc: "An option of QEMU (or of a helper). With `props`, value and properties become a comma-separated " +
				"list; without, the value is passed unchanged, commas included (`-append`, `-cpu`). An option " +
				"records where it was made.\n\n" +
				"`lib/qemu.star` has a function for each common flag: `device`, `object`, `chardev`, `netdev`, " +
				"`blockdev`, `server_socket`.",
			Example: `option("-rtc", None, {"base": "utc", "clock": "host"})  # -rtc base=utc,clock=host
option("-append", "console=ttyS0,115200 quiet")  # -append console=ttyS0,115200 quiet
`,
		},
		partBuiltin(),
		{
			Name: "combine", Result: "Part",
			Parameters: []Parameter{required("*parts", "Part | None | list",
				"the parts; lists may be nested, and `None` is ignored")},
			Doc: "The union of parts. Two parts that set the same property of `-machine`, or the executable, to " +
				"different values are an error; use `replace` instead.",
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
				required("part", "Part", "the part to copy; positional only"),
				required("*options", "Option | None | list",
					"each replaces the option with the same flag and id (`id` or `node-name`; without an id, the "+
						"same flag, and for `-device` also the same driver)"),
				keyword("machine", props+" | None", "{}", "overrides properties of `-machine`"),
				keyword("executable", "str", `""`, "a different QEMU"),
				keyword("remove", "list[str] | None", "[]",
					"what to remove: options by flag and id, `\"-device tablet0\"`, with the rules for a removed device; "+
						"anything else by the first words of its line in the plan: `\"helper swtpm\"`, `\"file "+
						"fw-vars.fd\"`, `\"tap vmlan0\"`, `\"listen swtpm\"`, `\"socket console\"`, `\"rule disk disk0\"` (or all: "+
						"`\"rule disk\"`), `\"env NAME\"`, `\"access /path\"`"),
			},
			Doc: "A copy of a part with some options replaced. Replacing or removing an option that does not " +
				"exist is an error with a suggestion.",
			Example: `replace(standard(vm, host), machine = {"hpet": True}, remove = ["-device tablet0"])` + "\n",
		},
	}
}

func changeBuiltin() Function {
	return Function{
		Name: "change", Result: "Part",
		Parameters: []Parameter{
			required("part", "Part", "the part to copy"),
			required("option", "str", "the option, by flag and id: `\"-device disk0\"`"),
			required("props", props, "its new properties; `None` takes one away"),
		},
		Doc: "A copy of a part in which one option has other properties. Those that are not named stay, taps and " +
			"listeners among them. `why` shows where the option was made, and where it was changed.",
		Example: `change(standard(vm, host), "-netdev net0", {"vhost": True})` + "\n",
	}
}

func partBuiltin() Function {
	list := func(name, of, doc string) Parameter {
		return keyword(name, "list["+of+"] | None", "[]", doc)
	}
	return Function{
		Name: "part", Result: "Part",
		Parameters: []Parameter{
			keyword("executable", "str", `""`, "the path of QEMU"),
			keyword("machine", props+" | None", "{}", "properties of `-machine`; `type` is the machine type"),
			list("options", "Option", "QEMU's options, in order"),
			keyword("env", "dict[str, str] | None", "{}", "added to QEMU's environment"),
			list("helpers", "Process", "processes that QEMU depends on, made by `process`"),
			list("files", "File", "files that must exist, made by `copy_once`"),
			list("taps", "Tap", "network interfaces, made by `tap`"),
			list("listeners", "Listener", "sockets that the runner listens on, made by `listen`"),
			keyword("sockets", "dict[str, str] | None", "{}",
				"maps a role to the path of a unix socket on which QEMU listens; the runner uses `console`, "+
					"`guestAgent` and `vmopAgent`"),
			keyword("ports", "dict[str, str] | None", "{}",
				"maps the role of a socket to the id of the virtio serial port in the guest that it is connected to: "+
					"QEMU uses this id to report that an agent has opened or closed the port. Can be omitted if the "+
					"options show it"),
			keyword("drives", "dict[str, int] | None", "{}",
				"maps the id of a device, or the name of a block node, to its index in `vm.drives`, so that the "+
					"runner can name the drive as the configuration does when QEMU reports an error of it. Can be "+
					"omitted if a rule or the drive's file shows it"),
			list("hotplug", "Rule", "what may change while the VM is running, made by the functions of `hotplug`"),
			list("access", "Access", "files that QEMU uses and no option shows, made by `access`"),
			list("cpus", "int", "the CPUs of the host that QEMU runs on, with all its threads but those that "+
				"`hotplug.affinity` places; none means all"),
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

func things() []Function {
	return []Function{
		processBuiltin(),
		tapBuiltin(),
		{
			Name: "listen", Result: "Listener",
			Parameters: []Parameter{
				required("name", "str", "its name in the plan"),
				required("path", "str", "the path of the socket; at most 107 bytes"),
			},
			Doc: "A unix socket that the runner listens on before it starts any process, so that clients never " +
				"wait for it. Put it in `listeners` of a part, and wherever an option takes the file descriptor. See " +
				"`lib/tpm.star`.",
			Example: `listen("swtpm", host.runtimeDir + "/swtpm-sock")` + "\n",
		},
		{
			Name: "copy_once", Result: "File",
			Parameters: []Parameter{
				required("source", "str", "the file to copy"),
				required("to", "str", "the path of the copy"),
				optional("kind", "str", `""`,
					"the kind of file; an existing copy of another kind is kept as `to.kind`, and a new copy is made"),
				optional("same_size", "bool", "False",
					"whether a copy whose size differs from the source's is damaged: the VM then fails to start, and "+
						"the copy is left unchanged"),
			},
			Doc: "A file that is copied if it doesn't exist yet and belongs to the VM from then on, for " +
				"`files` of a part.",
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
			required("name", "str", "its name in the log"),
			required("executable", "str", "the absolute path of the program"),
			required("args", "list[str | int | Option]", "its arguments; lists may be nested"),
			optional("env", "dict[str, str] | None", "{}", "added to its environment"),
			optional("dir", "str", `""`, "its working directory"),
			optional("ready", "str", `""`,
				"a path: QEMU is started once this file exists; the start fails if it doesn't appear within "+
					"10 seconds"),
			optional("role", "str", `""`,
				"`tpm` for the process that emulates the TPM: if it ends, the runner reports TPMLost and keeps "+
					"the guest from being reset, which would crash QEMU. Can be omitted if QEMU's `-tpmdev` and "+
					"the socket show it. `network` for one behind a network card, as passt is: it has a client of a socket "+
					"on which QEMU listens, installs a seccomp filter when it is ready, and is started again when it ends"),
			optional("access", "list[Access] | None", "[]",
				"files that it uses and its arguments don't name, made by `access`"),
			optional("confined", "bool", "True",
				"`False` for a program that confines itself, in a way that it couldn't if the kernel held it to the "+
					"plan: it then has all rights of the runner"),
			optional("cpus", "list[int] | None", "[]", "the CPUs of the host that it runs on; none means all"),
		},
		Doc: "A helper process, for `helpers` of a part. Helpers are started in list order, before QEMU, and " +
			"stopped after it.",
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
			required("path", "str", "a file, or a folder with all that is in it; an absolute path"),
			optional("mode", "str", `"read"`, "`read`, which includes executing, or `write`, which includes reading"),
		},
		Doc: "Leave for QEMU or a helper to use a file of the host. The kernel denies them all files but those that the " +
			"plan shows: files that options name, folders of sockets, devices that an option implies. `vmrunner plan " +
			"--confinement --why` prints them. So `access` is for what a program opens without being asked to. A file that " +
			"doesn't exist when the VM starts is left out. For `access` of a part or of `process`.",
		Example: `part(access = [access("/var/lib/fonts"), access("/dev/my-card", "write")])` + "\n",
	}
}

func tapBuiltin() Function {
	return Function{
		Name: "tap", Result: "Tap",
		Parameters: []Parameter{
			required("name", "str", "the interface on the host, at most 15 characters"),
			optional("bridge", "str | None", "None", "the bridge to attach it to"),
			optional("subnet", "str | None", "None",
				"instead of a bridge: a private IPv4 subnet behind the interface, `\"10.0.2.0/24\"`; `\"auto\"` "+
					"picks an unused one"),
			optional("mac", "str | None", "None", "the guest's hardware address, for DHCP"),
			optional("hostname", "str | None", "None", "the guest's name, for DHCP"),
			optional("ports", "list[PortForward] | None", "[]",
				"ports of the host that are forwarded to the guest: values with `protocol`, `address`, `host`, "+
					"`guest`, such as `vm.network[0].ports`"),
			optional("all_ports_but", "list[int] | None", "None",
				"with a subnet: all ports of the host lead to the guest, but these, and those that a program listens on "+
					"at the start"),
			optional("queues", "int", "1", "how many queues it has, at most 256. A tap with more than one is the value of `fds`, "+
				"not of `fd`, and the card, a virtio-net, has `{\"mq\": True, \"vectors\": 2 * queues + 2}`"),
			optional("lease", "Lease | None", "None", "with a bridge and mac: what the runner gives the guest by DHCP, a value "+
				"such as `vm.network[0].lease`"),
			optional("filter", "bool | None", "None", "with a lease: whether the guest is kept to mac and the lease's address"),
		},
		Doc: "A network interface that the runner opens, attached to a bridge or with a private subnet behind it. " +
			"Put it in `taps` of a part, and wherever an option takes its file descriptor; the number is filled in.",
		Example: `lan = tap("vmlan0", bridge = "br0")
part(taps = [lan], options = [option("-netdev", "tap", {"id": "lan", "fd": lan})])
`,
	}
}

func structBuiltin() Function {
	return Function{
		Name: "struct", Result: "struct",
		Parameters: []Parameter{required("**fields", "Any", "the fields and their values")},
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
			{"value", "str | None", "The value after the flag, or `None`."},
			{"props", "dict[str, str]", "Its properties as spelled on the command line."},
		}},
		{
			Name: "Part", Word: "part",
			Doc: "Everything that one concept needs, made by `part`, `combine` and `replace`.",
			Fields: []Field{
				{"options", "tuple[Option, ...]", "Its options, without `-machine`."},
			},
		},
		{Name: "Process", Word: "process", Doc: "A helper process, made by `process`."},
		{
			Name: "Tap", Word: "tap",
			Doc: "A network interface, made by `tap`; as the value of a property it stands for its file descriptor.",
		},
		{
			Name: "Listener", Word: "listener",
			Doc: "A socket, made by `listen`; as the value of a property it stands for its file descriptor.",
			Fields: []Field{
				{"client", "Listener", "A connection with the socket, for the process at its other end."},
			},
		},
		{Name: "Access", Word: "access", Doc: "Leave to use a file of the host, made by `access`."},
		{Name: "File", Word: "file", Doc: "A file that is copied once, made by `copy_once`."},
		{
			Name: "Attr", Word: "attr",
			Doc: "The declaration of an option of the type, made by the functions of `attr`.",
		},
		{
			Name: "Rule", Word: "hotplug rule",
			Doc: "What may change while the VM is running, made by the functions of `hotplug`.",
		},
		host(), node(), firmware(),
	}
}
