// Package measure contains common functions of the measuring programs test/bench and test/scale.
package measure

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

// Program returns the absolute path of a program to measure. If it doesn't exist, the error explains how to build it.
func Program(path string) (string, error) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", path, err)
	}
	if _, err := exec.LookPath(absolute); err != nil {
		return "", fmt.Errorf("%w; make build builds it", err)
	}
	return absolute, nil
}

// Load returns the machine's load average of the last minute, or "" if unknown.
func Load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	one, _, _ := strings.Cut(string(text), " ")
	return one
}

// WriteJSON writes a report to a file, unless the path is "".
func WriteJSON(path string, report any) error {
	if path == "" {
		return nil
	}
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Table writes rows of cells as Markdown with aligned columns. The first row is the head, the second row contains "---"
// and "---:".
func Table(to io.Writer, rows [][]string) {
	w := tabwriter.NewWriter(to, 0, 0, 1, ' ', 0)
	for _, cells := range rows {
		fmt.Fprintln(w, "| "+strings.Join(cells, "\t| ")+"\t|")
	}
	_ = w.Flush() // writes to memory don't fail
}
