package spelling

import "strings"

// Nearest returns the candidate that a misspelled word most likely means, or "" if no candidate is near. A candidate
// is near if it differs only in case and separators, or by at most one edit per four letters (Damerau-Levenshtein,
// where swapping two letters is one edit).
func Nearest(word string, candidates []string) string {
	if len(word) > 64 {
		return ""
	}
	best, least := "", 1+(len(word)+2)/4
	for _, candidate := range candidates {
		distance := countEdits(foldSpelling(word), foldSpelling(candidate))
		if distance < least || distance == 0 {
			best, least = candidate, distance
		}
	}
	return best
}

// foldSpelling removes accidental differences: case and separators.
func foldSpelling(s string) string {
	return strings.NewReplacer("-", "", "_", "", " ", "").Replace(strings.ToLower(s))
}

// countEdits counts the insertions, deletions, replacements and swaps of neighboring letters that turn a into b.
func countEdits(a, b string) int {
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

// DidYouMean returns a question about the keys that may be meant in the mapping at path: their names if they are all in
// that mapping, otherwise their paths. It returns "" without keys.
func DidYouMean(path string, keys ...string) string {
	if len(keys) == 0 {
		return ""
	}
	names := make([]string, len(keys))
	for i, key := range keys {
		name, beside := strings.CutPrefix(key, path+".")
		if !beside || strings.Contains(name, ".") {
			return "did you mean " + strings.Join(keys, " or ") + "?"
		}
		names[i] = name
	}
	return "did you mean " + strings.Join(names, " or ") + "?"
}
