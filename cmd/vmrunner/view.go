package main

import (
	"github.com/spf13/cobra"

	"vmop/cli/attach"
)

func newView(f *flags) *cobra.Command {
	var modes attach.Modes
	cmd := &cobra.Command{
		Use:   "view [NAME]",
		Short: "Open the screen in a viewer",
		Long: "view opens the VM's screen in a viewer for VNC, and ends with it. The VM needs vm.display.\n" +
			"TigerVNC's viewer connects to a unix socket; remote-viewer and others to a port of\n" +
			"127.0.0.1, which is open for one connection. One client can type at a time.",
	}
	vm := aboutVM(f, cmd)
	modes.Add(cmd, "")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		mode, err := modes.Mode()
		if err != nil {
			return err
		}
		client, err := vm.dial(cmd, args)
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
