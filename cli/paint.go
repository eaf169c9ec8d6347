package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// A Paint colours output for people; the zero value doesn't.
type Paint struct{ on bool }

// PaintFor returns a Paint that colours if w is a terminal, and unless the
// environment has NO_COLOR (no-color.org).
func PaintFor(w io.Writer) Paint {
	file, ok := w.(*os.File)
	return Paint{on: ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == ""}
}

// Bold is for headings.
func (p Paint) Bold(text string) string { return p.with("1", text) }

// Faint is for details.
func (p Paint) Faint(text string) string { return p.with("2", text) }

// Underlined is for what differs within a line.
func (p Paint) Underlined(text string) string {
	if !p.on {
		return text
	}
	return "\x1b[4m" + text + "\x1b[24m" // which keeps the colour
}

// Red is for errors, and what is removed.
func (p Paint) Red(text string) string { return p.with("31", text) }

// Green is for success, and what is added.
func (p Paint) Green(text string) string { return p.with("32", text) }

// Yellow is for warnings.
func (p Paint) Yellow(text string) string { return p.with("33", text) }

// Cyan is for places in files.
func (p Paint) Cyan(text string) string { return p.with("36", text) }

// with puts a text between the control sequences of a terminal (ECMA-48, SGR).
func (p Paint) with(code, text string) string {
	if !p.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
