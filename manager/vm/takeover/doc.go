// Package takeover assesses what happens to a namespace of VM-Operator when this project's manager takes over. Both
// projects use the same kinds of resources. A report lists unchanged parts, differences, and problems with a hint
// for each.
//
// All functions are pure. The manager takes VMs over by itself; docs/decisions/0148-takeover.md describes the
// remaining steps.
package takeover
