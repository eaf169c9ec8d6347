// Package sample reads sample VMs for VM types. There are two kinds of files.
//
// An archive NAME.txtar also contains the expected plan (a golden), so that a change of a type causes a change of
// goldens. It consists of a comment that explains what is special about this machine, the vm section (vm.yaml), the
// host (host.json, if it differs from the default host), the name of the VM type (type) and the plan as text
// (plan.txt).
//
// A configuration NAME.yaml is an ordinary configuration of the runner; its vmType names the type. It must have a plan,
// but the plan is not stored. The host is the default host.
//
// If an archive contains no type, the name of the archive determines the type: asset.star in the same folder for
// asset-with-tag.txtar. Without such a file, the type is the standard type.
//
// A line "needs: qemu >= 9.1" in the comment of an archive, or "# needs: qemu >= 9.1" in a configuration, is the oldest
// version of QEMU that can run the VM.
//
// Errors in a file are yamlfile.Faults, with the line numbers of this file.
package sample
