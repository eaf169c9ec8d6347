// Package confine lets the kernel restrict a process to the resources in its rules.
//
//	rules := confine.Rules{Paths: []confine.Path{{Name: "/usr", Access: confine.Read}}}
//	held, calls, err := rules.Hold(loopback.Deny) // in a thread that then starts the process, and ends
//
// Rules apply permanently to the calling thread and to the processes it starts. Use them in a thread that ends
// (package childprocess has such threads), or in a Stage: this program in a user namespace, which becomes the
// process. There is no helper program:
//
//   - Landlock denies opening, creating or removing files outside the rules, using other TCP ports, signaling or
//     tracing processes outside, and connecting to abstract sockets outside, as far as the kernel supports each.
//   - With CAP_SYS_ADMIN, or in a Stage, the process gets a root folder that contains only the paths of the rules,
//     with the readable paths mounted read-only. Landlock doesn't prevent chmod(2) or connections to Unix sockets
//     with a path.
//   - The process gets no privileges by executing a program, and keeps only the capabilities of the rules.
//
// If a kernel or a container doesn't permit a restriction, it is left out, and Held reports that.
//
// See docs/decisions/0055-confinement.md, 0178-own-root-without-root.md and
// docs/decisions/0183-attributes-without-a-root-folder.md.
package confine
