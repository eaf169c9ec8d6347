package spelling

import "strings"

// Nearest returns the candidate that a misspelt word most likely means, or ""
// if none is near: the same letters in other case or with other separators, or
// at most one edit in four letters away (Damerau-Levenshtein, so that swapped
// letters are one edit).
func Nearest(word string, candidates []string) string {
	if len(word) > 64 {
		return ""
	}
	best, least := "", 1+(len(word)+2)/4
	for _, candidate := range candidates {
		distance := edits(fold(word), fold(candidate))
		if distance < least || distance == 0 {
			best, least = candidate, distance
		}
	}
	return best
}

// fold drops what people vary without meaning it.
func fold(s string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s))
}

// edits counts the insertions, deletions, replacements and swaps of neighbours
// that turn a into b.
func edits(a, b string) int {
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := above[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(above[j]+1, row[j-1]+1, replace)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
