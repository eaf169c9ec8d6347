package attach

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/spf13/cobra"
)

// Screens listens for VNC viewers and connects each of them to a new connection from open, until the context of cmd
// is done. The address contains a port, or is the path of a Unix socket.
func Screens(cmd *cobra.Command, address string, open func(context.Context) (net.Conn, error)) error {
	probe, err := open(cmd.Context()) // report errors before a viewer connects
	if err != nil {
		return err
	}
	_ = probe.Close()
	network := "tcp"
	if strings.Contains(address, "/") {
		network = "unix"
	}
	var lc net.ListenConfig
	l, err := lc.Listen(cmd.Context(), network, address)
	if err != nil {
		return fmt.Errorf("listen for VNC viewers: %w", err)
	}
	cmd.PrintErrf("VNC on %s; Ctrl-C stops it\n", l.Addr())
	return acceptAll(cmd.Context(), l, "VNC viewers", func(viewer net.Conn) {
		if err := showScreen(cmd.Context(), viewer, open); err != nil {
			cmd.PrintErrln("vnc:", err)
		}
	})
}

// showScreen serves one viewer.
func showScreen(ctx context.Context, viewer net.Conn, open func(context.Context) (net.Conn, error)) error {
	defer viewer.Close()
	screen, err := open(ctx)
	if err != nil {
		return err
	}
	defer screen.Close()
	go func() {
		_, _ = io.Copy(screen, viewer) // only its end matters
		_ = screen.Close()
	}()
	_, _ = io.Copy(viewer, screen)
	return nil
}

// Picture saves the VM's screen as a PNG file; "-" means the standard output.
func Picture(ctx context.Context, cmd *cobra.Command, client Runner, file string) error {
	var picture bytes.Buffer // avoids writing an incomplete file
	if err := client.Screenshot(ctx, &picture); err != nil {
		return err
	}
	if file == "-" {
		_, err := cmd.OutOrStdout().Write(picture.Bytes())
		return err
	}
	if err := os.WriteFile(file, picture.Bytes(), 0o600); err != nil {
		return fmt.Errorf("save the screenshot: %w", err)
	}
	cmd.PrintErrln(file)
	return nil
}
