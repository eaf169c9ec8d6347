package vmtype

import (
	"github.com/spf13/cobra"

	"vmop/cmd/vmrunner/cli"
	"vmop/vmtypes"
)

func newList(f Flags) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the VM types that a configuration can name",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			library, err := vmtypes.Open(*f.Folder)
			if err != nil {
				return err
			}
			defer func() { _ = library.Close() }() // it was only read
			rows := [][]string{{"NAME"}}
			for _, name := range library.Names() {
				rows = append(rows, []string{name})
			}
			return cli.Table(cmd.OutOrStdout(), rows)
		},
	}
}
