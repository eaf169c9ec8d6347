package policy

import (
	"strings"

	"vmop/vmtypes/qemuopt"
)

// matchesPattern reports whether a pattern matches a text. * matches any text without a slash, ** matches any text. A
// pattern that ends in /** also matches the folder itself.
func matchesPattern(pattern, text string) bool {
	if folder, ok := strings.CutSuffix(pattern, "/**"); ok && !strings.Contains(folder, "*") && folder == text {
		return true
	}
	return matchFrom(pattern, text, "/")
}

// matchWord does the same for texts other than paths: * matches any text without a comma. A text with .. could
// lead out of the folder in the pattern, so it only matches an identical pattern.
func matchWord(pattern, text string) bool {
	if pattern != text && (strings.Contains(text, "/../") || strings.HasSuffix(text, "/..")) {
		return false
	}
	return matchFrom(pattern, text, ",")
}

// matchFrom matches a pattern. The bytes in stop end the text for a *. Its time is proportional to the product of
// the lengths.
func matchFrom(pattern, text, stop string) bool {
	// reached[i] means that the processed part of the pattern matches text[:i].
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

// isInert reports whether a value is harmless on the host: a switch, a number or a size. An address contains more
// dots than a number.
func isInert(value string) bool {
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
