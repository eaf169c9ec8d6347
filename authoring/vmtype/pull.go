package vmtype

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"vmop/authoring/share"
	"vmop/cli"
	"vmop/vmtypes/artifact"
)

func newPull(Flags) *cobra.Command {
	var from registryFlags
	cmd := &cobra.Command{
		Use:   "pull REF [DIR]",
		Short: "Get the files of a VM type from a registry",
		Long: "pull writes the files of a VM type that is in a registry into a folder, the current one by\n" +
			"default, to be read, tested or changed, and prints the reference with its digest. Nothing of\n" +
			"it is evaluated. If one of the files is there with another content, nothing is written.\n" +
			"\"vendor\" keeps types for VMs.\n\n" + registryHelp,
		Example: "  vmrunner vmtype pull registry.example.org/types/asset:1.2 asset && vmrunner vmtype test asset",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return cli.UsageError{Err: fmt.Errorf("pull takes a reference, as registry.example.org/types/asset:1.2, "+
					"and a folder; got %d arguments", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			registry, err := from.open()
			if err != nil {
				return err
			}
			f, err := registry.Fetch(cmd.Context(), args[0])
			if err != nil {
				return hinted(err)
			}
			dir := slices.Concat(args, []string{"."})[1]
			if err := share.Write(dir, &f.Content); err != nil {
				return err
			}
			pinned, err := artifact.Pinned(args[0], f.Digest)
			if err != nil {
				return err
			}
			return cli.WriteLine(cmd.OutOrStdout(), pinned+"\n"+files(dir, &f.Content))
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) != 1 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	from.add(cmd)
	return cmd
}
