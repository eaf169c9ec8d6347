// Package attach connects a user's terminal and programs to a running VM: to its console, screen, and ports. It
// works via the VM's runner, regardless of where that runs and how it is reached.
package attach

import (
	"context"
	"io"
	"net"

	"vmop/runner/control"
)

// A Runner connects to a VM: it is a client of the VM's runner (*control.Client) or of the manager. Errors are the
// client's errors. A Runner must be safe for concurrent use.
type Runner interface {
	// Screenshot writes the screen as PNG.
	Screenshot(ctx context.Context, w io.Writer) error
	// Console opens the serial console.
	Console(ctx context.Context, mode control.Mode) (net.Conn, error)
	// Screen opens the screen, which speaks RFB.
	Screen(ctx context.Context, mode control.Mode) (net.Conn, error)
	// SPICE opens a channel of the screen; all channels of a viewer share one id.
	SPICE(ctx context.Context, id string, mode control.Mode) (net.Conn, error)
	// Forward opens a TCP port of the guest.
	Forward(ctx context.Context, port int) (net.Conn, error)
}
