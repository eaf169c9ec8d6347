package vmtypes

import (
	"regexp/syntax"
	"slices"
	"strings"
)

// exampleText returns an allowed string, or "text" if it finds no example.
func (a *Attr) exampleText() string {
	const usual = "text"
	candidates := []string{usual}
	if parsed, err := syntax.Parse(a.Pattern, syntax.Perl); a.Pattern != "" && err == nil {
		for most := range 3 { // repetitions where the pattern leaves the number open
			candidates = append(candidates, matchingText(parsed.Simplify(), most))
		}
	}
	if a.MinLength != nil && *a.MinLength > 0 && *a.MinLength <= longestText {
		candidates = append(candidates, strings.Repeat("x", int(*a.MinLength)))
	}
	if a.MaxLength != nil && *a.MaxLength < int64(len(usual)) {
		candidates = append(candidates, usual[:*a.MaxLength])
	}
	allowed := func(text string) bool {
		_, message, _ := readText(text)
		wrong, _ := a.wrongText(text)
		return message == "" && wrong == ""
	}
	if at := slices.IndexFunc(candidates, allowed); at >= 0 {
		return candidates[at]
	}
	return usual
}

// matchingText returns a string that probably matches a simplified pattern. The number most determines how often a
// part with an open number of repetitions occurs, but a part that must occur does so at least once.
func matchingText(re *syntax.Regexp, most int) string {
	var b strings.Builder
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		if len(re.Rune) > 0 {
			return string(shownRune(re.Rune))
		}
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "x"
	case syntax.OpAlternate:
		return matchingText(re.Sub[0], most)
	case syntax.OpPlus:
		return strings.Repeat(matchingText(re.Sub[0], most), max(1, most))
	case syntax.OpStar, syntax.OpQuest:
		return strings.Repeat(matchingText(re.Sub[0], most), most)
	case syntax.OpCapture, syntax.OpConcat:
		for _, sub := range re.Sub {
			b.WriteString(matchingText(sub, most))
		}
	}
	return b.String()
}

// shownRune returns a character of a class, preferably a letter or a digit. The class consists of pairs of bounds.
func shownRune(bounds []rune) rune {
	for _, r := range "aA0x1-" {
		for i := 0; i+1 < len(bounds); i += 2 {
			if bounds[i] <= r && r <= bounds[i+1] {
				return r
			}
		}
	}
	return bounds[0]
}
