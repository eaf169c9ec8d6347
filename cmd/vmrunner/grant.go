package main

import (
	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/runner/config"
	"vmop/runner/inventory"
	"vmop/vmspec"
)

// newGrant returns the verb that the systemd unit calls as root before the VM's own user runs the VM.
func newGrant() *cobra.Command {
	return &cobra.Command{
		Use: "grant NAME", Short: "Let the user of a VM's service use the files of root", Hidden: true,
		Args: cli.Arguments(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			env := config.HostEnv()
			dataDir, err := (&config.Config{VM: vmspec.Spec{Name: args[0]}}).DataDirectory(env)
			if err != nil {
				return err
			}
			return inventory.Grant(env.Folder(), args[0], dataDir)
		},
	}
}
