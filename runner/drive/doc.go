// Package drive has the one goroutine that looks after a running VM.
//
// A Driver gives what happens to a machine.State, which decides, and carries out
// the actions that come back: it alone calls qmp.Session, signals QEMU, publishes
// the status and saves the progress. Everybody else hands it requests, as functions
// that it calls between two steps, so the State and the Driver's own fields need
// no lock.
//
// All goroutines of a runner, and what they share:
//
//	goroutine                  purpose                                      ends with, reports by
//	runner.Run (the caller's)  prepares, launches, adopts; then waits       the VM
//	Driver.Run                 this one: all that is decided or said        QEMU's end, or Close
//	Driver, one per helper     waits for the process                        Driver; a request
//	Driver, one at a time      measures file systems (NFS may hang)         the measurement; a request
//	qmp.Session, three         reads, writes, queues events                 the connection; Events, replies
//	process, per process       waits for its end, reads its output          the process; Done, the log
//	agents, one per open port  speaks with an agent in the guest            the port's closing; a request
//	agents, in a stop          finds the agent, asks it to shut down        their answers; a request
//	follow.Follower, two       reads the configuration; evaluates VM types  Run; requests
//	config.Watch, filewatch    wait for changed files                       Run; a channel each
//	disk sizes                 looks at the files of disks (NFS may hang)   Run; a request
//	control.Server, per client answers requests of users                    the server; requests
//	service                    tells the service manager; its watchdog      the status' end; Alive
//
// The channels are: replies, from the session's reader; requests, from all others;
// Alive, which the service's watchdog sends on to see that the Driver turns; done,
// closed at the end. The locks of a runner are those of qmp.Session, status.Tracker,
// control.Server and guest.LoginAgent, each about that package's own fields.
package drive
