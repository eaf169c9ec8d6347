package qemuopt

// options contains the rows of flags, followed by the rows of their backends. properties.go contains the shared
// rows of properties.
var options = []Option{
	// Options that the runner sets itself.
	{Flag: "-S", Own: "the runner starts the machine paused by itself"},
	{Flag: "-mon", Own: "the runner makes the monitor by itself"},
	{Flag: "-monitor", Own: "the runner makes the monitor by itself"},
	{Flag: "-qmp", Own: "the runner makes the monitor by itself"},
	{Flag: "-qmp-pretty", Own: "the runner makes the monitor by itself"},
	{Flag: "-daemonize", Own: "the runner must be QEMU's parent"},
	{Flag: "-pidfile", Own: "the runner knows QEMU's process"},
	{Flag: "-writeconfig", Own: "it writes a file and ends QEMU"},
	{Flag: "-readconfig", Own: "options from elsewhere cannot be checked or explained"},
	{Flag: "-incoming", Own: "QEMU would wait for another machine's state, which the runner has not"},
	{Flag: "-loadvm", Own: "a saved state is of another start; the runner begins with the firmware"},
	{Flag: "-preconfig", Own: "QEMU would wait for commands that the runner does not give"},
	{Flag: "-no-shutdown", Own: "QEMU would stay when the guest has shut down, and the VM never end"},
	{Flag: "-runas", Own: "QEMU may not change its user: the sandbox ends it; the runner's user counts"},
	{Flag: "-M", Own: "give the machine's properties as part(machine = …)"},

	// The machine.
	{
		Flag: "-machine", Once: true,
		Implied: "type", Noun: "machine", List: true, Guest: Chipset, First: Text, Known: true,
		Stock:      true,
		Properties: machineProperties,
	},
	{Flag: "-accel", Implied: "accel", Backed: true, Noun: "accelerator", List: true, Guest: Emulator, Stock: true},
	{Flag: "-enable-kvm", Guest: Emulator, Text: Alone},
	{Flag: "-cpu", Once: true, Noun: "CPU model", Guest: CPUModel, Text: Text, Stock: true},
	{Flag: "-cpu", Backend: "host", OfHost: true},
	{Flag: "-smp", Once: true, Implied: "cpus", List: true, Guest: CPUTopology, Text: Text, Known: true, Stock: true},
	{Flag: "-m", Once: true, Implied: "size", List: true, Guest: RAM, Text: Text, Known: true, Stock: true},
	{Flag: "-numa", Implied: "type", Backed: true, List: true, Guest: RAM, Key: "nodeid", Stock: true},
	{Flag: "-mem-path", Guest: HostOnly},
	{Flag: "-mem-prealloc", Guest: HostOnly},
	{Flag: "-overcommit", List: true, Guest: HostOnly},
	{Flag: "-rtc", List: true, Guest: Clock, Text: Text, Known: true, Stock: true, Properties: []Property{
		{"base clock driftfix", Text, Clock, ""},
	}},
	{Flag: "-icount", List: true, Guest: Clock},
	{Flag: "-uuid", Guest: Identity, Text: Text, Stock: true},
	{Flag: "-smbios", List: true, Guest: Identity, Known: true, Rest: Text, Key: "type", Properties: []Property{
		{"file path", Reads, Identity, ""},
	}},
	{Flag: "-acpitable", List: true, Properties: []Property{{"file data", Reads, "", ""}}},
	{Flag: "-nodefaults", Text: Alone, Stock: true, Guest: HardwareReplaced},
	{Flag: "-no-user-config", Text: Alone, Stock: true, Guest: HostOnly},

	// Boot.
	{Flag: "-boot", Implied: "order", List: true, Guest: BootOrder, Known: true, Stock: true, Properties: []Property{
		{"order once menu", Text, BootOrder, ""},
		{"splash", Reads, BootOrder, ""},
	}},
	{Flag: "-kernel", Guest: Kernel, Text: Reads, Stock: true},
	{Flag: "-initrd", Guest: Kernel, Text: ReadsEach, Stock: true},
	{Flag: "-dtb", Guest: Kernel, Text: Reads},
	{Flag: "-shim", Guest: Kernel},
	{Flag: "-append", Guest: Kernel, Text: Text, Stock: true},
	{Flag: "-bios", Guest: Firmware, Text: Reads},
	{Flag: "-pflash", Guest: Firmware},
	{Flag: "-L", Guest: Firmware},
	{Flag: "-fw_cfg", List: true, Known: true, Key: "name", Properties: []Property{
		{"name string", Text, "", ""},
		{"file", Reads, "", ""},
	}},

	// Devices and their backends.
	{
		Flag: "-device", Implied: "driver", Makes: DeviceID, Noun: "device", List: true, Known: true, Stock: true,
		Properties: deviceProperties,
	},
	{Flag: "-global", Known: true, Stock: true, Properties: globalProperties},
	{
		Flag: "-object", Implied: "qom-type", Backed: true, Makes: Object, Noun: "object", List: true, Stock: true,
		Properties: []Property{{"chardev", Text, "", Chardev}},
	},
	{
		Flag: "-chardev", Implied: "backend", Backed: true, Makes: Chardev, Noun: "backend", List: true,
		Guest: HostOnly, Stock: true,
	},
	{Flag: "-serial", Guest: HardwareFeature, Stock: true},
	{Flag: "-parallel", Guest: HardwareFeature},
	{
		Flag: "-netdev", Implied: "type", Backed: true, Makes: Netdev, Noun: "network backend", List: true,
		Guest: Network, Stock: true,
		Properties: []Property{
			{"chardev", Text, Network, Chardev},
			{"vhost fd fds queues", Unknown, HostOnly, ""},
		},
	},
	{Flag: "-nic", List: true, Guest: Network},
	{
		Flag: "-blockdev", Implied: "driver", Makes: BlockNode, Noun: "block driver", List: true, Stock: true,
		Properties: nodeProperties,
	},
	{Flag: "-drive", Makes: BlockNode, List: true, Known: true, Stock: true, Properties: driveProperties},
	{Flag: "-iscsi", List: true, Guest: HostOnly},
	{
		Flag: "-tpmdev", Implied: "type", Backed: true, Makes: TPMDev, List: true, Guest: TPM, Stock: true,
		Properties: []Property{{"chardev", Text, TPM, Chardev}},
	},
	{Flag: "-audiodev", Implied: "driver", Backed: true, Makes: AudioDev, List: true, Guest: HostOnly, Stock: true},
	{Flag: "-fsdev", Implied: "fsdriver", Backed: true, Makes: FSDev, List: true, Guest: HostOnly},
	{Flag: "-virtfs", List: true, Properties: []Property{{"path", WritesFolder, "", ""}}},
	{Flag: "-add-fd", List: true, Guest: HostOnly, Key: "fd"},
	{Flag: "-vga", Guest: HardwareReplaced, Text: Text},

	// Displays.
	{Flag: "-display", Implied: "type", Backed: true, List: true, Guest: Viewers, Stock: true},
	{
		Flag: "-vnc", Implied: "vnc", List: true, Guest: Viewers, Known: true, Stock: true, Key: "id",
		Properties: []Property{
			{"id share", Text, Viewers, ""},
			{"tls-creds password-secret", Text, Viewers, Object},
			{"audiodev", Text, Viewers, AudioDev},
			{"display", Unknown, Viewers, DeviceID},
		},
	},
	{Flag: "-spice", List: true, Guest: Viewers, Known: true, Stock: true, Properties: []Property{
		{
			"addr streaming-video image-compression jpeg-wan-compression zlib-glz-wan-compression plaintext-channel " +
				"tls-channel", Text, Viewers, "",
		},
		{"password-secret", Text, Viewers, Object},
		{"x509-key-file x509-cert-file x509-cacert-file x509-dh-key-file rendernode", Reads, Viewers, ""},
		{"x509-dir", ReadsFolder, Viewers, ""},
	}},
	{Flag: "-k", Guest: Viewers},
	{Flag: "-full-screen", Guest: Viewers},

	// Reactions to failures, and QEMU's own process.
	{Flag: "-action", List: true, Guest: FailureAction, Known: true, Stock: true, Properties: []Property{
		{"panic watchdog reboot shutdown", Text, FailureAction, ""},
	}},
	{Flag: "-watchdog-action", Guest: FailureAction},
	{Flag: "-no-reboot", Guest: FailureAction, Text: Alone},
	{
		Flag: "-sandbox", Implied: "enable", List: true, Guest: Isolation, Known: true, Stock: true,
		Properties: []Property{
			{"obsolete elevateprivileges spawn resourcecontrol", Text, Isolation, ""},
		},
	},
	{Flag: "-chroot", Guest: Isolation},
	{Flag: "-run-with", Guest: Isolation},
	{
		Flag: "-name", Implied: "guest", List: true, Guest: HostOnly, Text: Text, First: Text, Known: true, Stock: true,
		Properties: []Property{
			{"guest process", Text, HostOnly, ""},
		},
	},
	{Flag: "-msg", List: true, Guest: HostOnly},
	{Flag: "-D", Guest: HostOnly},
	{Flag: "-d", Guest: HostOnly},
	{Flag: "-trace", Guest: HostOnly},

	// Backends.
	{
		Flag: "-accel", Backend: "kvm", OfHost: true, Known: true, Stock: true,
		Properties: []Property{{"thread kernel-irqchip", Text, Emulator, ""}},
	},
	{Flag: "-accel", Backend: "tcg", Known: true, Stock: true, Properties: []Property{{"thread", Text, Emulator, ""}}},
	{Flag: "-accel", Backend: "hvf", OfHost: true},
	{Flag: "-accel", Backend: "xen", OfHost: true},
	{Flag: "-accel", Backend: "whpx", OfHost: true},

	{Flag: "-audiodev", Backend: "none", Known: true, Stock: true, Properties: audioProperties},
	{Flag: "-audiodev", Backend: "spice", Known: true, Stock: true, Properties: audioProperties},
	{Flag: "-audiodev", Backend: "wav", Properties: []Property{{"path", Writes, HostOnly, ""}}},

	{Flag: "-blockdev", Backend: "file", Known: true, Inherits: true, Stock: true, Properties: fileProperties},
	{Flag: "-blockdev", Backend: "host_device", Known: true, Inherits: true, Stock: true, Properties: fileProperties},
	{Flag: "-blockdev", Backend: "host_cdrom", Known: true, Inherits: true, Properties: fileProperties},
	{Flag: "-blockdev", Backend: "raw", Known: true, Inherits: true, Stock: true},
	{Flag: "-blockdev", Backend: "qcow2", Known: true, Inherits: true, Stock: true},
	{Flag: "-blockdev", Backend: "throttle", Known: true, Inherits: true},
	{Flag: "-blockdev", Backend: "copy-on-read", Known: true, Inherits: true},
	{Flag: "-blockdev", Backend: "null-co", Known: true, Inherits: true},
	{Flag: "-blockdev", Backend: "http", Remote: true},
	{Flag: "-blockdev", Backend: "https", Remote: true},
	{Flag: "-blockdev", Backend: "ftp", Remote: true},
	{Flag: "-blockdev", Backend: "ftps", Remote: true},
	{Flag: "-blockdev", Backend: "ssh", Remote: true},
	{Flag: "-blockdev", Backend: "nbd", Remote: true},
	{Flag: "-blockdev", Backend: "rbd", Remote: true},
	{Flag: "-blockdev", Backend: "iscsi", Remote: true},
	{Flag: "-blockdev", Backend: "nfs", Remote: true},
	{Flag: "-blockdev", Backend: "gluster", Remote: true},

	{Flag: "-chardev", Backend: "file", Known: true, Properties: []Property{
		{"id", Text, HostOnly, ""},
		{"path logfile", Writes, HostOnly, ""},
		{"input-path", Reads, HostOnly, ""},
	}},
	{Flag: "-chardev", Backend: "null", Known: true, Stock: true, Properties: idOnly},
	{Flag: "-chardev", Backend: "ringbuf", Known: true, Properties: idOnly},
	{Flag: "-chardev", Backend: "socket", Known: true, Stock: true, Properties: []Property{
		{"id", Text, HostOnly, ""},
		{"server path abstract host port to fd", Part, HostOnly, ""},
		{"logfile", Writes, HostOnly, ""},
		{"tls-creds tls-authz", Text, HostOnly, Object},
	}},
	{Flag: "-chardev", Backend: "spiceport", Known: true, Properties: []Property{{"id name", Text, HostOnly, ""}}},
	{
		Flag: "-chardev", Backend: "spicevmc", Known: true, Stock: true,
		Properties: []Property{{"id name", Text, HostOnly, ""}},
	},
	{Flag: "-chardev", Backend: "vc", Known: true, Properties: idOnly},

	{
		Flag: "-display", Backend: "egl-headless", Known: true,
		Properties: []Property{{"rendernode", Reads, Viewers, ""}},
	},
	{Flag: "-display", Backend: "none", Known: true, Stock: true},

	{Flag: "-fsdev", Backend: "local", Known: true, Properties: []Property{
		{"id security_model fmode dmode", Text, HostOnly, ""},
		{"throttling.*", Unknown, HostOnly, ""},
		{"path", WritesFolder, HostOnly, ""},
	}},

	{Flag: "-netdev", Backend: "tap", Known: true, Stock: true, Properties: idOnly},
	// hostfwd is an address to listen on, which a policy judges separately.
	{Flag: "-netdev", Backend: "user", Stock: true, Properties: []Property{
		{"id net host hostname dns dhcpstart domainname dnssearch", Text, Network, ""},
		{"ipv6-net ipv6-host ipv6-prefix ipv6-dns", Text, Network, ""},
		{"tftp", ReadsFolder, Network, ""},
		{"smb guestfwd", Runs, Network, ""},
	}},
	{Flag: "-netdev", Backend: "stream", Known: true, Stock: true, Properties: []Property{
		{"id", Text, Network, ""},
		{"server addr addr.*", Part, Network, ""},
	}},
	{Flag: "-netdev", Backend: "vhost-user", Known: true, Properties: []Property{
		{"id", Text, Network, ""},
		{"chardev", Text, Network, Chardev},
	}},

	{Flag: "-numa", Backend: "node", Known: true, Properties: []Property{
		{"memdev", Text, RAM, Object},
		{"cpus", Text, RAM, ""},
	}},

	{Flag: "-tpmdev", Backend: "emulator", Known: true, Stock: true, Properties: []Property{
		{"id", Text, TPM, ""},
		{"chardev", Text, TPM, Chardev},
	}},

	{Flag: "-object", Backend: "authz-simple", Known: true, Properties: []Property{{"id identity", Text, "", ""}}},
	{Flag: "-object", Backend: "can-bus*", Guest: HostOnly},
	{Flag: "-object", Backend: "cryptodev-backend-builtin", Known: true, Properties: idOnly},
	{Flag: "-object", Backend: "filter-dump", Known: true, Guest: HostOnly, Properties: []Property{
		{"id queue position", Text, HostOnly, ""},
		{"netdev", Text, HostOnly, Netdev},
		{"file", Writes, HostOnly, ""},
	}},
	{
		Flag: "-object", Backend: "filter-*", Guest: Network,
		Properties: []Property{{"netdev", Unknown, Network, Netdev}, {"indev outdev", Unknown, Network, Chardev}},
	},
	{Flag: "-object", Backend: "iothread", Known: true, Stock: true, Guest: HostOnly, Properties: idOnly},
	{Flag: "-object", Backend: "memory-backend-file", Known: true, Guest: HostOnly, Properties: []Property{
		{"id policy host-nodes host-nodes.*", Text, HostOnly, ""},
		{"mem-path", WritesFolder, HostOnly, ""},
		{"size", Unknown, RAM, ""},
	}},
	{
		Flag: "-object", Backend: "memory-backend-memfd", Known: true, Stock: true, Guest: HostOnly,
		Properties: memoryProperties,
	},
	{
		Flag: "-object", Backend: "memory-backend-ram", Known: true, Stock: true, Guest: HostOnly,
		Properties: memoryProperties,
	},
	{Flag: "-object", Backend: "memory-backend-*", Guest: HostOnly, Properties: []Property{{"size", Unknown, RAM, ""}}},
	{Flag: "-object", Backend: "rng-builtin", Known: true, Stock: true, Guest: HostOnly, Properties: idOnly},
	{Flag: "-object", Backend: "rng-random", Known: true, Stock: true, Guest: HostOnly, Properties: []Property{
		{"id", Text, HostOnly, ""},
		{"filename", Reads, HostOnly, ""},
	}},
	{Flag: "-object", Backend: "rng-*", Guest: HostOnly},
	{Flag: "-object", Backend: "secret", Known: true, Guest: HostOnly, Properties: []Property{
		{"id data format iv", Text, HostOnly, ""},
		{"keyid", Text, HostOnly, Object},
		{"file", Reads, HostOnly, ""},
	}},
	{Flag: "-object", Backend: "secret*", Guest: HostOnly},
	{Flag: "-object", Backend: "sev-snp-guest", Known: true, Guest: HardwareFeature, Properties: []Property{
		{"id", Text, HostOnly, ""},
		{"cbitpos reduced-phys-bits host-data", Text, HardwareFeature, ""},
		{"kernel-hashes policy", Unknown, HardwareFeature, ""},
	}},
	{Flag: "-object", Backend: "thread-context*", Guest: HostOnly},
	{Flag: "-object", Backend: "throttle-group", Known: true, Stock: true, Guest: HostOnly, Properties: []Property{
		{"id", Text, HostOnly, ""},
		{"limits.*", Unknown, HostOnly, ""},
	}},
	{Flag: "-object", Backend: "tls-creds-x509", Known: true, Guest: HostOnly, Properties: []Property{
		{"id endpoint priority", Text, HostOnly, ""},
		{"passwordid", Text, HostOnly, Object},
		{"dir", ReadsFolder, HostOnly, ""},
	}},
	{Flag: "-object", Backend: "tls-*", Guest: HostOnly},
}
