// Package manager is the program that runs the VirtualMachines of one namespace. It reads its configuration,
// connects to the API server, and becomes the leader. Package manager/vm/controller is its controller.
//
// # Configuration
//
// The file has VM-Operator's format: YAML with the section "/Manager" and its subsections, see [Parse]. It is
// optional, and unknown keys are errors. The manager reads it again whenever it changes. An invalid new file only
// affects the log and a metric. The file logging.properties in the same directory sets the log levels.
//
// # Scope
//
// A manager manages one namespace: its pod's namespace, or the configured namespace. Several managers can run for
// a namespace. A Lease selects the leader, and the others stand by.
//
// See docs/decisions/0039-no-purge.md.
package manager
