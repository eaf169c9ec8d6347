package reference

// host is what launch is given as host.
func host() Object {
	return Object{
		Name: "Host", Word: "host",
		Doc: "What may be known of the computer. There is nothing else: no reading of files, no environment, no clock, no network.",
		Fields: []Field{
			{"dataDir", "str", "The directory of what survives a restart, absolute."},
			{"runtimeDir", "str", "The directory of this run's sockets and images, absolute."},
			{"arch", "str", "The architecture as QEMU spells it, `x86_64`."},
			{"kvm", "bool", "Whether KVM can be used: `/dev/kvm` opens, and an x86 CPU has `vmx` or `svm`."},
			{"cloudInitImage", "str | None", "The path of the cloud-init disk, or `None`."},
			{"hasDisplayPassword", "bool", "Whether a display password is configured; the password itself is never known here."},
		},
		Methods: []Function{
			{
				Name: "exists", Result: "bool", Parameters: []Parameter{{Name: "path", Type: "str", Doc: "absolute"}},
				Doc: "Whether a file is there.", Example: `host.exists("/dev/vhost-net")` + "\n",
			},
			{
				Name: "find", Result: "str",
				Parameters: []Parameter{
					{Name: "candidates", Type: "list[str]", Doc: "paths, the best first"},
					{Name: "hint", Type: "str", Default: `""`, Doc: "what to do if there is none"},
				},
				Doc:     "The first of the paths that exists. If none does, an error names all of them, and the hint.",
				Example: `host.find(["/usr/bin/swtpm"], hint = "on Debian it is in the package swtpm")` + "\n",
			},
			{
				Name: "firmware", Result: "list[Firmware]",
				Doc:     "QEMU's firmware descriptors of this computer, in QEMU's order of precedence.",
				Example: `[f.executable for f in host.firmware() if "secure-boot" in f.features]` + "\n",
			},
		},
	}
}

// firmware is a firmware descriptor, QEMU's docs/interop/firmware.json.
func firmware() Object {
	return Object{
		Name: "Firmware", Word: "firmware", Doc: "A firmware descriptor of QEMU, from `host.firmware()`.",
		Fields: []Field{
			{"description", "str", "What it is, for people."},
			{"executable", "str", "The path of the read-only image."},
			{"format", "str", "The format of the image, `raw` or `qcow2`."},
			{"vars", "str", "The path of the template of the variables; empty if they are in the image."},
			{"varsFormat", "str", "The format of the template."},
			{"architecture", "tuple[str, ...]", "The architectures it is for, as QEMU spells them."},
			{"machines", "tuple[str, ...]", "The machines it is for, patterns such as `pc-q35-*`."},
			{"features", "tuple[str, ...]", "What it can: `secure-boot`, `enrolled-keys`, `requires-smm` …"},
		},
	}
}
