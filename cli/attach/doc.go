// Package attach connects a user's terminal and programs with a running VM: its console,
// screen, and ports, by its runner, wherever that runs and however it is reached.
package attach

import (
	"context"
	"io"
	"net"

	"vmop/runner/control"
)

// A Runner connects with a VM: a client of its runner (*control.Client), or one of the manager. The
// errors are those of such a client; it must be safe for concurrent use.
type Runner interface {
	// Screenshot writes the screen as PNG.
	Screenshot(ctx context.Context, w io.Writer) error
	// Console opens the serial console.
	Console(ctx context.Context, mode control.Mode) (net.Conn, error)
	// Screen opens the screen, which speaks RFB.
	Screen(ctx context.Context, mode control.Mode) (net.Conn, error)
	// SPICE opens a channel of the screen; all those of a viewer have one id.
	SPICE(ctx context.Context, id string, mode control.Mode) (net.Conn, error)
	// Forward opens a TCP port of the guest.
	Forward(ctx context.Context, port int) (net.Conn, error)
}
