package plans

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"vmop/internal/cli"
	"vmop/runner/hardware"
)

// usualNames is the note below names that no agent has reported.
const usualNames = "The guest agent does not answer. The names are those that Linux usually gives."

// PrintDevices prints a table of the devices of a machine.
func PrintDevices(w io.Writer, r hardware.Report) error {
	rows := [][]string{{"GUEST", "PCI", "DEVICE", "ID", "CONFIGURATION"}}
	for _, d := range r.Devices {
		names := strings.Join(slices.Concat(d.Names, d.Mounts), " ")
		rows = append(rows, []string{
			cmp.Or(names, "-"), cmp.Or(hardware.ShortPCI(d.PCI), "-"), cmp.Or(d.Driver, "-"), cmp.Or(d.ID, "-"),
			cmp.Or(d.Field, "-"),
		})
	}
	if err := cli.Table(w, rows); err != nil || r.Agent {
		return err
	}
	return cli.WriteLine(w, usualNames)
}

// PrintReasons prints where devices come from: their fields of the configuration, and the lines of the VM type.
func PrintReasons(w io.Writer, r hardware.Report) error {
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
			{"PCI address", hardware.ShortPCI(d.PCI)},
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
