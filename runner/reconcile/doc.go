// Package reconcile decides which QMP commands bring a running machine nearer
// to what is wanted. It does no I/O: what is wanted, what was observed and the
// plan's rules go in, commands come out. The runner executes them, observes
// again and asks again; nothing hangs on one event.
//
// There is one file for each kind of rule. What no rule of the plan covers is
// not changed.
package reconcile
