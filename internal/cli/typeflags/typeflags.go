// Package typeflags has the flags of commands that evaluate VM types.
package typeflags

import (
	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/vmtypes"
	"vmop/vmtypes/policy"
)

// Flags contains the flags for the source of VM types and for their permissions.
type Flags struct {
	// Folder is the folder of custom VM types.
	Folder string
	// Policy is the file with the policy for VM types.
	Policy string
}

// Add adds the flags to a command and its subcommands.
func (f *Flags) Add(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&f.Folder, "vmtypes", vmtypes.DefaultDir, "`DIR` of custom VM types")
	cmd.PersistentFlags().StringVar(&f.Policy, "vmtypes-policy", policy.DefaultFile,
		"policy `FILE`, which limits what VM types may do; the default\nmay be absent")
	cli.CompleteFolder(cmd, "vmtypes")
	cli.CompleteFile(cmd, "vmtypes-policy", "yaml", "yml")
}
