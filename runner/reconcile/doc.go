// Package reconcile decides which QMP commands bring a running machine nearer
// to what is wanted. It does no I/O and has no clock: what QEMU says and what
// is wanted go in, with the time; commands come out.
//
// A Machine is what is known of one machine. Whoever runs it (the runner) goes
// round a loop:
//
//	step := machine.Next(wanted, now)
//	… send step.Requests at once, and give each answer to machine.Answer
//	… give QEMU's events to machine.Observe
//	… when something came in, or at step.Wake, ask Next again
//
// Before the guest runs, the loop ends with the first step that has no
// requests: the machine is as wanted then, or Facts says why not.
//
// There is one file for each kind of rule, and each rule holds a dialogue of its
// own with QEMU: it says something and waits for all answers before it says
// more, so rules neither wait for each other nor mix their answers up. What no
// rule of the plan covers is not changed.
//
// Nothing hangs on one event. An event only makes a rule look sooner; what is
// true is asked for (query-hotpluggable-cpus, query-block, query-balloon …).
// Nothing is repeated without a pause: what did not succeed is tried again after
// a time that grows to a minute, at once when something else is wanted, and soon
// when the guest moves. Until then it is a Problem in Facts.
package reconcile
