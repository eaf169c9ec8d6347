// Package evaluate has VM types evaluated for those who don't trust them: the
// verbs for authors, who try what a stranger wrote, and the manager, which runs
// for many.
//
// Stock types are part of the program and are evaluated in its process. All
// others are evaluated in a process of their own (package sandbox), to which the
// parent hands the modules as texts; what a type asks about the host, the parent
// answers. What comes back, plans, errors with their places, faults, is as it
// would be if the type were called directly.
//
// A program that calls this package begins its main with [Serve]. A runner launches
// its own VM's type directly: whoever may write the types of a runner may do what
// the runner may do, and it has no other VM to protect (docs/security.md). What a
// changed configuration or type would do it has evaluated by this package ([Group]),
// since the VM runs then, and must not wait for a type that does not end.
package evaluate
