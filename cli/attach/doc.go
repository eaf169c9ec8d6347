// Package attach connects a user's terminal and programs with a running VM: its console,
// screen, and ports, by a client of its runner, wherever that runs.
package attach
