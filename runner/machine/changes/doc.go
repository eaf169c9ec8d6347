// Package changes computes which changes of a configuration need a restart of a running VM.
//
// The result is exact because a launch plan is a pure function of the configuration. To find out whether a value
// matters, the package changes it alone and compares the plans (pending.go). It omits a value that changes no
// plan, regardless of its name, and a value that a rule of the running plan covers (live.go). It needs no list of
// fields that require a restart, and works in the same way for custom VM types.
//
// Configurations are compared value by value (difference.go). To test the effect of some values, the package
// builds configurations from old and new values (mix.go).
package changes
