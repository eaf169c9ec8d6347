package reference

func ruleFunctions() []Function {
	device := func(doc string) Parameter { return requiredParameter("device", "str", doc) }
	protocol := requiredParameter("protocol", "str", "`spice` or `vnc`")
	drive := requiredParameter("drive", "int", "the index in `vm.drives`, from 0")
	return []Function{
		{
			Name: "hotplug.cpus", Result: "Rule",
			Parameters: []Parameter{
				requiredParameter("maximum", "int", "the maximum number of CPUs"),
				optionalParameter("boot", "int", "1", "the number of CPUs that QEMU starts with"),
				optionalParameter("id", "str", `"cpu-%d"`, "the ids of hotplugged CPUs"),
			},
			Doc: "A rule for `hotplug` of a part: the number of CPUs can change. The runner plugs CPUs up to " +
				"`currentCpus` before the guest runs.",
			Example: "hotplug.cpus(maximum = vm.maximumCpus)\n",
		},
		{
			Name: "hotplug.balloon", Result: "Rule",
			Parameters: []Parameter{
				device("the balloon's id"),
				requiredParameter("maximum", "int", "the guest's memory in bytes"),
			},
			Doc: "A rule: the balloon device with this id reclaims memory from the guest, which has at most " +
				"`maximum` bytes.",
			Example: `hotplug.balloon("balloon0", maximum = vm.maximumRam)` + "\n",
		},
		{
			Name: "hotplug.memory", Result: "Rule",
			Parameters: []Parameter{
				device("the virtio-mem device's id"),
				requiredParameter("base", "int", "the guest's memory without the device, in bytes"),
				requiredParameter("maximum", "int", "the guest's maximum memory, in bytes"),
				optionalParameter("block", "int", "2 << 20", "its `block-size`, in bytes"),
			},
			Doc: "A rule: the virtio-mem device with this id provides the guest's memory above `base` bytes, in " +
				"blocks. A machine has either this rule or a balloon rule.",
			Example: `hotplug.memory("memory0", base = 1 << 30, maximum = vm.maximumRam)` + "\n",
		},
		{
			Name: "hotplug.medium", Result: "Rule",
			Parameters: []Parameter{drive, device("the CD drive's id")},
			Doc:        "A rule: the medium of the CD drive with this id is `vm.drives[drive].file`.",
			Example:    `hotplug.medium(0, "cd0")` + "\n",
		},
		{
			Name: "hotplug.disk", Result: "Rule",
			Parameters: []Parameter{drive, device("the disk's id")},
			Doc: "A rule: the disk with this id is `vm.drives[drive]`. When its file or block device grows, " +
				"the runner informs the guest. A disk never shrinks.",
			Example: `hotplug.disk(0, "disk0")` + "\n",
		},
		limitsRule(drive, device("the disk's id")), disksRule(), nicsRule(), linkRule(), affinityRule(), portsRule(),
		{
			Name: "hotplug.password", Result: "Rule",
			Parameters: []Parameter{protocol, optionalParameter("display", "str", `""`, "the id of the VNC display")},
			Doc:        "A rule: the password of a display can be set. The runner sets it before the guest runs.",
			Example:    `hotplug.password("spice")` + "\n",
		},
	}
}

func limitsRule(drive, disk Parameter) Function {
	return Function{
		Name: "hotplug.limits", Result: "Rule",
		Parameters: []Parameter{drive, disk},
		Doc: "A rule: the limits of the disk with this id are `vm.drives[drive].limits`. The runner sets them before " +
			"the guest runs, and when they change.",
		Example: `hotplug.limits(0, "disk0")` + "\n",
	}
}

func disksRule() Function {
	return Function{
		Name: "hotplug.disks", Result: "Rule",
		Parameters: []Parameter{
			requiredParameter("driver", "str", "the driver of disks, such as `virtio-blk-pci`"),
			requiredParameter("buses", "list[str]", "the ids of ports for disks, at most 32; one disk per port"),
			optionalParameter("cd_driver", "str", `""`, "the driver of CD drives, `scsi-cd`; without it, CD drives can't be attached"),
			optionalParameter("cd_bus", "str", `""`, "the bus of CD drives: of a SCSI controller, such as `scsi0.0`, "+
				"or of USB, `usb.0`"),
			optionalParameter("cd_holder", "str", `""`, "on USB, the driver of the device that holds a CD drive, `usb-bot`"),
		},
		Doc: "A rule: disks and CD drives that are added to `vm.drives` are attached while the guest is running, and detached " +
			"when they are removed. Drives from the machine's start stay attached. Removing a port with `replace` also " +
			"removes it from the rule.",
		Example: `hotplug.disks("virtio-blk-pci", buses = ["hotplug0", "hotplug1"])` + "\n",
	}
}

func nicsRule() Function {
	return Function{
		Name: "hotplug.nics", Result: "Rule",
		Parameters: []Parameter{
			requiredParameter("buses", "list[str]", "the ids of PCI ports for network cards, at most 32; one card per port, or one "+
				"disk if `hotplug.disks` contains the port as well"),
			optionalParameter("types", "list[str]", `["masquerade", "tap", "user"]`,
				"the types of networks that can be plugged in"),
		},
		Doc: "A rule: networks that are added to `vm.network` are plugged in while the guest is running, and unplugged when " +
			"they are removed. The runner calls `launch` with the additional network: the card and its backend are the " +
			"options that the plan then contains in addition, with a free port instead of the PCI address.",
		Example: `hotplug.nics(buses = ["hotplug0", "hotplug1"])` + "\n",
	}
}

func linkRule() Function {
	return Function{
		Name: "hotplug.link", Result: "Rule",
		Parameters: []Parameter{
			requiredParameter("network", "int", "the index in `vm.network`"),
			requiredParameter("device", "str", "the id of the network card"),
		},
		Doc:     "A rule: the card with this id is connected to its network if `vm.network[network].link` is `up`.",
		Example: `hotplug.link(0, "nic0")` + "\n",
	}
}

func affinityRule() Function {
	return Function{
		Name: "hotplug.affinity", Result: "Rule",
		Parameters: []Parameter{requiredParameter("cpus", "list[int | list[int] | None]",
			"the host's CPU or CPUs for each CPU of the guest, by number; `None` means QEMU's CPUs, as for "+
				"CPUs beyond the end of the list")},
		Doc: "A rule: the guest's CPUs run on certain CPUs of the host, including CPUs that are plugged in later. If the " +
			"host doesn't allow this, the VM runs anyway, the status shows a problem, and the runner retries every minute.",
		Example: "hotplug.affinity([4, 5, [6, 7], None])\n",
	}
}

func portsRule() Function {
	return Function{
		Name: "hotplug.ports", Result: "Rule",
		Parameters: []Parameter{
			requiredParameter("network", "int", "the index in `vm.network`"),
			requiredParameter("netdev", "str", "the id of the user network, `-netdev user`"),
		},
		Doc: "A rule: the user network with this id forwards `vm.network[network].ports`, which can differ from " +
			"`hostfwd` at the start.",
		Example: `hotplug.ports(0, "net0")` + "\n",
	}
}
