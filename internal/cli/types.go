package cli

import (
	"github.com/spf13/cobra"

	"vmop/vmtypes"
	"vmop/vmtypes/policy"
)

// TypeFlags contains the flags for the source of VM types and for their permissions.
type TypeFlags struct {
	// Folder is the folder of custom VM types.
	Folder string
	// Policy is the file with the policy for VM types.
	Policy string
}

// Add adds the flags to a command and its subcommands.
func (f *TypeFlags) Add(cmd *cobra.Command) {
	cmd.PersistentFlags().StringVar(&f.Folder, "vmtypes", vmtypes.DefaultDir, "`folder` of custom VM types")
	cmd.PersistentFlags().StringVar(&f.Policy, "vmtypes-policy", policy.DefaultFile,
		"`file` with the policy for what VM types may do; the default\nmay be absent")
	CompleteFolder(cmd, "vmtypes")
	CompleteFile(cmd, "vmtypes-policy", "yaml", "yml")
}
