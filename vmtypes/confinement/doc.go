// Package confinement computes which files, sockets, ports and capabilities of the host the processes of a launch plan
// may use. It allows only what the plan needs. The package is pure, so its rules can be printed and tested. Package
// confine makes the kernel enforce them on a process.
//
//	for _, d := range confinement.Of(plan, facts) {
//		fmt.Print(d.Text(true)) // with the option that needs each rule
//	}
//
// The table of package qemuopt determines what an option needs. For example, an option that names a file to read allows
// reading this file. An absolute path in a text that the table lacks may be written, because the plan names it. The
// same applies to a path in an argument of a helper. If an option uses files that it neither names nor implies, the VM
// type must declare them with access(path, mode).
//
// Rules contain paths. A process may use the files at these paths at the time when it starts. For files that can be
// replaced while the VM is running, such as media, the rules therefore contain the folders.
//
// See docs/decisions/0055-confinement.md.
package confinement
