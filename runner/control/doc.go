// Package control is the runner's own interface: HTTP on a unix socket in the runtime directory. The command
// line, scripts with curl and the web interface use it. docs/reference/control.md describes it for its users.
//
// # The server
//
//	server, err := control.Start(ctx, control.Options{Dir: dir, Backend: vm, Tracker: tracker, Log: log})
//	server.Console().Attach(conn)  // the guest's serial port
//	server.Event(e)                // each QMP event
//	...
//	server.Close(ctx)
//
// The interface Backend provides what only the runner can do: actions, QMP commands and the plan. The status
// comes from a status.Tracker. This package does the rest:
//
//   - The mode of the socket restricts it to the user.
//   - MaxConnections and MaxLasting bound the number of clients.
//   - A slow client never delays another. Each reader of events has a short queue (feed.go), and readers of the
//     serial console have a position in one ring buffer (console.go). Slow readers lose the oldest output, and
//     receive the number of lost events or bytes.
//
// # The client
//
//	client, err := control.Dial(ctx, filepath.Join(runtimeDir, control.SocketName))
//	s, err := client.Status(ctx)
//
// The client checks that the runner belongs to the same user, because any user can create a socket below /tmp. It
// uses net/http to read and write messages, but not its Transport: each request has its own connection.
//
// # Costs
//
// net/http is the one large import, with 2.8 MB of program and 1.8 MB of resident memory. HTTP/2 and TLS are not
// enabled.
package control
