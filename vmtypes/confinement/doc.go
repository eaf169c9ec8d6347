// Package confinement computes what the processes of a launch plan may use from the host: only what the plan
// shows that they need. It is pure, so the rules can be printed and tested. Package confine makes the kernel
// enforce them on a process.
//
//	for _, d := range confinement.Of(plan, facts) {
//		fmt.Print(d.Text(true)) // with the option that needs each rule
//	}
//
// The table of package qemuopt determines what an option needs: a text that names a file to read allows reading
// this file. If a text is an absolute path but unknown to the table, the path may be written, because the plan
// names it. The same applies to a path in an argument of a helper. If an option uses files that it doesn't name
// or imply, the VM type must declare them with access(path, mode).
//
// Rules contain paths. A process may use the files that these paths lead to when it starts. So for files that can
// be replaced while the VM is running, such as media, the rules contain their folders.
//
// See docs/decisions/0055-confinement.md.
package confinement
