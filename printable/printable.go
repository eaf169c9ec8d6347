// Package printable makes text that is not ours fit to be shown: in a log, on a
// terminal, in a status, an event or an error message.
//
// It is a rule of security. A guest, a viewer, QEMU and its helpers, a VM type, the
// author of a file, and whoever may write an object of the cluster can put into a
// text what a terminal obeys: escape sequences that change its title or its keys, a
// carriage return that hides the beginning of a line, and characters that reverse
// the direction of the text (https://trojansource.codes). Such text passes [Line] or
// [Text] where it enters the program, or at the latest where it is shown. What only
// programs read, JSON for example, need not.
//
// What is no graphic character (unicode.IsPrint) becomes U+FFFD, �, one for one; so
// does a byte that is not UTF-8. There is one replacement, so that who sees it knows
// what it means; this one is no character that anybody writes, which '?' is; it is
// as wide as what it replaces, so that a caret below a line stays at its place and
// limits hold, which escapes are not; and it leaves a trace, which dropping does not.
// See docs/decisions/0047-printable.md.
package printable

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns s with what is not printable replaced. Line breaks and tabs stay.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		return graphic(r)
	}, s)
}

// Line is Text for one line: each line break and tab becomes a blank.
func Line(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return graphic(r)
	}, s)
}

// graphic returns the character, or U+FFFD in its place. A byte that is not UTF-8
// arrives as U+FFFD.
func graphic(r rune) rune {
	if !unicode.IsPrint(r) {
		return utf8.RuneError
	}
	return r
}

// Clip returns s if it has at most so many characters, at least one; else its
// beginning with an ellipsis as the last of that many. What it takes does not depend
// on the length of s.
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
