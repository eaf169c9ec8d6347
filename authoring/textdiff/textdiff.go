// Package textdiff compares two texts line by line. [Hunks] returns the places where the texts differ, with some equal
// lines around them. The tests of VM types and the commands "vmrunner vmtype fmt" and "render" use it to show
// differences.
package textdiff

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// A Hunk is a place where two texts differ, with up to three equal lines before and after it.
type Hunk struct {
	// Old and New are the line numbers in the two texts where the hunk begins, counted from 1.
	Old, New int
	Lines    []Line
}

// A Line is a line of a hunk.
type Line struct {
	// Sign is '-' for a line of the old text, '+' for a line of the new text, ' ' for a line of both texts.
	Sign byte
	// Text is the line without its line end.
	Text string
}

// Hunks returns the places where two texts differ, in order; nil if the texts are equal. It is designed for texts with
// mostly unique lines.
func Hunks(before, after string) []Hunk {
	var hunks []Hunk
	text := diff.Diff("before", []byte(endLastLine(before)), "after", []byte(endLastLine(after)))
	for line := range bytes.Lines(text) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		var h Hunk
		var count int
		if bytes.HasPrefix(line, []byte("@@ ")) {
			if _, err := fmt.Sscanf(string(line), "@@ -%d,%d +%d,", &h.Old, &count, &h.New); err == nil {
				hunks = append(hunks, h)
			}
			continue
		}
		if len(hunks) > 0 && len(line) > 0 {
			last := &hunks[len(hunks)-1]
			last.Lines = append(last.Lines, Line{Sign: line[0], Text: string(line[1:])})
		}
	}
	return hunks
}

// endLastLine ends the last line of a text.
func endLastLine(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
