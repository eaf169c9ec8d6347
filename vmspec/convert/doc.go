// Package convert converts another program's definition of a VM to a configuration, and reports the result for
// each part of the definition. It is pure: it only reads the given text, and starts no process.
//
// Each reader converts its text to a tree and marks the nodes that it understands. Nodes that are still unmarked
// at the end are reported, so no part of the input is lost without a report. A part blocks if the conversion is
// impossible and the VM would be different without it. In this case there is no configuration, unless the user
// omits this part. See docs/decisions/0154-convert.md.
package convert
