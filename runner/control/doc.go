// Package control is the runner's own interface: HTTP on a unix socket in the
// runtime directory, for the command line, for scripts with curl, and for the
// web interface. docs/control.md describes it for its users.
//
// # The server
//
//	server, err := control.Start(ctx, control.Options{Dir: runtimeDir, Backend: machine, Tracker: tracker, Log: log})
//	server.Console().Attach(conn)  // the guest's serial port
//	server.Event(e)                // each QMP event
//	...
//	server.Close()
//
// What only the runner can do is behind the interface Backend: it acts, runs
// QMP commands, and knows the plan. The status comes from a status.Tracker.
// Everything else is here: who may connect is decided by the socket's mode, how
// many by MaxConnections, and nobody who is slow holds anybody up. Readers of
// events have a short queue each (feed.go); readers of the serial console have
// a place in one ring (console.go). Both lose the oldest, and are told so.
//
// # The client
//
//	client, err := control.Dial(filepath.Join(runtimeDir, control.SocketName))
//	s, err := client.Status(ctx)
//
// The client checks that the other side is the user's own: a socket below /tmp
// may be anybody's. It is written on top of net/http's reading and writing of
// messages, without its Transport: one connection for one request.
//
// # What it costs
//
// net/http is the one large import, 2.8 MB of program and 1.8 MB of resident
// memory. HTTP/2 and TLS are not switched on.
package control
