package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"vmop/internal/printable"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// A Use is a plan, with the VM and the type that it is for.
type Use struct {
	Plan    *plan.Plan
	Subject Subject
}

// An addition is a word in a list of a rule. text describes the first thing that needs it; use is the number of its
// plan.
type addition struct {
	list, word string
	helper     *plan.Process // with list "helpers", unless word is "stock"
	text       string
	use        int
}

// Suggest returns a rule that allows the plans, as an item of the list rules of a policy, and the place of the rule
// that it replaces; "" if the rule is new. All uses must have the same Subject.Folder. The rule is the policy's rule
// for the folder with the missing words; a new rule begins with "stock" in each list. A comment before each new word
// names the option that needs it and its line in the type. Without any of the new words, the rule denies a plan.
//
// An option that no list can allow is in the list exact. If a plan does something that no rule can allow, the error is
// an *Error. added is the number of new words.
func (p *Policy) Suggest(uses []Use) (text, replaces string, added int, err error) {
	s := &suggestion{uses: uses, folder: uses[0].Subject.Folder}
	if p != nil {
		if rule, number := p.ruleFor(s.folder); rule != nil {
			s.base, replaces = *rule, p.locationOf(fmt.Sprintf("rules[%d]", number))
		}
	}
	if replaces == "" {
		s.base.Types = []string{s.folder}
		for _, list := range listNames() {
			if len(stockWords(list)) > 0 {
				s.added = append(s.added, addition{list: list, word: Stock})
			}
		}
	}
	if err := s.completeRule(); err != nil {
		return "", "", 0, err
	}
	s.minimize()
	return s.String(), replaces, len(s.added), nil
}

// listNames returns the keys of a rule with words, in the order of the documentation.
func listNames() []string {
	return []string{
		"flags", "devices", "backends", "read", "write", "programs", "helpers", "environment", "networks", "listen",
		"options", "exact",
	}
}

// suggestion is a rule that grows until it allows all uses.
type suggestion struct {
	uses   []Use
	folder string
	base   Rule // without the additions
	added  []addition
}

// completeRule adds words until the rule allows all uses.
func (s *suggestion) completeRule() error {
	for number := range s.uses {
		for {
			violations := s.violations(number)
			if violations == nil {
				break
			}
			if !s.addFor(number, violations) {
				return &Error{Type: s.uses[number].Plan.Type, Violations: violations}
			}
		}
	}
	return nil
}

// violations returns what the rule denies of a use.
func (s *suggestion) violations(use int) []Violation {
	u := s.uses[use]
	u.Subject.Sample = true // the places of the VM's directories are not part of a rule
	p := &Policy{Rules: []Rule{s.grownRule()}, file: "the suggested rule", line: func(string) int { return 1 }}
	p.Rules[0].Types = []string{s.folder}
	var denied *Error
	if errors.As(p.Check(u.Plan, u.Subject), &denied) {
		return denied.Violations
	}
	return nil
}

// addFor adds the words that the violations of a use need. It reports whether it added any.
func (s *suggestion) addFor(use int, violations []Violation) bool {
	whole := map[*plan.Option]bool{} // options that only exact can allow
	for _, v := range violations {
		if v.option != nil && (v.word == "" || s.has(v.list, v.word, nil)) {
			whole[v.option] = true
		}
	}
	before := len(s.added)
	for _, v := range violations {
		a := addition{list: v.list, word: v.word, helper: v.helper, use: use, text: v.describeNeed()}
		if v.option != nil && whole[v.option] {
			a.list, a.word = "exact", exactPattern(v.option)
		}
		if a.word != "" && !s.has(a.list, a.word, a.helper) {
			s.added = append(s.added, a)
		}
	}
	return len(s.added) > before
}

// has reports whether a word was added.
func (s *suggestion) has(list, word string, helper *plan.Process) bool {
	return slices.ContainsFunc(s.added, func(a addition) bool {
		return a.list == list && a.word == word &&
			(helper == nil || a.helper != nil && slices.Equal(helper.Argv(), a.helper.Argv()))
	})
}

// describeNeed returns the line of the type, and the denied thing.
func (v Violation) describeNeed() string {
	text := v.What
	if v.list == "options" {
		text = "vm.options." + v.word + " in the configuration"
	}
	if len(v.Origin) > 0 {
		text = v.Origin[0].String() + ": " + text
	}
	return printable.Line(printable.Clip(text, 200))
}

// exactPattern returns the pattern of the list exact for an option. A comma in a property separates the properties of a
// pattern, so a * takes its place.
func exactPattern(o *plan.Option) string {
	flag := "-" + strings.TrimLeft(o.Flag, "-")
	if !o.List {
		return strings.TrimSuffix(flag+" "+o.Value, " ")
	}
	var words []string
	if o.Value != "" {
		words = append(words, strings.ReplaceAll(o.Value, ",", "*"))
	}
	for _, p := range o.Properties {
		if p.Descriptor == "" {
			words = append(words, p.Key+"="+strings.ReplaceAll(p.Value, ",", "*"))
		}
	}
	return flag + " " + strings.Join(words, ",")
}

// minimize removes the unnecessary additions: the rule still allows all uses.
func (s *suggestion) minimize() {
	for i := 0; i < len(s.added); {
		all := s.added
		s.added = slices.Delete(slices.Clone(all), i, i+1)
		if s.allowsAll(all[i].use) {
			continue
		}
		s.added = all
		i++
	}
}

// allowsAll reports whether the rule allows all uses. It begins with the use that probably needs more.
func (s *suggestion) allowsAll(first int) bool {
	if s.violations(first) != nil {
		return false
	}
	for number := range s.uses {
		if number != first && s.violations(number) != nil {
			return false
		}
	}
	return true
}

// grownRule returns the rule with the additions.
func (s *suggestion) grownRule() Rule {
	r := s.base
	for _, a := range s.added {
		switch a.list {
		case "helpers":
			h := Helper{Program: a.word}
			if a.helper != nil {
				h.Arguments = slices.Compact(slices.Sorted(slices.Values(a.helper.Argv())))
			}
			r.Helpers = append(slices.Clone(r.Helpers), h)
		case "unsandboxed":
			r.Unsandboxed = true
		default:
			words := r.listOf(a.list)
			*words = append(slices.Clone(*words), a.word)
		}
	}
	return r
}

// String returns the rule as YAML.
func (s *suggestion) String() string {
	r := s.grownRule()
	var b strings.Builder
	fmt.Fprintf(&b, "  - types: [%s]\n", quoteAll(r.Types))
	if len(r.SignedBy) > 0 {
		b.WriteString("    signedBy:\n")
	}
	for _, key := range r.SignedBy {
		b.WriteString("      - |\n")
		for line := range strings.Lines(strings.TrimSpace(key)) {
			b.WriteString("        " + strings.TrimSpace(line) + "\n")
		}
	}
	for _, list := range listNames() {
		words := r.wordsOf(list)
		if len(words) == 0 {
			continue
		}
		fmt.Fprintf(&b, "    %s:\n", list)
		added := slices.DeleteFunc(slices.Clone(s.added), func(a addition) bool { return a.list != list })
		for i, word := range words {
			if n := i - (len(words) - len(added)); n >= 0 && added[n].text != "" {
				fmt.Fprintf(&b, "      # %s\n", added[n].text)
			}
			if list != "helpers" {
				fmt.Fprintf(&b, "      - %s\n", quoteWord(word))
				continue
			}
			fmt.Fprintf(&b, "      - program: %s\n", quoteWord(word))
			if arguments := r.Helpers[i].Arguments; len(arguments) > 0 {
				fmt.Fprintf(&b, "        arguments: [%s]\n", quoteAll(arguments))
			}
		}
	}
	if r.Unsandboxed {
		for _, a := range s.added {
			if a.list == "unsandboxed" {
				fmt.Fprintf(&b, "    # %s\n", cmp.Or(a.text, "QEMU"))
			}
		}
		b.WriteString("    unsandboxed: true\n")
	}
	return b.String()
}

// wordsOf returns a list of the rule as written; for helpers, their programs.
func (r *Rule) wordsOf(key string) []string {
	if key != "helpers" {
		return *r.listOf(key)
	}
	var programs []string
	for _, h := range r.Helpers {
		programs = append(programs, h.Program)
	}
	return programs
}

func quoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = quoteWord(word)
	}
	return strings.Join(quoted, ", ")
}

// quoteWord returns a word for a YAML file, in quotes if it could be read as something else. In a flow list, a comma
// ends a word.
func quoteWord(word string) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-"
	plain := word != "" && strings.Trim(word, letters+" *") == "" && strings.Contains(letters, word[:1]) &&
		!strings.HasSuffix(word, " ") && !strings.HasPrefix(word, "- ")
	if _, isSwitch := qemuopt.Bool(word); plain && !isSwitch && !isInert(word) && len(word) > 1 && word != "null" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", "''") + "'"
}
