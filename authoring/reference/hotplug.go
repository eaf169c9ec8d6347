package reference

func rules() []Function {
	device := func(doc string) Parameter { return required("device", "str", doc) }
	protocol := required("protocol", "str", "`spice` or `vnc`")
	drive := required("drive", "int", "the index in `vm.drives`, from 0")
	return []Function{
		{
			Name: "hotplug.cpus", Result: "Rule",
			Parameters: []Parameter{
				required("maximum", "int", "the maximum number of CPUs"),
				optional("boot", "int", "1", "the number of CPUs that QEMU starts with"),
				optional("id", "str", `"cpu-%d"`, "the ids of hotplugged CPUs"),
			},
			Doc: "A rule for `hotplug` of a part: the number of CPUs can change. The runner plugs CPUs up to " +
				"`currentCpus` before the guest runs.",
			Example: "hotplug.cpus(maximum = vm.maximumCpus)\n",
		},
		{
			Name: "hotplug.balloon", Result: "Rule",
			Parameters: []Parameter{
				device("the balloon's id"),
				required("maximum", "int", "the guest's memory in bytes"),
			},
			Doc: "A rule: the balloon device with this id reclaims memory from the guest, which has at most " +
				"`maximum` bytes.",
			Example: `hotplug.balloon("balloon0", maximum = vm.maximumRam)` + "\n",
		},
		{
			Name: "hotplug.memory", Result: "Rule",
			Parameters: []Parameter{
				device("the virtio-mem device's id"),
				required("base", "int", "the guest's memory without the device, in bytes"),
				required("maximum", "int", "the guest's memory at most, in bytes"),
				optional("block", "int", "2 << 20", "its `block-size`, in bytes"),
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
		disksRule(), affinityRule(), portsRule(),
		{
			Name: "hotplug.password", Result: "Rule",
			Parameters: []Parameter{protocol, optional("display", "str", `""`, "the id of the VNC display")},
			Doc:        "A rule: the password of a display can be set. The runner sets it before the guest runs.",
			Example:    `hotplug.password("spice")` + "\n",
		},
	}
}

func disksRule() Function {
	return Function{
		Name: "hotplug.disks", Result: "Rule",
		Parameters: []Parameter{
			required("driver", "str", "the driver of their devices, `virtio-blk-pci` for example"),
			required("buses", "list[str]", "the ids of the ports that they are plugged into, at most 32; each takes one"),
			optional("cd_driver", "str", `""`, "the driver of CD drives, `scsi-cd`; without one they can't be attached"),
			optional("cd_bus", "str", `""`, "the bus to which they are attached: of a SCSI controller, `scsi0.0` for example, "+
				"or of USB, `usb.0`"),
			optional("cd_holder", "str", `""`, "the driver of the device in which each of them is on USB, `usb-bot`"),
		},
		Doc: "A rule: disks and CD drives that are added to `vm.drives` are attached while the guest runs, and detached when " +
			"they are removed. Those that the machine was started with stay. What removes a port (`replace`) removes it from " +
			"the rule.",
		Example: `hotplug.disks("virtio-blk-pci", buses = ["hotplug0", "hotplug1"])` + "\n",
	}
}

func affinityRule() Function {
	return Function{
		Name: "hotplug.affinity", Result: "Rule",
		Parameters: []Parameter{required("cpus", "list[int | list[int] | None]",
			"for each CPU of the guest, by its number, the CPU or CPUs of the host that it runs on; `None`, as for "+
				"those beyond the list, means where QEMU runs")},
		Doc: "A rule: the guest's CPUs run on certain CPUs of the host, also those that are plugged in later. What " +
			"the host does not allow is a problem in the status, tried again every minute, and keeps no VM from running.",
		Example: "hotplug.affinity([4, 5, [6, 7], None])\n",
	}
}

func portsRule() Function {
	return Function{
		Name: "hotplug.ports", Result: "Rule",
		Parameters: []Parameter{
			required("network", "int", "the index in `vm.network`"),
			required("netdev", "str", "the id of the user network, `-netdev user`"),
		},
		Doc: "A rule: the user network with this id forwards `vm.network[network].ports`, those that " +
			"`hostfwd` has at the start and others.",
		Example: `hotplug.ports(0, "net0")` + "\n",
	}
}
