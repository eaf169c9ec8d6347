// Package drive contains the goroutine that controls a running VM.
//
// A Driver passes events to a machine.State, which makes the decisions, and carries out the resulting actions.
// Only the Driver calls qmp.Session, signals QEMU, publishes the status and saves the progress. Other goroutines
// send it requests: functions that the Driver calls between two steps. Therefore the State and the Driver's own
// fields need no lock.
//
// All goroutines of a runner:
//
//	goroutine                  purpose                                      ends with; reports by
//	runner.Run (its caller's)  prepares, starts, adopts; then waits         the VM
//	Driver.Run                 this goroutine: decisions and commands       QEMU's end, or Close
//	Driver, one per helper     waits for the process                        the Driver; a request
//	Driver, for a disk error   measures file systems (NFS may hang)         its answer; a request
//	Driver, for a CD's URL     checks whether its server answers            serverTime; a request
//	Driver, for a lost TPM     starts its process again                     its start; a request
//	qmp.Session, three         read, write, queue events                    the connection; Events, replies
//	process, per process       wait for its end, read its output            the process; Done, the log
//	agents, one per open port  communicates with an agent in the guest      the port's closing; requests
//	agents, in a stop          finds the agent, asks it to shut down        the answers; requests
//	follow.reader              follows the configuration                    the VM; requests
//	follow.reader, evaluating  reads it, has VM types evaluated             its result, or a newer change
//	evaluate.Group             runs the process that evaluates              the evaluation
//	config.Watch, filewatch    wait for changed files                       the VM; a channel each
//	disks.Sizes                checks the files of disks (NFS may hang)     the VM; requests
//	agents, in a freeze        freezes file systems, or thaws them          the answers; requests
//	control.Server, per client answer requests of users, create snapshots   the server; requests
//	snapshot.Live, adopting    ends what an earlier runner has begun        QEMU's answers; requests
//	k8s.Reporter               reports the status to the cluster            its Close
//	service, two               inform the service manager; its watchdog     the status' end; Alive
//
// The Driver waits on these channels:
//
//   - Events and Greeted or Done of the session
//   - replies from the session's reader
//   - requests from all other goroutines
//   - Done of QEMU
//   - the end of Run's context, which is a stop request
//   - Alive, which shows the service's watchdog that the Driver is not stuck
//
// done informs the others that the Driver has ended. The locks of qmp.Session, status.Tracker, control.Server and
// guest.LoginAgent protect these packages' own fields, and are never held while waiting.
package drive
