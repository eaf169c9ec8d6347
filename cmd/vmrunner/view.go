package main

import (
	"github.com/spf13/cobra"

	"vmop/internal/cli/attach"
)

func newView(f *flags) *cobra.Command {
	var modes attach.Modes
	cmd := &cobra.Command{
		Use:   "view [NAME]",
		Short: "Open the screen in a viewer",
		Long: "Open the VM's screen in a VNC viewer, and return when the viewer is closed. The VM needs\n" +
			"vm.display. TigerVNC's viewer connects to a unix socket; remote-viewer and others\n" +
			"connect to a port of 127.0.0.1, which accepts one connection. One client can type at a\n" +
			"time.",
	}
	vm := aboutVM(f, cmd)
	modes.Add(cmd, "")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		mode, err := modes.Mode()
		if err != nil {
			return err
		}
		client, err := vm.dialRunner(cmd, args)
		if err != nil {
			return err
		}
		screen, err := client.Screen(cmd.Context(), mode) // before a viewer opens a window
		if err != nil {
			return attach.HintTakeOver(err)
		}
		defer screen.Close()
		return attach.View(cmd.Context(), screen, "vmrunner vnc NAME")
	}
	return cmd
}
