package vmtypes

import (
	"fmt"
	"strings"
)

// Bounds of what an error quotes: a module may make messages as long as it
// likes.
const (
	longestMessage = 2000
	widestExcerpt  = 160
	mostCalls      = 20
	mostErrors     = 50
)

// clip bounds a message.
func clip(s string) string {
	if len(s) <= longestMessage {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:longestMessage], ""), len(s))
}

// excerpt returns the part of a long line that is around the caret, and how many
// blanks are before that.
func excerpt(line string, blanks int) (part string, before int) {
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
