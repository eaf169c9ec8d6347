package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/runner/hardware"
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
			return printDevices(cmd.OutOrStdout(), report)
		}
		return printReasons(cmd.OutOrStdout(), report)
	}
	return cmd
}

// usualNames is the note below names that no agent has reported.
const usualNames = "The guest agent does not answer. The names are those that Linux usually gives."

// printDevices prints a table of all devices.
func printDevices(w io.Writer, r hardware.Report) error {
	rows := [][]string{{"GUEST", "PCI", "DEVICE", "ID", "CONFIGURATION"}}
	for _, d := range r.Devices {
		names := strings.Join(slices.Concat(d.Names, d.Mounts), " ")
		rows = append(rows, []string{
			orDash(names), orDash(shortPCI(d.PCI)), orDash(d.Driver), orDash(d.ID), orDash(d.Field),
		})
	}
	if err := cli.Table(w, rows); err != nil || r.Agent {
		return err
	}
	return cli.WriteLine(w, usualNames)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// shortPCI returns an address as lspci shows it.
func shortPCI(address string) string { return strings.TrimPrefix(address, "0000:") }

// printReasons prints where devices come from.
func printReasons(w io.Writer, r hardware.Report) error {
	var b strings.Builder
	paint := cli.PaintFor(w)
	for i, d := range r.Devices {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(paint.Bold(cli.Printable(d.Label())) + "\n")
		source := d.Place
		if source != "" {
			source = " at " + source
		}
		attached := ""
		if d.Attached {
			attached = "while the guest was running"
		}
		for _, row := range [][2]string{
			{"names in the guest", strings.Join(d.Names, ", ")},
			{"mounted at", strings.Join(d.Mounts, ", ")},
			{"PCI address", shortPCI(d.PCI)},
			{"behind", d.Behind},
			{"serial number", d.Serial},
			{"hardware address", d.MAC},
			{"device", strings.TrimSpace(d.Driver + " " + d.ID)},
			{"attached", attached},
			{"configuration", d.Field + source},
		} {
			if row[1] != "" {
				fmt.Fprintf(&b, "  %-20s%s\n", row[0], cli.Printable(row[1]))
			}
		}
		for _, l := range d.Lines {
			b.WriteString("  " + cli.Printable(l.Text) + "\n")
			if l.Origin != "" {
				b.WriteString("    " + paint.Cyan("# "+cli.Printable(l.Origin)) + "\n")
			}
		}
	}
	if !r.Agent {
		b.WriteString("\n" + usualNames + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
