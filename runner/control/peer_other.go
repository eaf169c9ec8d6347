//go:build !linux

package control

import (
	"context"
	"errors"
	"fmt"
	"net"
)

// Runners only exist on Linux; this system only has clients.

func isClientGone(context.Context) bool { return false }

func peerOf(net.Conn) string { return "unknown" }

func isOwn(net.Conn, string) error {
	return fmt.Errorf("runners are on Linux: %w", errors.ErrUnsupported)
}

// Barred are the processes of a VM, which must not use the control interface.
type Barred struct{}

func (*Barred) isBarred(net.Conn) bool { return true }
