package decide

import "strings"

// MaxMessage bounds messages, in bytes; the CRD refuses more than 8192 characters.
const MaxMessage = 4096

// Readable makes a text printable that was written by another program, in one line of at
// most MaxMessage bytes.
func Readable(text string) string {
	clean := strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return ' '
		case r < ' ', r == 0x7f, r == '\uFFFD':
			return -1
		}
		return r
	}, strings.TrimSpace(text))
	return Shorten(clean, MaxMessage)
}

// Shorten cuts a text after at most so many bytes, between characters.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && text[limit]&0xC0 == 0x80 {
		limit--
	}
	return text[:limit] + "…"
}
