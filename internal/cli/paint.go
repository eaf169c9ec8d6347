package cli

import (
	"io"
	"os"

	"golang.org/x/term"
)

// A Paint colors output for people; the zero value doesn't color.
type Paint struct{ on bool }

// PaintFor returns a Paint that colors if w is a terminal and the environment lacks NO_COLOR (no-color.org).
func PaintFor(w io.Writer) Paint {
	file, ok := w.(*os.File)
	return Paint{on: ok && term.IsTerminal(int(file.Fd())) && os.Getenv("NO_COLOR") == ""}
}

// Bold is for headings.
func (p Paint) Bold(text string) string { return p.wrapCode("1", text) }

// Faint is for details.
func (p Paint) Faint(text string) string { return p.wrapCode("2", text) }

// Underlined is for differences within a line.
func (p Paint) Underlined(text string) string {
	if !p.on {
		return text
	}
	return "\x1b[4m" + text + "\x1b[24m" // keeps the color
}

// Red is for errors and removed lines.
func (p Paint) Red(text string) string { return p.wrapCode("31", text) }

// Green is for success and added lines.
func (p Paint) Green(text string) string { return p.wrapCode("32", text) }

// Yellow is for warnings.
func (p Paint) Yellow(text string) string { return p.wrapCode("33", text) }

// Cyan is for places in files.
func (p Paint) Cyan(text string) string { return p.wrapCode("36", text) }

// wrapCode encloses a text in terminal control sequences (ECMA-48, SGR).
func (p Paint) wrapCode(code, text string) string {
	if !p.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
