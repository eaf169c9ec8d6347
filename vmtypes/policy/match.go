package policy

import (
	"strings"

	"vmop/vmtypes/qemuopt"
)

// match reports whether a text is what a pattern allows: * stands for any text
// without a slash, ** for any text. A pattern that ends in /** matches the folder
// itself as well.
func match(pattern, text string) bool {
	if folder, ok := strings.CutSuffix(pattern, "/**"); ok && !strings.Contains(folder, "*") && folder == text {
		return true
	}
	return matchFrom(pattern, text, "/")
}

// matchWord is match for what is not a path: * stands for any text without a comma.
// Text with .. in it could lead out of the folder that a pattern names.
func matchWord(pattern, text string) bool {
	if pattern != text && (strings.Contains(text, "/../") || strings.HasSuffix(text, "/..")) {
		return false
	}
	return matchFrom(pattern, text, ",")
}

// matchFrom matches with a * that doesn't stand for text with any of the bytes in
// stop. It takes time in proportion to the product of the lengths.
func matchFrom(pattern, text, stop string) bool {
	// reached[i] says that the pattern so far matches text[:i].
	reached := make([]bool, len(text)+1)
	reached[0] = true
	for pattern != "" {
		next := make([]bool, len(text)+1)
		switch {
		case strings.HasPrefix(pattern, "**"):
			pattern = strings.TrimLeft(pattern, "*")
			open := false
			for i := range next {
				open = open || reached[i]
				next[i] = open
			}
		case pattern[0] == '*':
			pattern = pattern[1:]
			open := false
			for i := range next {
				if i > 0 && strings.IndexByte(stop, text[i-1]) >= 0 {
					open = false
				}
				open = open || reached[i]
				next[i] = open
			}
		default:
			for i := range len(text) {
				next[i+1] = reached[i] && text[i] == pattern[0]
			}
			pattern = pattern[1:]
		}
		reached = next
	}
	return reached[len(text)]
}

// inert reports whether a value can name nothing on the host: a switch, a number or
// a size. An address has more dots than a number.
func inert(value string) bool {
	if _, isSwitch := qemuopt.Bool(value); isSwitch || value == "auto" || value == "" {
		return true
	}
	value = strings.TrimPrefix(value, "-")
	if hex, ok := strings.CutPrefix(value, "0x"); ok {
		return hex != "" && strings.Trim(hex, "0123456789abcdefABCDEF") == ""
	}
	number := strings.TrimRight(value, "kKmMgGtTpPeEiB")
	return number != "" && number[0] >= '0' && number[0] <= '9' && strings.Trim(number, "0123456789.") == "" &&
		strings.Count(number, ".") <= 1
}
