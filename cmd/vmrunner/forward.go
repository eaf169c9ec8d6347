package main

import (
	"errors"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/internal/cli/attach"
)

func newPortForward(f *flags) *cobra.Command {
	var address string
	var stdio bool
	cmd := &cobra.Command{
		Use:   "port-forward NAME [HOST:]GUEST...",
		Short: "Forward ports of this computer to the guest",
		Long: "Forward TCP ports of this computer to ports of the guest until Ctrl-C. Without HOST a\n" +
			"free port is used.\n\n" +
			"A user network forwards to any port. A passt network forwards only to ports in its\n" +
			"configuration. A masquerade network uses the guest's address, a tap network an address\n" +
			"that the guest agent reports.",
		Example: "  vmrunner port-forward web 8080:80 22\n" +
			"  ssh -o ProxyCommand='vmrunner port-forward web 22 --stdio' joe@web",
	}
	vm := aboutVM(f, cmd)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if _, ports := vm.nameFirst(cmd, args); len(ports) == 0 || stdio && len(ports) > 1 {
			return cli.UsageError{Err: errors.New("usage: vmrunner port-forward NAME [HOST:]GUEST, such as web 8080:80")}
		}
		return nil
	}
	cmd.Flags().StringVar(&address, "address", "127.0.0.1", "`ADDRESS` of this computer to listen on")
	cmd.Flags().BoolVar(&stdio, "stdio", false, "connect the standard streams to the port, instead of listening")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, ports := vm.nameFirst(cmd, args)
		pairs, err := attach.PortPairs(ports)
		if err != nil {
			return cli.UsageError{Err: err}
		}
		client, err := vm.dialRunner(cmd, name)
		if err != nil {
			return err
		}
		if stdio {
			return attach.Stdio(cmd, client, pairs[0].Guest)
		}
		return attach.Ports(cmd, client, address, pairs)
	}
	return cmd
}

// nameFirst splits off the NAME, unless the VM is specified by a flag.
func (t *target) nameFirst(cmd *cobra.Command, args []string) (name, rest []string) {
	if t.runtimeDir != "" || cmd.Flags().Changed("config") || len(args) == 0 {
		return nil, args
	}
	return args[:1], args[1:]
}
