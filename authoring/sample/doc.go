// Package sample reads the VMs that VM types are tried with. There are two kinds
// of files.
//
// An archive NAME.txtar keeps the plan as well (a golden): a change of a type shows up as a
// change of goldens. It has a comment that says what is special about this machine, its vm
// section (vm.yaml), the host (host.json, if it is not the usual one), the name of the VM
// type (type) and the plan as text (plan.txt).
//
// A configuration NAME.yaml is what the runner reads, as it stands; its vmType
// names the type. What it describes must have a plan, but the plan isn't kept.
// The host is the usual one.
//
// The type of an archive that names none is that in the folder which the archive
// is named after, asset.star for asset-with-tag.txtar, else the standard one.
//
// Errors in a file are yamlfile.Faults, with the lines of this file.
package sample
