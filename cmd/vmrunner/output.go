package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"
)

// outputFlag adds -o with the forms a verb knows; the first is the default.
func outputFlag(cmd *cobra.Command, form *string, forms ...string) {
	cmd.Flags().StringVarP(form, "output", "o", forms[0], strings.Join(forms, ", "))
	completeFlag(cmd, "output", forms...)
	check := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(forms, *form) {
			return usageError{fmt.Errorf("-o %s: want %s", *form, strings.Join(forms, ", "))}
		}
		if check != nil {
			return check(cmd, args)
		}
		return nil
	}
}

// printValue prints a value for programs: as json or yaml.
func printValue(w io.Writer, form string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	if form == "yaml" {
		if text, err = toYAML(text); err != nil {
			return err
		}
	}
	return writeLine(w, string(text))
}

// writeLine writes a text that ends with one line end.
func writeLine(w io.Writer, text string) error {
	_, err := io.WriteString(w, strings.TrimSuffix(text, "\n")+"\n")
	return err
}

// table prints rows in columns, the first as their names.
func table(w io.Writer, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = printable(cell)
		}
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush()
}

// printable replaces what could change the terminal: some of it is the guest's
// word.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// or returns the first text that is not empty.
func or(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// age returns a duration in one or two units: "45s", "3m20s", "5h", "12d".
func age(d time.Duration) string {
	seconds := int(max(d, 0).Seconds())
	switch {
	case seconds < 120:
		return fmt.Sprintf("%ds", seconds)
	case seconds < 600:
		return fmt.Sprintf("%dm%ds", seconds/60, seconds%60)
	case seconds < 3*3600:
		return fmt.Sprintf("%dm", seconds/60)
	case seconds < 48*3600:
		return fmt.Sprintf("%dh", seconds/3600)
	}
	return fmt.Sprintf("%dd", seconds/(24*3600))
}
