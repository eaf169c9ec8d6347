package compare

import (
	"slices"
	"strings"
)

// A Result is the list of changes for one VM.
type Result struct {
	// VM is the name of the VM, such as the name of a sample.
	VM      string   `json:"vm"`
	Changes []Change `json:"changes"`
}

// A Group contains equal changes of several options or several VMs.
type Group struct {
	// Change is the first change of the group.
	Change
	// Members are the changes, without duplicates of the same text.
	Members []Change
	// VMs are the affected VMs.
	VMs []string
}

// Summarize combines the changes of many results. Changes belong to the same group if they have the same meaning and
// the same property, and if the names of their subjects only differ in numbers. The most severe groups come first.
func Summarize(results []Result) []Group {
	var groups []Group
	at := map[string]int{}
	for _, r := range results {
		for _, c := range r.Changes {
			key := strings.Join([]string{string(c.Meaning), withoutNumbers(c.Subject), c.Property, c.Note}, "\x00")
			if c.Meaning.Explain().Level == Fails {
				key += c.New
			}
			i, known := at[key]
			if !known {
				i = len(groups)
				at[key] = i
				groups = append(groups, Group{Change: c})
			}
			g := &groups[i]
			g.Live = g.Live && c.Live
			if !slices.ContainsFunc(g.Members, func(m Change) bool { return m.Text() == c.Text() }) {
				g.Members = append(g.Members, c)
			}
			if !slices.Contains(g.VMs, r.VM) {
				g.VMs = append(g.VMs, r.VM)
			}
		}
	}
	rank := map[Meaning]int{}
	for i, m := range Meanings() {
		rank[m] = i
	}
	slices.SortStableFunc(groups, func(a, b Group) int { return rank[a.Meaning] - rank[b.Meaning] })
	return groups
}

// withoutNumbers returns a name without its digits.
func withoutNumbers(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, name)
}
