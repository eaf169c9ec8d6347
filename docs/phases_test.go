package docs_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/diskimage"
	"vmop/manager/addresses"
	"vmop/manager/attachment"
	"vmop/manager/disk"
	"vmop/manager/operation"
	"vmop/manager/snapshot"
	"vmop/manager/vm/class"
	"vmop/manager/vm/decide"
	"vmop/vmstatus"
)

// The pages contain the programs' explanations of reasons.
func TestMeaningsOfReasonsAreCurrent(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("| Reason | Meaning |\n|---|---|\n")
	for _, e := range vmstatus.Explanations {
		fmt.Fprintf(&b, "| %s | %s |\n", namesOf(e), linkFrom("reference/status.md", e.Meaning))
	}
	between(t, "reference/status.md", "reasons", b.String())

	b.Reset()
	b.WriteString("| Phase | Reason | What to do |\n|---|---|---|\n")
	for _, e := range decide.Explanations {
		advice := cmp.Or(linkFrom("reference/kubernetes.md", e.Advice),
			"Nothing. The reason is transient, or the result of a request.")
		fmt.Fprintf(&b, "| %s | %s | %s |\n", e.Phases, namesOf(e), advice)
	}
	between(t, "reference/kubernetes.md", "phases", b.String())

	for mark, of := range map[string]struct {
		page  string
		table []vmstatus.Explanation
	}{
		"disk reasons":       {"reference/disks.md", disk.Explanations},
		"use reasons":        {"reference/disks.md", disk.UseExplanations},
		"attachment reasons": {"reference/disks.md", attachment.Explanations},
		"snapshot reasons":   {"reference/disks.md", snapshot.Explanations},
		"address reasons":    {"reference/addresses.md", addresses.Explanations},
		"address waits":      {"reference/addresses.md", addresses.UseExplanations},
		"class reasons":      {"reference/classes.md", class.Explanations},
		"operation reasons":  {"reference/operations.md", operation.Explanations},
		"import reasons":     {"tasks/import.md", diskimage.Explanations},
	} {
		between(t, of.page, mark, tableOf(of.page, of.table))
	}
}

// tableOf returns a table with the reasons of a resource, and their phases if they have some.
func tableOf(page string, explanations []vmstatus.Explanation) string {
	var b strings.Builder
	head, phase := "| Reason | Meaning |\n|---|---|\n", ""
	if explanations[0].Phases != "" {
		head = "| Phase | Reason | Meaning |\n|---|---|---|\n"
	}
	b.WriteString(head)
	for _, e := range explanations {
		text := e.Meaning
		if e.Advice != "" {
			text += ". " + e.Advice
		}
		if e.Phases != "" {
			fmt.Fprintf(&b, "| %s ", strings.TrimPrefix(e.Phases, phase))
			phase = e.Phases
		}
		fmt.Fprintf(&b, "| %s | %s |\n", namesOf(e), linkFrom(page, text))
	}
	return strings.ReplaceAll(b.String(), "|  |", "| |")
}

func namesOf(e vmstatus.Explanation) string {
	names := make([]string, len(e.Reasons))
	for i, r := range e.Reasons {
		names[i] = "`" + string(r) + "`"
	}
	return strings.Join(names, ", ")
}

// linkFrom returns a text whose links, which are relative to docs, lead from a page.
func linkFrom(page, text string) string {
	text = strings.ReplaceAll(text, "](", "](../")
	text = strings.ReplaceAll(text, "](../"+path.Dir(page)+"/", "](")
	return strings.ReplaceAll(text, "]("+path.Base(page)+"#", "](#")
}

// Each reason of a phase, of a VM type's condition and of a runner has an explanation.
func TestReasonsAreExplained(t *testing.T) {
	t.Parallel()
	explained := map[string]bool{}
	for _, e := range slices.Concat(vmstatus.Explanations, decide.Explanations) {
		for _, r := range e.Reasons {
			explained[string(r)] = true
		}
	}
	of := section(t, "reference/kubernetes.md", "When it doesn't run")
	conditions := section(t, "reference/virtual-machines.md", "status")
	for reason := range reasons(t, "vmstatus/reason.go") {
		require.True(t, explained[reason], reason)
	}
	for reason := range reasons(t, "manager/vm/decide/phase.go") {
		require.True(t, explained[reason] || strings.Contains(of, "`"+reason+"`"), reason)
	}
	for reason := range reasons(t, "manager/vm/decide/verdict.go") {
		require.Contains(t, conditions, "`"+reason+"`")
	}
}

// Each reason of a resource has an explanation, and each explanation a reason.
func TestReasonsOfResourcesAreExplained(t *testing.T) {
	t.Parallel()
	for dir, all := range map[string][]vmstatus.Explanation{
		"manager/disk":       slices.Concat(disk.Explanations, disk.UseExplanations),
		"manager/attachment": attachment.Explanations,
		"manager/snapshot":   snapshot.Explanations,
		"manager/addresses":  slices.Concat(addresses.Explanations, addresses.UseExplanations),
		"manager/vm/class":   class.Explanations,
		"manager/operation":  operation.Explanations,
		"diskimage":          diskimage.Explanations,
	} {
		explained := map[string]bool{}
		for _, e := range all {
			require.NotEmpty(t, e.Meaning, "%s: %v", dir, e.Reasons)
			for _, r := range e.Reasons {
				explained[string(r)] = true
			}
		}
		exist := reasonsBelow(t, dir)
		for reason := range exist {
			require.True(t, explained[reason], "%s: %s is not explained", dir, reason)
		}
		others := reasonsBelow(t, "manager/disk")
		maps.Copy(others, map[string]bool{"NotSeen": true, decide.ReasonNotMigratable: true})
		for reason := range explained {
			require.True(t, exist[reason] || others[reason], "%s: %s is explained, but no reason", dir, reason)
		}
	}
}

// reasonsBelow returns the values of the constants of reasons in a package.
func reasonsBelow(t *testing.T, dir string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, file := range glob(t, "../"+dir+"/*.go") {
		if !strings.HasSuffix(file, "_test.go") {
			maps.Copy(found, reasonsOf(t, file))
		}
	}
	require.NotEmpty(t, found, dir)
	return found
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	return files
}

// reasons returns the values of the constants of reasons in a file that has some.
func reasons(t *testing.T, file string) map[string]bool {
	t.Helper()
	found := reasonsOf(t, filepath.Join("..", file))
	require.NotEmpty(t, found, file)
	return found
}

// reasonsOf returns the values of the constants of reasons in a file.
func reasonsOf(t *testing.T, path string) map[string]bool {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	found := map[string]bool{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if !is || len(spec.Values) == 0 || !isReason(spec) {
			return true
		}
		literal, is := spec.Values[0].(*ast.BasicLit)
		if is {
			value, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			found[value] = true
		}
		return true
	})
	return found
}

// isReason reports whether constants are reasons, by their name or type.
func isReason(spec *ast.ValueSpec) bool {
	kind, named := spec.Type.(*ast.Ident)
	return strings.HasPrefix(strings.ToLower(spec.Names[0].Name), "reason") || named && kind.Name == "Reason"
}

// section returns the text below a heading of the second level.
func section(t *testing.T, file, title string) string {
	t.Helper()
	for _, s := range strings.Split(read(t, file), "\n## ") {
		if strings.HasPrefix(s, title+"\n") {
			return s
		}
	}
	require.Fail(t, "there is no section "+title, file)
	return ""
}
