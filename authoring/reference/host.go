package reference

// hostObject describes the argument host of launch.
func hostObject() Object {
	return Object{
		Name: "Host", Word: "host",
		Doc: "Facts about the computer. A type can't access anything else: file contents, environment, clock or " +
			"network.",
		Fields: []Field{
			{"dataDir", "str", "The absolute path of the directory that survives a restart."},
			{"runtimeDir", "str", "The absolute path of the directory for this run's sockets and images."},
			{"arch", "str", "The architecture as QEMU spells it, `x86_64`."},
			{"kvm", "bool", "Whether KVM can be used: `/dev/kvm` opens, and an x86 CPU has `vmx` or `svm`."},
			{"cloudInitImage", "str | None", "The path of the cloud-init disk, or `None`."},
			{"sysprepImage", "str | None", "The path of the disk with answer files of Windows Setup, or `None`."},
			{
				"hasDisplayPassword", "bool",
				"Whether a display password is configured; the password itself is never visible to a type.",
			},
			{
				"cpus", "tuple[int, ...]",
				"The numbers of the host's CPUs that a VM may use: CPUs that are online and in the cpuset of the runner's " +
					"container or service. For a running VM, `cpus`, `nodes` and `hugePages` keep their values from its start, " +
					"so their changes are never pending.",
			},
			{"nodes", "tuple[Node, ...]", "The host's NUMA nodes, at least one."},
			{"hugePages", "dict[int, int]", "The number of free huge pages, by their size in bytes."},
		},
		Methods: []Function{
			{
				Name: "exists", Result: "bool", Parameters: []Parameter{requiredParameter("path", "str", "absolute")},
				Doc: "Reports whether a file exists.", Example: `host.exists("/dev/vhost-net")` + "\n",
			},
			{
				Name: "find", Result: "str",
				Parameters: []Parameter{
					requiredParameter("candidates", "list[str]", "paths, in order of preference"),
					optionalParameter("hint", "str", `""`, "what to do if none exists"),
				},
				Doc:     "Returns the first path that exists. If none exists, the error lists all paths and the hint.",
				Example: `host.find(["/usr/bin/swtpm"], hint = "on Debian it is in the package swtpm")` + "\n",
			},
			{
				Name: "firmware", Result: "list[Firmware]",
				Doc:     "The firmware descriptors installed on this computer, in QEMU's order of precedence.",
				Example: `[f.executable for f in host.firmware() if "secure-boot" in f.features]` + "\n",
			},
		},
	}
}

// nodeObject describes a NUMA node of the host.
func nodeObject() Object {
	return Object{
		Name: "Node", Word: "nodes", Doc: "A NUMA node of the host, from `host.nodes`.",
		Fields: []Field{
			{"number", "int", "Its number, as in `host-nodes` of a memory backend."},
			{"cpus", "tuple[int, ...]", "The numbers in `host.cpus` that are near its memory."},
		},
	}
}

// firmwareObject describes a firmware descriptor (QEMU's docs/interop/firmware.json).
func firmwareObject() Object {
	return Object{
		Name: "Firmware", Word: "firmware", Doc: "A firmware descriptor of QEMU, from `host.firmware()`.",
		Fields: []Field{
			{"description", "str", "A description for people."},
			{"executable", "str", "The path of the read-only image."},
			{"format", "str", "The format of the image, `raw` or `qcow2`."},
			{"vars", "str", "The path of the template of the variables; empty if they are in the image."},
			{"varsFormat", "str", "The format of the template."},
			{"architecture", "tuple[str, ...]", "The supported architectures, as QEMU spells them."},
			{"machines", "tuple[str, ...]", "The supported machine types, patterns such as `pc-q35-*`."},
			{"features", "tuple[str, ...]", "Its features: `secure-boot`, `enrolled-keys`, `requires-smm` …"},
		},
	}
}
