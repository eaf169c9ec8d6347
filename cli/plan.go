package cli

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"vmop/vmtypes/plan"
)

// PlanFlags adds the flags for how a plan is printed.
func PlanFlags(cmd *cobra.Command, form *string, why *bool) {
	OutputFlag(cmd, form, "text", "argv", "shell", "json")
	cmd.Flags().BoolVar(why, "why", false, "show where each argument was made")
}

// PrintPlan prints a plan in one of the formats of PlanFlags.
func PrintPlan(w io.Writer, p *plan.Plan, form string, why bool) error {
	text := ""
	switch form {
	case "text":
		text = p.Text()
		if why {
			text = placesPainted(PaintFor(w), p.Why())
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

// placesPainted colours the places at which arguments were made.
func placesPainted(paint Paint, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		line, _ = strings.CutSuffix(line, "\n")
		if at := strings.LastIndex(line, "# "); at > 0 && line[at-1] == ' ' {
			line = line[:at] + paint.Cyan(line[at:])
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}
