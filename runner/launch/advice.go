package launch

import (
	"regexp"
	"strconv"
	"strings"

	"vmop/internal/printable"
	"vmop/runner/prepare"
)

// An advice explains what to do about an error message that QEMU or passt writes before it exits.
type advice struct {
	said *regexp.Regexp
	text string // the placeholders of adviceWords are replaced; $1 is the first group
}

// adviceInOrder returns the known advices. The first match wins. QEMU's messages are from versions 7.2 to 10, passt's
// from 2023 to 2025.
func adviceInOrder() []advice {
	find := regexp.MustCompile
	return append(adviceOnPorts(), []advice{
		{
			find(`Is another process using the image \[([^\]]+)\]`),
			"another process uses the disk $1, and so may another VM: stop it, or give each VM a separate disk",
		},
		{
			find(`cannot set up guest memory '[^']*': Cannot allocate memory`),
			"vm.maximumRam: this computer does not have enough free memory for RAM: choose less, or stop another VM",
		},
		{
			find(`Could not access KVM kernel module: Permission denied`),
			"vm.accelerator: this user may not use /dev/kvm: add the user to the group kvm (usermod -aG kvm USER, then log in " +
				"again), or set auto or tcg",
		},
		{
			find(`Could not access KVM kernel module: No such file or directory`),
			"vm.accelerator: there is no /dev/kvm here: load the kernel's module kvm_intel or kvm_amd, or set auto or tcg",
		},
		{
			find(`to set MSR|kvm_buf_set_msrs`),
			"vm.accelerator: the KVM of this host can't run such a CPU: set tcg, or another vm.cpuModel",
		},
		{
			find(`tpm-emulator: TPM result for CMD_INIT`),
			"the state of the TPM is damaged: replace STATE with a backup, or move it away to create a new TPM, which " +
				"contains no secrets of the old TPM",
		},
		{
			find(`linux kernel too old to load a ram disk|invalid kernel header|could not load kernel`),
			"vm.kernel.image: KERNEL is not a Linux kernel for this machine (use a kernel such as /boot/vmlinuz-VERSION)",
		},
		{
			find(`create user namespace: |to sandbox process|to detach isolating namespaces`),
			"vm.network[].type: passt confines itself with user namespaces, which this host or container forbids to this " +
				"user: use a network of the type user or masquerade",
		},
		{
			find(`No external routable interface|External interface not usable`),
			"vm.network[].type: passt gives the guest the address of this host's default route, and there is none: add one, or " +
				"use a network of the type user",
		},
	}...)
}

// adviceOnPorts returns the advices about host ports that are in use.
func adviceOnPorts() []advice {
	find := regexp.MustCompile
	return []advice{
		{
			find(`Could not set up host forwarding rule '\w+:[^']*?:(\d+)-`),
			"vm.network[].ports: another program has the port $1 of the host, or this user may not listen there (below 1024 only " +
				"root may): choose another; \"ss -ltnup\" shows who listens",
		},
		{
			find(`reds_init_socket: binding socket to \S+:(\d+) failed`),
			"vm.display.spice.port: another program has the port $1 of the host, or this user may not listen there: choose " +
				"another; \"ss -ltnup\" shows who listens",
		},
		{
			find(`\bvnc \S+: \w+ to (?:bind socket|listen on socket|find an available port)`),
			"vm.display.vnc.port: another program has the port VNC of the host, or this user may not listen there: choose another; " +
				"\"ss -ltnup\" shows who listens",
		},
		{
			find(`to bind any port for '-\S+ (?:[^/']*/)?(\d+)`),
			"vm.network[].ports: another program has the port $1 of the host, or this user may not listen there (below 1024 only " +
				"root may): choose another; \"ss -ltnup\" shows who listens",
		},
	}
}

// adviceFor returns what to do about the messages in said, or "" if they are unknown.
func adviceFor(vm *prepare.VM, said string, list lister) string {
	if text, known := knownAdvice(said); known {
		return strings.NewReplacer(adviceWords(vm)...).Replace(text)
	}
	return adviceOnModel(vm, said, list)
}

// adviceWords returns the placeholders of advices, each followed by its replacement: the file with the TPM's state,
// the kernel's file, the VNC port and the size of the RAM.
func adviceWords(vm *prepare.VM) []string {
	kernel, port := "the file", ""
	if vm.Spec.Kernel != nil {
		kernel = printable.Line(vm.Spec.Kernel.Image)
	}
	if d := vm.Spec.Display; d != nil && d.VNC != nil {
		port = strconv.Itoa(d.VNC.Port)
	}
	ram := "for " + vm.Spec.MaximumRAM.String() + ":"
	return []string{"for RAM:", ram, "STATE", tpmState(vm.Plan), "KERNEL", kernel, "VNC", port}
}

// knownAdvice returns the first advice that matches.
func knownAdvice(said string) (text string, known bool) {
	for _, a := range adviceInOrder() {
		if at := a.said.FindStringSubmatchIndex(said); at != nil {
			return string(a.said.ExpandString(nil, a.text, said, at)), true
		}
	}
	return "", false
}
