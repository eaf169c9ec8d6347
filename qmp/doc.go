// Package qmp implements a session with QEMU's machine protocol (QMP).
//
// # Beginning
//
// The runner, not QEMU, owns the listening socket. Listen creates the socket, and the runner passes its descriptor
// to QEMU (-chardev socket,id=monitor,fd=N,server=on,wait=off and -mon chardev=monitor,mode=control). A listening
// socket takes connections before a program accepts them, so the session begins before QEMU does:
//
//	listener, err := qmp.Listen(path)        // mode 0600, without waiting
//	conn, err := net.Dial("unix", path)      // before QEMU is executed
//	session := qmp.New(conn)                 // sends qmp_capabilities immediately
//	cpus := session.Start(qmp.Command{Execute: "query-hotpluggable-cpus"})
//	...                                      // start QEMU with the listener
//	listener.Close()                         // otherwise QEMU's death goes unnoticed
//	reply, err := cpus.Wait(ctx)
//
// There is no polling for a socket file and no round trip for the greeting: QEMU finds its first commands waiting
// when it opens the monitor. The path remains, so a later process can Dial a QEMU after its first runner has died.
//
// # Commands and events
//
// Run sends a Command and waits for its reply; Start and Pending.Wait do the same in two steps. Commands carry ids,
// so any number of goroutines may run commands at the same time. New and Start never block: if QEMU doesn't read,
// its callers only wait until their deadline. A command is never sent if its context ends before it is written.
//
// Events delivers QEMU's events in order through a separate bounded queue, so commands work without a reader of
// events. When the queue is full, the oldest event of the most frequent kind is dropped. A flood of one kind
// therefore can't push out the one SHUTDOWN that matters. Dropped counts the losses.
//
// # Errors
//
// A refused command returns an *Error, and callers can check its Class:
//
//	if errors.Is(err, qmp.DeviceNotFound) { ... }
//
// When the connection ends for any reason, all running and later commands end with ErrClosed, and Err returns the
// cause. A session doesn't reconnect: a closed monitor means that QEMU has ended or is unusable.
//
// # Secrets
//
// Some commands carry passwords. All ways of printing a Command, and the trace log, hide possible secrets (see
// Command).
//
// # go-qemu
//
// Package qmp/goqemu adapts a session to go-qemu's interface qmp.Monitor. This package uses no code of go-qemu, for
// these reasons (see docs/decisions/0001):
//
//   - Replies over 64 KiB end its socket layer.
//   - Events overwrite its reply buffer.
//   - An unread event blocks all commands.
//   - It lacks deadlines.
//   - Errors lose their class.
//   - Numbers become float64, so sizes above 2^53 lose precision.
//
// The protocol: https://www.qemu.org/docs/master/interop/qmp-spec.html and
// https://www.qemu.org/docs/master/interop/qemu-qmp-ref.html.
package qmp
