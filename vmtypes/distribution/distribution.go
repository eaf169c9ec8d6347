// Package distribution lists the files of QEMU, swtpm, passt and the firmware at the places where Linux distributions
// install them. With these lists, authors of VM types can compute plans for other computers (package sample), and the
// manager can compute plans for its containers.
package distribution

import (
	"maps"
	"slices"
)

// Names returns the names of the known distributions, sorted.
func Names() []string { return slices.Sorted(maps.Keys(knownDistributions())) }

// Files returns the absolute paths of the files on a distribution; nil if the name is unknown. They are for
// x86-64 unless the name contains another architecture.
func Files(name string) []string { return knownDistributions()[name] }

func knownDistributions() map[string][]string {
	programs := []string{"/usr/bin/qemu-system-x86_64", "/usr/bin/swtpm", "/usr/bin/passt"}
	with := func(dir string, names ...string) []string {
		files := slices.Clone(programs)
		for _, name := range names {
			files = append(files, dir+name)
		}
		return files
	}
	return map[string][]string{
		// ovmf 2022.11
		"debian-12": with("/usr/share/OVMF/OVMF_", "CODE.fd", "CODE.ms.fd", "CODE.secboot.fd", "CODE_4M.fd",
			"CODE_4M.ms.fd",
			"CODE_4M.secboot.fd", "CODE_4M.snakeoil.fd", "VARS.fd", "VARS.ms.fd", "VARS_4M.fd", "VARS_4M.ms.fd",
			"VARS_4M.snakeoil.fd"),
		// ovmf 2025.02, without the small flash
		"debian-13": with("/usr/share/OVMF/OVMF_", "CODE_4M.fd", "CODE_4M.ms.fd", "CODE_4M.secboot.fd",
			"CODE_4M.secboot.strictnx.fd",
			"CODE_4M.snakeoil.fd", "VARS_4M.fd", "VARS_4M.ms.fd", "VARS_4M.snakeoil.fd"),
		// edk2-ovmf: large flash as qcow2
		"fedora": with("/usr/share/edk2/ovmf/OVMF_", "CODE.fd", "CODE.secboot.fd", "VARS.fd", "VARS.secboot.fd",
			"CODE_4M.qcow2", "CODE_4M.secboot.qcow2", "VARS_4M.qcow2", "VARS_4M.secboot.qcow2"),
		// edk2-ovmf 202411 and later, without enrolled keys
		"arch":     with("/usr/share/edk2/x64/OVMF_", "CODE.4m.fd", "CODE.secboot.4m.fd", "VARS.4m.fd"),
		"arch-old": with("/usr/share/edk2-ovmf/x64/OVMF_", "CODE.fd", "CODE.secboot.fd", "VARS.fd"),
		"alpine":   with("/usr/share/OVMF/", "OVMF.fd", "OVMF_CODE.fd", "OVMF_VARS.fd"),
		"suse": with("/usr/share/qemu/ovmf-x86_64-", "code.bin", "vars.bin", "4m-code.bin", "4m-vars.bin",
			"smm-ms-code.bin", "smm-ms-vars.bin"),
		// files of QEMU itself, as installed by make install
		"upstream": with("/usr/share/qemu/edk2-", "x86_64-code.fd", "x86_64-secure-code.fd", "i386-vars.fd"),
		// qemu-system-arm, qemu-efi-aarch64 2022.11
		"debian-12-arm64": {
			"/usr/bin/qemu-system-aarch64", "/usr/bin/swtpm", "/usr/bin/passt", "/usr/share/AAVMF/AAVMF_CODE.fd",
			"/usr/share/AAVMF/AAVMF_CODE.ms.fd",
			"/usr/share/AAVMF/AAVMF_VARS.fd", "/usr/share/AAVMF/AAVMF_VARS.ms.fd",
		},
		// without firmware
		"bare": programs,
	}
}
