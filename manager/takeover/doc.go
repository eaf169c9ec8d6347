// Package takeover says what becomes of a namespace of VM-Operator, whose kinds of resources this project has, when the
// manager of this project takes over: what stays as it is, what changes, what doesn't work and what to do about it. Its
// functions are pure. The manager takes VMs over by itself; see docs/decisions/0148-takeover.md for what is left to do.
package takeover
