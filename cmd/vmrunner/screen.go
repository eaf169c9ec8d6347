package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/internal/cli/attach"
)

func newScreenshot(f *flags) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "screenshot [NAME]",
		Short: "Save a picture of the screen",
		Long:  "Save the VM's screen as PNG, by default to NAME.png.",
	}
	vm := aboutVM(f, cmd)
	cmd.Flags().StringVarP(&file, "file", "f", "", "`FILE` to write to; - is standard output (default NAME.png)")
	cli.CompleteFile(cmd, "file", "png")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, err := vm.dialRunner(cmd, args)
		if err != nil {
			return err
		}
		ctx, cancel := boundRequest(cmd.Context())
		defer cancel()
		if file == "" {
			s, err := client.Status(ctx)
			if err != nil {
				return err
			}
			file = filepath.Base(s.Name) + ".png"
		}
		return attach.Picture(ctx, cmd, client, file)
	}
	return cmd
}

func newVNC(f *flags) *cobra.Command {
	var address string
	cmd := &cobra.Command{
		Use:   "vnc [NAME]",
		Short: "Serve the screen to VNC viewers",
		Long: "Serve the VM's screen to VNC viewers until Ctrl-C. All users of this computer can\n" +
			"connect to a TCP port, only you to a Unix socket.",
		Example: "  vmrunner vnc web                      # prints the port of 127.0.0.1\n" +
			"  vmrunner vnc web --listen ./web.vnc    # vncviewer ./web.vnc",
	}
	vm := aboutVM(f, cmd)
	cmd.Flags().StringVar(&address, "listen", "127.0.0.1:0",
		"`ADDRESS` to listen on, HOST:PORT, or the path of a Unix socket; port 0\nis any free port")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, err := vm.dialRunner(cmd, args)
		if err != nil {
			return err
		}
		return attach.Screens(cmd, address, client.VNC)
	}
	return cmd
}
