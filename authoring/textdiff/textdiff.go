// Package textdiff compares two texts line by line.
package textdiff

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// A Hunk is a place where two texts differ, with up to three lines before and
// after that are the same.
type Hunk struct {
	// Old and New are the lines of the two texts at which it begins, counted
	// from 1.
	Old, New int
	Lines    []Line
}

// A Line of a hunk.
type Line struct {
	// Sign is '-' for a line of the old text, '+' for one of the new text, ' ' for
	// one of both.
	Sign byte
	// Text is without its end.
	Text string
}

// Hunks returns the places where two texts differ, in their order; nil if there
// are none. It is meant for texts of lines that are mostly unique.
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
