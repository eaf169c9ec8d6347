package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"vmop/cli"
	"vmop/runner/control"
)

func newScreenshot(f *flags) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "screenshot [NAME]",
		Short: "Save a picture of the screen",
		Long:  "screenshot saves the VM's screen as PNG, by default to NAME.png.",
	}
	vm := aboutVM(f, cmd)
	cmd.Flags().StringVarP(&file, "file", "f", "", "`file` to write to; - is standard output")
	cli.CompleteFile(cmd, "file", "png")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, err := vm.dial(cmd, args)
		if err != nil {
			return err
		}
		ctx, cancel := patient(cmd.Context())
		defer cancel()
		var picture bytes.Buffer // so that no incomplete file is written
		if err := client.Screenshot(ctx, &picture); err != nil {
			return err
		}
		if file == "-" {
			_, err := cmd.OutOrStdout().Write(picture.Bytes())
			return err
		}
		if file == "" {
			s, err := client.Status(ctx)
			if err != nil {
				return err
			}
			file = filepath.Base(s.Name) + ".png"
		}
		if err := os.WriteFile(file, picture.Bytes(), 0o600); err != nil {
			return fmt.Errorf("save the screenshot: %w", err)
		}
		cmd.PrintErrln(file)
		return nil
	}
	return cmd
}

func newVNC(f *flags) *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:   "vnc [NAME]",
		Short: "Serve the screen to VNC viewers",
		Long: "vnc listens for VNC viewers and connects them to the VM's screen, until Ctrl-C.\n" +
			"All users of this host can connect to a TCP port, only this user to a unix socket.",
		Example: "  vmrunner vnc web                      # prints the port of 127.0.0.1\n" +
			"  vmrunner vnc web --listen ./web.vnc    # vncviewer ./web.vnc",
	}
	vm := aboutVM(f, cmd)
	cmd.Flags().StringVar(&address, "listen", "127.0.0.1:0", "`address` and port, or the path of a unix socket")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, err := vm.dial(cmd, args)
		if err != nil {
			return err
		}
		probe, err := client.VNC(cmd.Context()) // so that errors show before a viewer connects
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
		return serveViewers(cmd.Context(), l, client, cmd.PrintErrln)
	}
	return cmd
}

// serveViewers connects viewers to the screen until ctx is done.
func serveViewers(ctx context.Context, l net.Listener, client *control.Client, complain func(...any)) error {
	return acceptAll(ctx, l, "VNC viewers", func(viewer net.Conn) {
		if err := showScreen(ctx, viewer, client); err != nil {
			complain("vnc:", err)
		}
	})
}

// showScreen serves one viewer.
func showScreen(ctx context.Context, viewer net.Conn, client *control.Client) error {
	defer viewer.Close()
	screen, err := client.VNC(ctx)
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
