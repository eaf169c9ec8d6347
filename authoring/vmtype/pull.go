package vmtype

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"vmop/authoring/share"
	"vmop/internal/cli"
	"vmop/vmtypes/artifact"
)

func newPull(Flags) *cobra.Command {
	var from registryFlags
	var keys []string
	cmd := &cobra.Command{
		Use:   "pull REF [DIR]",
		Short: "Get the files of a VM type from a registry",
		Long: "Write the files of a VM type in a registry to a folder, by default the current folder, and\n" +
			"print the reference with its digest. You can read, test or change them. Nothing is evaluated.\n" +
			"If one of the files exists with different content, nothing is written.\n" +
			"\"vendor\" keeps types for VMs.\n\n" + registryHelp + "\n\n" + rangeHelp,
		Example: "  vmrunner vmtype pull registry.example.org/types/asset:1.2 asset && vmrunner vmtype test asset",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return cli.UsageError{Err: fmt.Errorf("pull takes a reference, as registry.example.org/types/asset:1.2, "+
					"and a folder; got %d arguments", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			registry, err := from.openRegistry()
			if err != nil {
				return err
			}
			if registry.Keys, err = readKeys(keys); err != nil {
				return err
			}
			f, err := registry.Fetch(cmd.Context(), args[0])
			if err != nil {
				return withFlagHint(err)
			}
			dir := slices.Concat(args, []string{"."})[1]
			if err := share.Write(dir, &f.Content); err != nil {
				return err
			}
			pinned, err := artifact.Pinned(args[0], f.Digest)
			if err != nil {
				return err
			}
			return cli.WriteLine(cmd.OutOrStdout(), pinned+"\n"+listFiles(dir, &f.Content))
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) != 1 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	from.addFlags(cmd)
	keysFlag(cmd, &keys)
	return cmd
}
