package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/internal/cli/plans"
)

func newWhy(f *flags) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use:   "why [NAME] [DEVICE]",
		Short: "Explain a device that the guest shows",
		Long: "Explain where a device comes from that you see in the guest: its field in the\n" +
			"configuration, QEMU's arguments, and the lines of the VM type that created them.\n" +
			"Without DEVICE, list all devices with their names in the guest.\n\n" +
			"DEVICE is a disk (/dev/vdb), network interface (eth1, enp1s0), hardware address, PCI\n" +
			"address as lspci shows it (00:0f.0), serial number, mount point, or id in QEMU.\n\n" +
			"The guest agent reports the names. Without an agent, they are the names that Linux\n" +
			"usually gives.",
		Example: "  vmrunner why web\n  vmrunner why web /dev/vdb\n  vmrunner why web 00:0f.0",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 2 {
				return cli.UsageError{Err: fmt.Errorf("%s takes NAME and DEVICE, got %q", cmd.CommandPath(), args)}
			}
			return nil
		},
	}
	vm := aboutVM(f, cmd)
	cli.OutputFlag(cmd, &form, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		names := min(1, len(args))
		if vm.runtimeDir != "" {
			names = 0
		}
		client, err := vm.dialRunner(cmd, args[:names])
		if err != nil {
			return err
		}
		ctx, cancel := boundRequest(cmd.Context())
		defer cancel()
		report, err := client.Devices(ctx)
		if err != nil {
			return err
		}
		words := args[names:]
		if len(words) > 1 {
			return cli.UsageError{Err: fmt.Errorf("with --runtime-dir, %s takes DEVICE only", cmd.CommandPath())}
		}
		if len(words) == 1 {
			if report.Devices, err = report.Find(words[0]); err != nil {
				return err
			}
		}
		switch {
		case form == "json":
			return cli.PrintValue(cmd.OutOrStdout(), form, report)
		case len(words) == 0:
			return plans.PrintDevices(cmd.OutOrStdout(), report)
		}
		return plans.PrintReasons(cmd.OutOrStdout(), report)
	}
	return cmd
}
