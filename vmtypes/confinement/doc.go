// Package confinement says what the processes of a launch plan may use of the host:
// nothing but what the plan shows that they need. It is pure: the rules can be printed
// and tested; package confine makes the kernel hold a process to them.
//
//	for _, d := range confinement.Of(plan, facts) {
//		fmt.Print(d.Text(true)) // with the option that needs each rule
//	}
//
// What an option needs follows from the table of package qemuopt: a text that names a
// file to read gives leave to read it. An absolute path in a text of which the table
// knows nothing may be written, since the plan names it; so does one in an argument of
// a helper. What neither names nor implies its files is stated by the VM type, as
// access(path, mode).
//
// Rules name paths; what a path leads to when the process starts is what it may use.
// So files that can be exchanged while the VM runs, as media can, are given by their
// folders.
//
// See docs/decisions/0055-confinement.md.
package confinement
