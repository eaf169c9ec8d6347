// Package drive has the one goroutine that looks after a running VM.
//
// A Driver gives what happens to a machine.State, which decides, and carries out
// the actions that come back: it alone calls qmp.Session, signals QEMU, publishes
// the status and saves the progress. Everybody else hands it requests, as functions
// that it calls between two steps, so the State and the Driver's own fields need
// no lock.
//
// All goroutines of a runner:
//
//	goroutine                  purpose                                      ends with; reports by
//	runner.Run (its caller's)  prepares, starts, adopts; then waits         the VM
//	Driver.Run                 this one: all that is decided or said        QEMU's end, or Close
//	Driver, one per helper     waits for the process                        the Driver; a request
//	Driver, for a disk error   measures file systems (NFS may hang)         its answer; a request
//	Driver, for a CD's URL     waits whether its server answers             serverTime; a request
//	Driver, for a lost TPM     starts its process again                     its start; a request
//	qmp.Session, three         read, write, queue events                    the connection; Events, replies
//	process, per process       wait for its end, read its output            the process; Done, the log
//	agents, one per open port  speaks with an agent in the guest            the port's closing; requests
//	agents, in a stop          finds the agent, asks it to shut down        the answers; requests
//	runner.reader              follows the configuration                    the VM; requests
//	runner.reader, evaluating  reads it, has VM types evaluated             its result, or a newer change
//	evaluate.Group             runs the process that evaluates              the evaluation
//	config.Watch, filewatch    wait for changed files                       the VM; a channel each
//	disks.Sizes                looks at the files of disks (NFS may hang)   the VM; requests
//	agents, in a freeze        freezes file systems, or thaws them          the answers; requests
//	control.Server, per client answer requests of users, make snapshots     the server; requests
//	snapshot.Live, adopting    ends what an earlier runner has begun        QEMU's answers; requests
//	k8s.Reporter               reports the status to the cluster            its Close
//	service, two               inform the service manager; its watchdog     the status' end; Alive
//
// The Driver waits on these channels: Events and Greeted or Done of the session;
// replies, which the session's reader sends; requests, from all others; Done of
// QEMU; the end of Run's context, which is a stop request; Alive, by which the
// service's watchdog sees that the Driver turns. done tells the others that it has
// ended. What else is locked, qmp.Session, status.Tracker, control.Server and
// guest.LoginAgent, protects that package's own fields, and is held for no wait.
package drive
