package vmtypes

import (
	"fmt"
	"strings"
)

// Limits of quotations in errors: a module can produce messages of any length.
const (
	longestMessage = 2000
	widestExcerpt  = 160
	mostCalls      = 20
	mostErrors     = 50
)

// clipMessage truncates a long message.
func clipMessage(s string) string {
	if len(s) <= longestMessage {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:longestMessage], ""), len(s))
}

// excerptAround returns the part of a long line around the caret, and the number of characters before the caret.
func excerptAround(line string, blanks int) (part string, before int) {
	runes := []rune(line)
	blanks = max(0, min(blanks, len(runes)))
	if len(runes) <= widestExcerpt {
		return line, blanks
	}
	if blanks > widestExcerpt*3/4 {
		cut := min(blanks-widestExcerpt/2, len(runes))
		runes, blanks = append([]rune("…"), runes[cut:]...), blanks-cut+1
	}
	if len(runes) > widestExcerpt {
		runes = append(runes[:widestExcerpt:widestExcerpt], '…')
	}
	return string(runes), blanks
}
