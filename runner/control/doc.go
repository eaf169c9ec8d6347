// Package control is the runner's own interface: HTTP on a unix socket in the
// runtime directory, for the command line, for scripts with curl, and for the
// web interface. docs/control.md describes it for its users.
//
// # The server
//
//	server, err := control.Start(ctx, control.Options{Dir: dir, Backend: vm, Tracker: tracker, Log: log})
//	server.Console().Attach(conn)  // the guest's serial port
//	server.Event(e)                // each QMP event
//	...
//	server.Close(ctx)
//
// What only the runner can do is behind the interface Backend: actions, QMP commands and
// the plan. The status comes from a status.Tracker. The rest is in this package. The mode
// of the socket restricts it to the user, MaxConnections and MaxLasting bound the number of
// clients, and no slow client delays another. Each reader of events has a short queue (feed.go);
// readers of the serial console have a position in one ring buffer (console.go). Slow
// readers lose the oldest output, and are sent how much they have lost.
//
// # The client
//
//	client, err := control.Dial(filepath.Join(runtimeDir, control.SocketName))
//	s, err := client.Status(ctx)
//
// The client checks that the runner belongs to the same user, because any user can make a
// socket below /tmp. It uses net/http to read and write messages, but not its Transport:
// each request has a connection of its own.
//
// # What it costs
//
// net/http is the one large import, 2.8 MB of program and 1.8 MB of resident
// memory. HTTP/2 and TLS are not enabled.
package control
