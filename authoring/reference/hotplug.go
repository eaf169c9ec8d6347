package reference

func rules() []Function {
	device := func(doc string) Parameter { return Parameter{Name: "device", Type: "str", Doc: doc} }
	drive := Parameter{Name: "drive", Type: "int", Doc: "the place in `vm.drives`, from 0"}
	return []Function{
		{
			Name: "hotplug.cpus", Result: "Rule",
			Parameters: []Parameter{
				{Name: "maximum", Type: "int", Doc: "up to how many can be plugged"},
				{Name: "boot", Type: "int", Default: "1", Doc: "how many QEMU starts with"},
				{Name: "id", Type: "str", Default: `"cpu-%d"`, Doc: "the ids of those that are plugged"},
			},
			Doc:     "A rule for `hotplug` of a part: how many CPUs the guest sees. The runner plugs `currentCpus` before the guest runs.",
			Example: "hotplug.cpus(maximum = vm.maximumCpus)\n",
		},
		{
			Name: "hotplug.balloon", Result: "Rule",
			Parameters: []Parameter{device("the balloon's id"), {Name: "maximum", Type: "int", Doc: "the guest's memory in bytes"}},
			Doc:        "A rule: the balloon device with this id takes back memory, of at most `maximum` bytes.",
			Example:    `hotplug.balloon("balloon0", maximum = vm.maximumRam)` + "\n",
		},
		{
			Name: "hotplug.memory", Result: "Rule",
			Parameters: []Parameter{
				device("the virtio-mem device's id"),
				{Name: "base", Type: "int", Doc: "the bytes that the guest has without it"},
				{Name: "maximum", Type: "int", Doc: "the bytes that it can have in all"},
				{Name: "block", Type: "int", Default: "2 << 20", Doc: "its `block-size`, in bytes"},
			},
			Doc:     "A rule: the virtio-mem device with this id gives the guest memory beyond `base` bytes, in blocks. A machine has this rule or that of a balloon.",
			Example: `hotplug.memory("memory0", base = 1 << 30, maximum = vm.maximumRam)` + "\n",
		},
		{
			Name: "hotplug.medium", Result: "Rule",
			Parameters: []Parameter{drive, device("the CD drive's id")},
			Doc:        "A rule: the CD drive with this id holds `vm.drives[drive].file`.",
			Example:    `hotplug.medium(0, "cd0")` + "\n",
		},
		{
			Name: "hotplug.disk", Result: "Rule",
			Parameters: []Parameter{drive, device("the disk's id")},
			Doc: "A rule: the disk with this id is `vm.drives[drive]`. When its file or block device has become larger, the guest is told. " +
				"A disk never becomes smaller.",
			Example: `hotplug.disk(0, "disk0")` + "\n",
		},
		{
			Name: "hotplug.password", Result: "Rule",
			Parameters: []Parameter{
				{Name: "protocol", Type: "str", Doc: "`spice` or `vnc`"},
				{Name: "display", Type: "str", Default: `""`, Doc: "the id of the VNC display"},
			},
			Doc:     "A rule: the password of a display can be set. The runner sets it before the guest runs.",
			Example: `hotplug.password("spice")` + "\n",
		},
	}
}
