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
					"container or service. For a running VM, facts about hardware (`cpus`, `nodes`, `processors`, `hugePages`, " +
					"`pci`, `sev`, `tdx`) keep their values from its start, so their changes are never pending.",
			},
			{"nodes", "tuple[Node, ...]", "The host's NUMA nodes, at least one."},
			{"processors", "tuple[Processor, ...]", "The CPUs of `cpus`, with their core, socket, cache and NUMA node."},
			{
				"copies", "dict[str, str]",
				"The files that earlier starts of this VM copied with `copy_once`: their kinds, by their paths.",
			},
			{
				"generationId", "str | None",
				"An id that is new after each restore of a snapshot, for the device `vmgenid`. `None` before the first restore; " +
					"then use `vm.uuid`.",
			},
			{"hugePages", "dict[int, int]", "The number of free huge pages, by their size in bytes."},
			{
				"sev", "SEV | None",
				"The parameters for guests that AMD's SEV encrypts, if KVM supports them.",
			},
			{"tdx", "bool", "Whether KVM supports guests that Intel's TDX encrypts."},
		},
		Methods: hostMethods(),
	}
}

// hostMethods describes the functions of the argument host.
func hostMethods() []Function {
	return []Function{
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
		directIOMethod(), aioMethod(),
		{
			Name: "pci", Result: "PCIDevice | None",
			Parameters: []Parameter{
				requiredParameter("address", "str", "as `lspci -D` shows it, `\"0000:01:00.0\"`"),
			},
			Doc: "Returns the host's PCI device with an address, if it exists. The manager of a cluster " +
				"knows no devices.",
			Example: `host.pci("0000:01:00.0")` + "\n",
		},
		{
			Name: "firmware", Result: "list[Firmware]",
			Doc:     "The firmware descriptors installed on this computer, in QEMU's order of precedence.",
			Example: `[f.executable for f in host.firmware() if "secure-boot" in f.features]` + "\n",
		},
	}
}

func directIOMethod() Function {
	return Function{
		Name: "directIO", Result: "bool | None",
		Parameters: []Parameter{
			requiredParameter("path", "str", "an image, which may not exist yet"),
			optionalParameter("format", "str", `"raw"`, "the format of the image"),
		},
		Doc: "Reports whether QEMU can use an image without the host's page cache (`O_DIRECT`). `None` means " +
			"that this is unknown.",
		Example: `host.directIO("/images/a.img")` + "\n",
	}
}

func aioMethod() Function {
	return Function{
		Name: "aio", Result: "tuple[str, ...] | None",
		Parameters: []Parameter{requiredParameter("program", "str", "the path of QEMU's program")},
		Doc: "Returns the interfaces for asynchronous requests that QEMU can use on this computer: `threads`, " +
			"`native` and `io_uring`. `None` means that they are unknown.",
		Example: `host.aio("/usr/bin/qemu-system-x86_64")` + "\n",
	}
}

// nodeObject describes a NUMA node of the host.
func nodeObject() Object {
	return Object{
		Name: "Node", Word: "nodes", Doc: "A NUMA node of the host, from `host.nodes`.",
		Fields: []Field{
			{"number", "int", "Its number, as in `host-nodes` of a memory backend."},
			{"cpus", "tuple[int, ...]", "The numbers in `host.cpus` that are near its memory."},
			{"memory", "int", "The size of its memory in bytes, used and free; 0 if it is unknown."},
		},
	}
}

// hardwareObjects describes the other facts about hardware.
func hardwareObjects() []Object {
	return []Object{
		{
			Name: "Processor", Word: "processors",
			Doc: "A CPU of the host, from `host.processors`. CPUs with the same number share the unit.",
			Fields: []Field{
				{"number", "int", "Its number, as in `host.cpus`."},
				{"core", "int", "The core. CPUs of one core are its hardware threads (SMT)."},
				{"socket", "int", "The processor package."},
				{"cache", "int", "The cache of the last level, usually L3."},
				{"node", "int", "The number of the NUMA node, as in `host.nodes`."},
			},
		},
		{
			Name: "PCIDevice", Word: "pci", Doc: "A PCI device of the host, from `host.pci`.",
			Fields: []Field{
				{"address", "str", "Its address, `0000:01:00.0`."},
				{"classCode", "str", "Class, subclass and interface in hexadecimal, `030000` for a graphics card."},
				{"vendorId", "str", "The vendor in hexadecimal, `10de`."},
				{"deviceId", "str", "The vendor's number of the device in hexadecimal, `2684`."},
				{"driver", "str | None", "The host's driver, `vfio-pci` for a device that a VM can use."},
				{"iommuGroup", "int | None", "The number of the IOMMU group, if the host has an IOMMU."},
				{"groupMembers", "tuple[str, ...]", "The addresses of all devices in the IOMMU group, sorted."},
				{"node", "int | None", "The number of the NUMA node, if the firmware reports it."},
				{"virtualFunctions", "tuple[str, ...]", "The addresses of the SR-IOV functions of this device."},
				{"physicalFunction", "str | None", "The address of the device that provides this SR-IOV function."},
			},
		},
		{
			Name: "SEV", Word: "sev",
			Doc: "Parameters of QEMU's objects `sev-guest` and `sev-snp-guest`, from `host.sev`.",
			Fields: []Field{
				{"es", "bool", "Whether KVM supports SEV-ES, which also encrypts registers."},
				{"snp", "bool", "Whether KVM supports SEV-SNP, which also protects the integrity of memory."},
				{"cbitpos", "int", "The position of the C-bit of this CPU, for QEMU's property of that name."},
				{"reducedPhysBits", "int", "The value of QEMU's property `reduced-phys-bits`."},
			},
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
			{"vars", "str", "The path of the template of the variables; empty if they are in the image, or if QEMU loads " +
				"the image into memory (`-bios`)."},
			{"varsFormat", "str", "The format of the template."},
			{"architecture", "tuple[str, ...]", "The supported architectures, as QEMU spells them."},
			{"machines", "tuple[str, ...]", "The supported machine types, patterns such as `pc-q35-*`."},
			{"features", "tuple[str, ...]", "Its features: `secure-boot`, `enrolled-keys`, `requires-smm` …"},
		},
	}
}
