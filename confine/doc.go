// Package confine makes the kernel hold a process to what it is given.
//
//	rules := confine.Rules{Paths: []confine.Path{{Name: "/usr", Access: confine.Read}}}
//	held, calls, err := rules.Hold(loopback.Deny) // in a thread that then starts the process, and ends
//
// Rules hold for the calling thread and what it starts, for ever. So they are for a
// thread that ends (package process has such threads), or for a Stage: this program in a
// user namespace, which becomes the process. There is no helper program:
//
//   - Landlock denies to open, make or remove files other than those of the rules, to
//     use other TCP ports, to signal or trace processes outside, and to connect to
//     abstract sockets outside, each as far as the kernel knows it;
//   - with CAP_SYS_ADMIN, or in a Stage, the process gets a root folder that contains
//     only the paths of the rules, those for reading read-only: Landlock prevents neither
//     chmod(2) nor a connection to a unix socket that has a path;
//   - it gets no privileges by executing a program, and keeps no capability but those of
//     the rules.
//
// What a kernel or a container doesn't permit is left out, and Held says so.
//
// See docs/decisions/0055-confinement.md, 0178-own-root-without-root.md and
// docs/decisions/0183-attributes-without-a-root-folder.md.
package confine
