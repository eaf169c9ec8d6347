// Package reconcile decides which QMP commands bring a running machine closer to the wanted configuration. It
// does no I/O and has no clock. Its inputs are QEMU's answers and events, the wanted configuration, and the time.
// Its outputs are commands.
//
// A Machine is the known state of one machine. Its user (the runner) runs a loop:
//
//	step := machine.Next(wanted, now)
//	… send step.Requests immediately, and give each answer to machine.Answer
//	… give QEMU's events to machine.Observe
//	… when something came in, or at step.Wake, ask Next again
//
// Before the guest runs, the loop ends with the first step without requests. The machine then has the wanted
// configuration, or Facts contains the problems.
//
// Each kind of rule has its own file, and each rule has its own dialogue with QEMU. A rule sends some commands
// and waits for all answers before it sends more, so rules do not wait for each other or mix up their answers.
// The package changes only parts of the machine that a rule of the plan covers.
//
// It does not depend on any single event. An event only makes a rule check sooner; the state itself is always
// queried (query-hotpluggable-cpus, query-block, query-balloon …). Failed attempts are repeated after a pause,
// which grows up to a minute. They are repeated immediately when the wanted configuration changes, and soon after
// the guest has acted. Until then they are Problems in Facts.
package reconcile
