// Package evaluate has VM types evaluated for those who don't trust them: the
// verbs for authors, who try what a stranger wrote, the manager, which runs for
// many, and the runner, whose VM must not suffer from a type that does not end.
//
// Stock types are part of the program and are evaluated in its process. All
// others are evaluated in a process of their own (package sandbox), to which the
// parent hands the modules as texts; what a type asks about the host, the parent
// answers. What comes back, plans, errors with their places, faults, is as it
// would be if the type were called directly.
//
// A program that calls this package begins its main with [Serve]. A caller that
// evaluates a type more than once, or several, does so in a [Group].
package evaluate
