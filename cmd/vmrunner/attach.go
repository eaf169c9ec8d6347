package main

import (
	"github.com/spf13/cobra"

	"vmop/internal/cli/attach"
)

// connected is printed on a terminal that shows the console.
const connected = "Connected. ^] disconnects."

func newConsole(f *flags) *cobra.Command {
	var modes attach.Modes
	cmd := &cobra.Command{
		Use:   "console [NAME]",
		Short: "Show the guest's serial console and type on it",
		Long: "Show the serial console, starting with the last 64 KiB of its output, and type on it. On\n" +
			"a terminal ^] disconnects; all other keys go to the guest. One client can type at a\n" +
			"time; any number can watch.",
	}
	vm := aboutVM(f, cmd)
	modes.Add(cmd, "; on a terminal, Ctrl-C also disconnects")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		mode, err := modes.Mode()
		if err != nil {
			return err
		}
		client, err := vm.dialRunner(cmd, args)
		if err != nil {
			return err
		}
		return attach.Console(cmd, client, mode, connected)
	}
	return cmd
}
