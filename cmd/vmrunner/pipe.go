package main

import (
	"path/filepath"

	"github.com/spf13/cobra"

	"vmop/runner/control"
	"vmop/runner/control/pipe"
)

func newPipe(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pipe [NAME]",
		Short: "Connect the standard streams with the control interface",
		Long: "Carry one connection to the control socket over standard input and output, for programs\n" +
			"such as kubectl-vmop. Data travels in frames: a length of 2 bytes, the most significant\n" +
			"first, and as many bytes. The length 0 ends a direction. If standard input ends without\n" +
			"it, the connection is aborted.",
		Example: "  kubectl exec -i web-0 -- vmrunner pipe --runtime-dir /run/vmrunner/web",
		Hidden:  true,
	}
	vm := aboutVM(f, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := vm.findRuntimeDir(cmd, args)
		if err != nil {
			return err
		}
		conn, err := control.Connect(cmd.Context(), filepath.Join(dir, control.SocketName))
		if err != nil {
			return err
		}
		pipe.Splice(pipe.New(cmd.InOrStdin(), cmd.OutOrStdout(), nil), conn)
		return nil
	}
	return cmd
}
