// Package plans prints launch plans, and the devices of a running machine with their lines of the plan.
package plans

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/vmtypes/confinement"
	"vmop/vmtypes/plan"
)

// AddFlags adds the flags for how to print a plan.
func AddFlags(cmd *cobra.Command, form *string, why *bool) {
	cli.OutputFlag(cmd, form, "text", "argv", "shell", "json")
	cmd.Flags().BoolVar(why, "why", false, "with -o text, show the line of the VM type that created each argument")
}

// Print prints a plan in one of the formats of AddFlags.
func Print(w io.Writer, p *plan.Plan, form string, why bool) error {
	text := ""
	switch form {
	case "text":
		text = p.Text()
		if why {
			text = paintPlaces(cli.PaintFor(w).Cyan, p.Why())
		}
	case "argv":
		text = p.Command()
	case "shell":
		text = p.Shell()
	case "json":
		b, err := p.JSON()
		if err != nil {
			return err
		}
		text = string(b)
	}
	_, err := io.WriteString(w, text)
	return err
}

// PrintConfinement prints what processes may use, as text or JSON.
func PrintConfinement(w io.Writer, domains []confinement.Domain, form string, why bool) error {
	var text strings.Builder
	switch form {
	case "text":
		for _, d := range domains {
			text.WriteString(d.Text(why))
		}
	case "json":
		b, err := json.MarshalIndent(domains, "", "  ")
		if err != nil {
			return fmt.Errorf("encode the confinement: %w", err)
		}
		text.Write(append(b, '\n'))
	default:
		return fmt.Errorf("--confinement with -o %s: there is only text and json", form)
	}
	printed := text.String()
	if why && form == "text" {
		printed = paintPlaces(cli.PaintFor(w).Cyan, printed)
	}
	_, err := io.WriteString(w, printed)
	return err
}

// paintPlaces colors the places where arguments were created.
func paintPlaces(color func(string) string, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, _ = strings.CutSuffix(line, "\n")
		if at := strings.LastIndex(line, "# "); at > 0 && line[at-1] == ' ' {
			line = line[:at] + color(line[at:])
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
