// Package qmp is a session with QEMU's machine protocol (QMP).
//
// # Beginning
//
// The listening socket is ours, not QEMU's: Listen makes it, the descriptor is
// handed to QEMU (-chardev socket,id=monitor,fd=N,server=on,wait=off and
// -mon chardev=monitor,mode=control), and since a listening socket takes
// connections before anybody accepts them, the session begins before QEMU does:
//
//	listener, err := qmp.Listen(path)        // mode 0600, nothing waits for it
//	conn, err := net.Dial("unix", path)      // before QEMU is executed
//	session := qmp.New(conn)                 // sends qmp_capabilities at once
//	cpus := session.Start(qmp.Command{Execute: "query-hotpluggable-cpus"})
//	...                                      // start QEMU with the listener
//	listener.Close()                         // else QEMU's death goes unnoticed
//	reply, err := cpus.Wait(ctx)
//
// There is no polling for a socket file and no round trip for the greeting:
// QEMU finds its first commands waiting when it opens the monitor. And because
// the path stays, a later process can Dial a QEMU whose first runner died.
//
// # Commands and events
//
// Run sends a Command and waits for its reply; Start and Pending.Wait do the
// same in two steps. Commands carry ids, so any number of goroutines may have
// commands under way. Neither New nor Start ever blocks: a QEMU that does not
// read costs its callers their deadline and nothing else. A command
// whose context ends before it was written is never sent.
//
// Events delivers QEMU's events in order through a bounded queue of its own:
// commands work without a reader of events. When the queue is full the most
// frequent kind of event loses its oldest, so a flood of one kind cannot push
// out the one SHUTDOWN that matters; Dropped counts the losses.
//
// # Errors
//
// QEMU's refusals are *Error, whose Class can be asked for:
//
//	if errors.Is(err, qmp.DeviceNotFound) { ... }
//
// When the connection ends, in whatever way, every command under way and every
// later one ends with ErrClosed, and Err tells the cause. A session is not
// reconnected: a monitor that closed means that QEMU ended or is unusable.
//
// # Secrets
//
// Some commands carry passwords. All ways of printing a Command, and the trace
// log, hide what may be secret (see Command).
//
// # go-qemu
//
// Package qmp/goqemu gives a session the shape of go-qemu's qmp.Monitor. Nothing of
// go-qemu is used here: replies over 64 KiB end its socket layer, its reply buffer is
// overwritten by events, an unread event blocks all commands, nothing has a deadline,
// errors lose their class, and numbers become float64, which loses sizes above 2^53
// (see docs/decisions/0001).
//
// The protocol: https://www.qemu.org/docs/master/interop/qmp-spec.html and
// https://www.qemu.org/docs/master/interop/qemu-qmp-ref.html.
package qmp
