// Package printable makes text from elsewhere safe to show: in a log, on a terminal, in a status, an event or an
// error message.
//
// It is a security measure. Texts come from a guest, a viewer, QEMU and its helpers, a VM type, the author of a
// file, and everyone who can write an object of the cluster. Such texts can control a terminal: escape sequences
// change its title or its keys, a carriage return hides the beginning of a line, and some characters reverse the
// direction of the text (https://trojansource.codes). They pass [Line] or [Text] where they enter the program, or at
// the latest where they are shown. Text that only programs read, such as JSON, need not.
//
// Each character that isn't printable (unicode.IsPrint), and each byte that isn't UTF-8, becomes one U+FFFD, �.
// There are four reasons for this replacement:
//
//   - It is the only replacement, so readers know what it means.
//   - People never write it, unlike '?'.
//   - It is as wide as the original, so a caret below a line stays in place and limits hold, unlike with escapes.
//   - It leaves a trace, unlike dropping the character.
//
// See docs/decisions/0047-printable.md.
package printable

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text replaces the unprintable characters in s. It keeps line breaks and tabs.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return graphicOf(r)
	}, s)
}

// Line is like Text, but replaces each line break and tab with a blank.
func Line(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return graphicOf(r)
	}, s)
}

// graphicOf returns the character, or U+FFFD if it isn't printable. A byte that isn't UTF-8 arrives as U+FFFD.
func graphicOf(r rune) rune {
	if !unicode.IsPrint(r) {
		return utf8.RuneError
	}
	return r
}

// Clip returns s if it has at most the given number of characters, which must be at least one. Otherwise it returns
// the beginning of s with an ellipsis as its last character. The cost doesn't depend on the length of s.
func Clip(s string, most int) string {
	n, before := 0, 0 // characters so far, and where the last of them begins
	for i := range s {
		if n++; n > most {
			return s[:before] + "…"
		}
		before = i
	}
	return s
}
