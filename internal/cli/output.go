package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"vmop/internal/printable"
)

// OutputFlag adds -o with the formats of a verb; the first is the default.
func OutputFlag(cmd *cobra.Command, form *string, forms ...string) {
	last := len(forms) - 1
	usage := "output `FORMAT`: " + strings.Join(forms[:last], ", ") + " or " + forms[last]
	cmd.Flags().StringVarP(form, "output", "o", forms[0], usage)
	CompleteFlag(cmd, "output", forms...)
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(forms, *form) {
			return UsageError{Err: fmt.Errorf("-o %s: must be one of %s", *form, strings.Join(forms, ", "))}
		}
		if check != nil {
			return check(cmd, args)
		}
		return nil
	}
}

// PrintValue prints a value as json or yaml.
func PrintValue(w io.Writer, form string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	if form == "yaml" {
		if text, err = toYAML(text); err != nil {
			return err
		}
	}
	return WriteLine(w, string(text))
}

// WriteLine writes a text followed by exactly one line end.
func WriteLine(w io.Writer, text string) error {
	_, err := io.WriteString(w, strings.TrimSuffix(text, "\n")+"\n")
	return err
}

// Table prints rows in columns; the first row contains the column names.
func Table(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = Printable(cell)
		}
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush()
}

// Printable turns a text into one line and replaces characters that could affect the terminal, because some texts
// come from the guest.
func Printable(s string) string {
	return printable.Line(strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "; "))
}
