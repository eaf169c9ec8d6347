package vmtypes

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"go.starlark.net/starlark"

	"vmop/vmspec"
)

// wrongText returns an error message and a hint if the pattern or the length excludes a text, otherwise "".
func (a *Attr) wrongText(text string) (message, hint string) {
	if message := a.wrongCount(utf8.RuneCountInString(text), "characters"); message != "" {
		return message, a.counts("characters")
	}
	if a.Pattern == "" || a.matchesPattern(text) {
		return "", ""
	}
	if a.Like != "" {
		return "must be like " + strconv.Quote(a.Like) + ", not " + strconv.Quote(clipWord(text)), firstSentence(a.Doc)
	}
	return strconv.Quote(clipWord(text)) + " does not match the pattern " + a.Pattern, firstSentence(a.Doc)
}

// wrongCount returns an error message if a text has too few or too many characters, or a list too few or many items.
func (a *Attr) wrongCount(n int, counted string) string {
	if a.MinLength != nil && int64(n) < *a.MinLength || a.MaxLength != nil && int64(n) > *a.MaxLength {
		return "has " + countWords(int64(n), counted)
	}
	return ""
}

// counts returns the allowed numbers of characters or items: "at least 1 item", "8 to 64 characters"; "" without a
// limit.
func (a *Attr) counts(counted string) string {
	least, most := a.MinLength, a.MaxLength
	switch {
	case least != nil && most != nil && *least == *most:
		return "exactly " + countWords(*least, counted)
	case least != nil && most != nil:
		return fmt.Sprintf("%d to %s", *least, countWords(*most, counted))
	case least != nil:
		return "at least " + countWords(*least, counted)
	case most != nil:
		return "at most " + countWords(*most, counted)
	}
	return ""
}

// countWords returns a number with the counted things: "1 item", "2 items".
func countWords(n int64, counted string) string {
	if n == 1 {
		counted = counted[:len(counted)-1]
	}
	return strconv.FormatInt(n, 10) + " " + counted
}

// repeatedItems returns an error for each item that is equal to an earlier item. given contains the items in the
// notation of the configuration, and seen the values that the module sees: a number may have several notations.
func repeatedItems(path string, given []any, seen starlark.Tuple) (faults []vmspec.Fault) {
	first := map[string]int{}
	for i, v := range seen {
		if v == starlark.None { // it has another error
			continue
		}
		key := v.String()
		if text, err := json.Marshal(given[i]); err == nil && !isScalar(v) {
			key = string(text)
		}
		if j, repeated := first[key]; repeated {
			faults = append(faults, vmspec.Fault{
				Path: path + "[" + strconv.Itoa(i) + "]", Message: fmt.Sprintf("is the same as [%d]", j),
				Hint: "each item only once",
			})
			continue
		}
		first[key] = i
	}
	return faults
}

// isScalar reports whether a value is a string, a bool or an integer.
func isScalar(v starlark.Value) bool {
	switch v.(type) {
	case starlark.String, starlark.Bool, starlark.Int:
		return true
	}
	return false
}
