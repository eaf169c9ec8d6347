package main

import (
	"github.com/spf13/cobra"

	"vmop/internal/cli"
)

func newRename(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rename NAME NEW",
		Short: "Rename a stopped VM",
		Long: "Give a stopped VM another name. Its configuration, data directory, snapshots, host keys and\n" +
			"autostart get the new name; its uuid and hardware addresses stay. After an interruption,\n" +
			"the VM has its old or its new name. To complete an interrupted rename, run it again.\n\n" +
			"The guest keeps its own host name.",
		Example: "  vmrunner rename web web-old",
	}
	f.oneVM(cmd)
	cmd.Args = cli.Arguments(2, 2)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all, err := f.checkingInventory(cmd)
		if err != nil {
			return err
		}
		done, err := all.Rename(cmd.Context(), args[0], args[1])
		if err != nil {
			return err
		}
		for _, note := range done.Notes {
			cmd.PrintErrln("note:", cli.Printable(note))
		}
		cmd.PrintErrf("%s is now %s: %s\n", args[0], args[1], cli.Printable(done.File))
		return nil
	}
	return cmd
}
