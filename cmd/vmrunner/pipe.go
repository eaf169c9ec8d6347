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
		Long: "pipe is for programs that reach this computer by its standard streams only, such as\n" +
			"kubectl-vmop by pods/exec. It carries one connection with the control socket in frames: a\n" +
			"length of 2 bytes, the most significant first, and as many bytes; the length 0 ends a\n" +
			"direction. When standard input ends without that, so does the connection.",
		Example: "  kubectl exec -i web-0 -- vmrunner pipe --runtime-dir /run/vmrunner/web",
		Hidden:  true,
	}
	vm := aboutVM(f, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := vm.find(cmd, args)
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
