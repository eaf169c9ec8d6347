package vmtype

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vmop/authoring/compare"
	"vmop/authoring/revision"
	"vmop/authoring/sample"
	"vmop/internal/cli"
)

// exitDiffers is the exit code of verbs that compare if there is a difference. Errors are a cli.UsageError.
const exitDiffers = 1

func newDiff(Flags) *cobra.Command {
	var d diff
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Show what a change of VM types means for guests",
		Long: "Compute the plans of sample VMs with two versions of VM types, and show what has\n" +
			"changed and what that means for a guest: hardware that moves, a different boot order, a disk\n" +
			"with different contents, or nothing that it could notice. docs/vm-types/compare.md explains\n" +
			"each class.\n\n" +
			"OLD and NEW are the name of a stock type, a file, a folder, the archive in the data\n" +
			"directory of a VM (vmtype.txtar), or a git revision: HEAD~1:types for a folder in it, HEAD~1\n" +
			"for the current folder.\n\n" +
			"The VMs are the samples next to the types, or built-in samples if there are none; --samples\n" +
			"uses the samples of another folder, -f a single configuration or sample. No VM is started.\n\n" +
			"Exit codes: 0 nothing has changed, 1 something has, 2 the comparison failed.",
		Example: "  vmrunner vmtype diff HEAD .\n" +
			"  vmrunner vmtype diff -f vm.yaml ~/.local/share/vmrunner/web/vmtype.txtar standard",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return cli.UsageError{Err: fmt.Errorf("diff takes OLD and NEW, two versions of VM types; got %d",
					len(args))}
			}
			if d.samples != "" && d.file != "" {
				return cli.UsageError{Err: errors.New("--samples and -f are mutually exclusive")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			different, err := d.compareTypes(cmd.Context(), cmd.OutOrStdout(), args[0], args[1])
			switch {
			case err != nil:
				return cli.UsageError{Err: err} // exit code 1 would mean differences
			case different:
				return cli.ExitError{Code: exitDiffers}
			}
			return nil
		},
	}
	cli.OutputFlag(cmd, &d.form, "text", "json")
	cmd.Flags().StringVar(&d.samples, "samples", "", "`DIR` of the sample VMs, if they are not next to the types")
	cmd.Flags().StringVarP(&d.file, "file", "f", "", "configuration or sample `FILE` of the only VM to compare")
	cmd.Flags().BoolVar(&d.all, "all", false, "show each VM separately")
	cli.CompleteFolder(cmd, "samples")
	cli.CompleteFile(cmd, "file", "yaml", "txtar")
	return cmd
}

// diff contains the flags of the verb.
type diff struct {
	form, samples, file string
	all                 bool
}

func (d *diff) compareTypes(ctx context.Context, w io.Writer, old, now string) (different bool, err error) {
	launches := &sharedLaunches{}
	defer launches.close()
	before, err := revision.Open(ctx, old, launches.launch)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, before.Close()) }()
	after, err := revision.Open(ctx, now, launches.launch)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, after.Close()) }()
	samples, err := d.selectedSamples()
	if err != nil {
		return false, err
	}
	c, err := revision.Compare(ctx, before, after, samples)
	if err != nil {
		return false, err
	}
	if d.form == "json" {
		return c.Different(), cli.PrintValue(w, d.form, diffValue(c))
	}
	page := &diffPage{Paint: cli.PaintFor(w)}
	page.writeComparison(c, d.all)
	_, err = io.WriteString(w, page.String())
	if len(c.Results) == 0 && !c.Different() {
		err = errors.Join(err, errors.New("there is no plan to compare: neither version has a plan for any VM"))
	}
	return c.Different(), err
}

// selectedSamples returns the samples that the flags select. Without flags it returns nil, which means the samples next
// to the types.
func (d *diff) selectedSamples() ([]*sample.Sample, error) {
	switch {
	case d.samples != "":
		if err := requireFile("--samples", "folder", d.samples); err != nil {
			return nil, err
		}
		return revision.ReadSamples(d.samples, true)
	case d.file != "":
		if ext := filepath.Ext(d.file); ext != ".yaml" && ext != sample.Suffix {
			return nil, fmt.Errorf("-f %s: must be a configuration (.yaml) or a sample (%s)", d.file, sample.Suffix)
		}
		if err := requireFile("diff -f", "file", d.file); err != nil {
			return nil, err
		}
		s, err := sample.Read(d.file)
		return []*sample.Sample{s}, err
	}
	return nil, nil
}

// diffValue returns the result for programs.
func diffValue(c *revision.Comparison) any {
	type meaning struct {
		Level  compare.Level `json:"level"`
		Title  string        `json:"title"`
		Effect string        `json:"effect"`
		Advice string        `json:"advice"`
	}
	meanings := map[compare.Meaning]meaning{}
	for _, r := range c.Results {
		for _, change := range r.Changes {
			e := change.Meaning.Explain()
			meanings[change.Meaning] = meaning{e.Level, e.Title, e.Effect, e.Advice}
		}
	}
	return map[string]any{
		"different": c.Different(), "vms": nonNil(c.Results), "startNowhere": nonNil(c.Nowhere),
		"typesGone": nonNil(c.Gone), "typesNew": nonNil(c.New), "meanings": meanings,
	}
}

// nonNil replaces nil with an empty list.
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// diffPage is the result for people.
type diffPage struct {
	cli.Paint
	strings.Builder
}

func (p *diffPage) printLine(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *diffPage) writeComparison(c *revision.Comparison, all bool) {
	for _, name := range c.Gone {
		p.printLine("%s  the VM type was removed; VMs that use it no longer start, unless they have started before",
			p.Red(cli.Printable(name)))
	}
	for _, name := range c.New {
		p.printLine("%s  is a new VM type", p.Green(cli.Printable(name)))
	}
	if len(c.Gone)+len(c.New) > 0 {
		p.printLine("")
	}
	switch {
	case all:
		for _, r := range c.Results {
			if len(r.Changes) > 0 {
				p.printLine("%s", p.Bold("== "+cli.Printable(r.VM)))
				p.writeGroups(compare.Summarize([]compare.Result{r}), 0)
			}
		}
	default:
		p.writeGroups(compare.Summarize(c.Results), len(c.Results))
	}
	p.writeSummary(c)
}

// writeGroups writes changes below headings with their level and meaning. vms is the number of VMs; 0 omits it.
func (p *diffPage) writeGroups(groups []compare.Group, vms int) {
	level, meaning := compare.Level(-1), compare.Meaning("")
	for _, g := range groups {
		e := g.Meaning.Explain()
		if e.Level != level {
			level = e.Level
			p.printLine("%s", p.Bold(level.String()+":"))
		}
		if g.Meaning != meaning {
			meaning = g.Meaning
			p.printLine("  %s  %s", p.colorLevel(e.Level, e.Title), p.Faint("("+string(g.Meaning)+")"))
			for line := range strings.SplitSeq(wrapText(e.Effect, 84), "\n") {
				p.printLine("  %s", p.Faint(line))
			}
		}
		p.writeGroup(g, vms)
	}
	if len(groups) > 0 {
		p.printLine("")
	}
}

func (p *diffPage) colorLevel(l compare.Level, text string) string {
	switch l {
	case compare.Fails, compare.Guest:
		return p.Red(text)
	case compare.Unclear, compare.Runner:
		return p.Yellow(text)
	}
	return p.Green(text)
}

// writeGroup writes a group of equal changes.
func (p *diffPage) writeGroup(g compare.Group, vms int) {
	where := ""
	switch {
	case vms == 2 && len(g.VMs) == vms:
		where = "in both VMs"
	case vms > 1 && len(g.VMs) == vms:
		where = fmt.Sprintf("in all %d VMs", vms)
	case vms > 1:
		where = fmt.Sprintf("in %d of %d VMs: %s", len(g.VMs), vms, firstOf(g.VMs, 3))
	}
	p.writeMembers(g.Members)
	note := g.Note
	if g.Live {
		note = joinWords(note, "a rule covers it: the change is applied while the VM is running")
	}
	for _, text := range []string{note, where} {
		if text != "" {
			p.printLine("        %s", p.Faint(cli.Printable(text)))
		}
	}
}

// writeMembers writes the members of a group: on one line if all have the same values, otherwise the first three
// members.
func (p *diffPage) writeMembers(list []compare.Change) {
	const shown = 3
	same := !slices.ContainsFunc(list, func(c compare.Change) bool { return c.Values() != list[0].Values() })
	for i, c := range list {
		subject := c.Subject
		if same {
			var all []string
			for _, other := range list {
				all = append(all, other.Subject)
			}
			subject = firstOf(all, shown)
		}
		if i == shown && !same {
			p.printLine("    and %d more of the same", len(list)-i)
			return
		}
		p.printLine("    %s", strings.TrimRight(cli.Printable(subject)+": "+p.formatValues(c)+p.originLine(c), ": "))
		if same {
			return
		}
	}
}

// originLine returns the place that created a change.
func (p *diffPage) originLine(c compare.Change) string {
	if c.Place == "" {
		return ""
	}
	return "  " + p.Cyan("# "+cli.Printable(c.Place))
}

// formatValues formats an old and a new value.
func (p *diffPage) formatValues(c compare.Change) string {
	property := ""
	if c.Property != "" {
		property = cli.Printable(c.Property) + " "
	}
	old, now := printableLines(c.Old), printableLines(c.New)
	switch {
	case old == "" && now == "":
		return property
	case c.Meaning == compare.NoLongerStarts:
		return p.Red(now)
	case old == "":
		return property + p.Green("+ "+now)
	case now == "":
		return property + p.Red("- "+old)
	}
	return property + p.Red(old) + " -> " + p.Green(now)
}

// printableLines makes a text printable, and indents all lines after the first.
func printableLines(text string) string {
	list := strings.Split(strings.TrimSpace(text), "\n")
	for i := range list {
		list[i] = cli.Printable(list[i])
	}
	return strings.Join(list, "\n      ")
}

// writeSummary summarizes the changes in one line.
func (p *diffPage) writeSummary(c *revision.Comparison) {
	p.listFailures(c.Nowhere)
	changed, counts := 0, map[compare.Level]int{}
	for _, r := range c.Results {
		if len(r.Changes) > 0 {
			changed++
		}
	}
	if len(c.Results) == 0 {
		return
	}
	groups := compare.Summarize(c.Results)
	for _, g := range groups {
		counts[g.Meaning.Explain().Level]++
	}
	if len(groups) == 0 {
		p.printLine("%s: no plan changed", countOf(len(c.Results), "VM"))
		return
	}
	var parts []string
	for _, l := range compare.Levels() {
		if n := counts[l]; n > 0 {
			parts = append(parts, fmt.Sprintf(map[compare.Level]string{
				compare.Fails: "%d whether a VM starts", compare.Guest: "%d visible to the guest",
				compare.Unclear: "%d with unknown meaning",
				compare.Runner:  "%d applied while running", compare.Host: "%d on the host only",
			}[l], n))
		}
	}
	p.printLine("%d of %s changed; %s: %s", changed, countOf(len(c.Results), "VM"), countOf(len(groups), "change"),
		strings.Join(parts, ", "))
	p.printLine("A VM that has started before keeps its version of the type until a start with updateVmType.")
}

// listFailures lists VMs without a plan in either version.
func (p *diffPage) listFailures(failures []revision.Failure) {
	vms := map[string][]string{}
	var reasons []string
	for _, f := range failures {
		if vms[f.Reason] == nil {
			reasons = append(reasons, f.Reason)
		}
		vms[f.Reason] = append(vms[f.Reason], f.VM)
	}
	for _, r := range reasons {
		p.printLine("%s %s", p.Yellow("has a plan in neither version: "+cli.Printable(firstOf(vms[r], 3))+":"),
			printableLines(r))
	}
}

// firstOf returns the first n elements of a list, and the number of the remaining elements.
func firstOf(list []string, n int) string {
	if len(list) <= n+1 {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:n], ", "), len(list)-n)
}

func joinWords(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

// countOf returns "1 VM", "2 VMs".
func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// wrapText wraps a text to lines of at most width letters. It does not break words.
func wrapText(text string, width int) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}
