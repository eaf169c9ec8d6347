package vmtype

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vmop/authoring/check"
	"vmop/authoring/lint"
	"vmop/authoring/sample"
	"vmop/authoring/vmtypestest"
	"vmop/internal/cli"
	"vmop/runner/prepare"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
	"vmop/vmtypes/plan"
)

// exitUntried is the exit code if all checks passed but not everything was tried.
const exitUntried = 3

func newCheck(f Flags) *cobra.Command {
	var c checking
	cmd := &cobra.Command{
		Use:   "check [DIR...]",
		Short: "Check VM types with the installed QEMU",
		Long: "Load every module of a folder, run the tests and samples as \"test\" does, and let\n" +
			"QEMU create the machine of each sample without starting it. Arguments that QEMU rejects are\n" +
			"shown with the line that created them. Devices that the rules for changes at run time need\n" +
			"are looked up in the machine.\n\n" +
			"A configuration is judged by this computer: by its files, KVM, CPUs and memory. Other samples are\n" +
			"judged by the host that they describe, as with \"test\", or by Debian 12 without KVM. A type\n" +
			"without a sample is tried on this computer with a minimal VM, which is shown. Its mandatory options\n" +
			"get values that their declarations allow.\n\n" +
			"No privileges are needed and nothing is left behind: images are empty, networks lead\n" +
			"nowhere, and devices of this computer that cannot be opened are left out, with a note.\n" +
			"Huge pages, NUMA binding and large memory are replaced, and listed as well.\n" +
			"docs/vm-types/testing.md lists the replacements.\n\n" +
			"QEMU and helpers get the arguments that a type chose, and are not sandboxed. Check the types\n" +
			"of others with --vmtypes-policy, or look at the output of \"render\" first.\n\n" +
			"Exit codes: 0 success, 1 something failed, 2 wrong usage, or nothing to check, 3 nothing\n" +
			"failed, but not everything was tried; the last line has the number. For example, QEMU or another\n" +
			"program is missing, or a sample needs KVM or a newer QEMU.",
		Example: "  vmrunner vmtype check\n" +
			"  vmrunner vmtype check --run gpu types\n" +
			"  vmrunner vmtype check -v --qemu /opt/qemu-10/bin types\n" +
			"  vmrunner vmtype check --junit report.xml types\n" +
			"  vmrunner vmtype check --watch types",
		ValidArgsFunction: completeFolders,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.page = page{
				Paint: cli.PaintFor(cmd.OutOrStdout()), w: cmd.OutOrStdout(), verbose: c.verbose,
				quiet: c.form == "json",
			}
			return c.runChecks(cmd.Context(), orHere(args))
		},
	}
	c.policy = newPolicyCheck(f, cmd)
	cli.OutputFlag(cmd, &c.form, "text", "json")
	runFlag(cmd, &c.selected, "check only modules, tests and samples with names that match this `REGEXP`")
	cmd.Flags().StringVar(&c.qemu, "qemu", "",
		"QEMU `PROGRAM`, or folder of QEMU programs (default the programs of the plans)")
	cmd.Flags().BoolVarP(&c.verbose, "verbose", "v", false,
		"also list passed checks, with durations")
	cmd.Flags().StringVar(&c.junit, "junit", "", "`FILE` for a report for CI systems (JUnit XML)")
	cli.CompleteFile(cmd, "junit", "xml")
	watchFlag(cmd, &c.watch)
	return cmd
}

// checking is the state of one call of the verb.
type checking struct {
	form, junit, qemu, selected string

	verbose, watch bool
	match          *regexp.Regexp // nil selects all
	policy         *policyCheck
	page           page

	checker                  *check.Checker
	modules, tests, machines []vmtypestest.Result
	tried                    []tried
}

// tried is the result of a sample on QEMU.
type tried struct {
	Sample string `json:"sample"`
	// VM is the vm section of a made-up VM for a type without a sample.
	VM string `json:"madeUpVM,omitempty"`
	check.Result
	vmType string
	err    error // the reason why there is no plan
}

func (c *checking) runChecks(ctx context.Context, dirs []string) error {
	c.checker = &check.Checker{}
	if err := compileRun(c.selected, &c.match); err != nil {
		return err
	}
	if c.qemu != "" {
		if err := requireFile("--qemu", "file or folder", c.qemu); err != nil {
			return err
		}
		var err error
		if c.checker.QEMU, err = filepath.Abs(c.qemu); err != nil {
			return fmt.Errorf("--qemu: %w", err)
		}
	}
	round := func(ctx context.Context, s selection) error { return c.checkFolders(ctx, dirs, s) }
	if c.watch {
		return whileWatching(ctx, &c.page, dirs, round)
	}
	return round(ctx, selectAll)
}

// checkFolders checks the selected files of the folders.
func (c *checking) checkFolders(ctx context.Context, dirs []string, selected selection) error {
	c.modules, c.tests, c.machines, c.tried = nil, nil, nil, nil
	found := false
	for _, dir := range dirs {
		if err := requireFile("check", "folder", dir); err != nil {
			return err
		}
		folder, err := vmtypestest.Find(dir)
		if err != nil {
			return cli.UsageError{Err: err}
		}
		in, err := containedIn(dir, c.policy)
		if err != nil {
			return err
		}
		defer in.close()
		found = found || len(folder.Samples)+len(in.source.Modules)+len(in.source.Refused) > 0
		isSelected := c.matching(selected(folder, in.source))
		types := c.loadTypes(ctx, dir, in, isSelected)
		c.page.warnMisspelt(dir, in.source, isSelected)
		options := vmtypestest.Options{Select: selected(folder, in.source), Match: c.match, Host: prepare.ThisHost}
		err = folder.Run(ctx, in, options, func(some []vmtypestest.Result) { c.recordResults(dir, &c.tests, some...) })
		if err != nil {
			return err
		}
		c.tryMachines(ctx, folder, in, types, isSelected)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if !found {
		return cli.UsageError{Err: fmt.Errorf("there is nothing to check in %s: no *.star, *.txtar, or *.yaml file "+
			"with a section \"/Runner\"", strings.Join(dirs, ", "))}
	}
	if c.match != nil && len(c.modules)+len(c.tests)+len(c.machines) == 0 {
		return cli.UsageError{Err: fmt.Errorf("--run %s: no module, test or sample has a matching name; "+
			"-v lists the names", c.selected)}
	}
	return c.printSummary()
}

// matching returns a selection of the files that also match --run.
func (c *checking) matching(selected func(string) bool) func(string) bool {
	return func(file string) bool { return selected(file) && (c.match == nil || c.match.MatchString(file)) }
}

// recordResults prints results and keeps them for the summary.
func (c *checking) recordResults(dir string, list *[]vmtypestest.Result, results ...vmtypestest.Result) {
	for _, r := range results {
		c.page.printResult(r)
		*list = append(*list, inFolder(dir, r))
	}
}

// loadTypes loads the modules of a folder and returns the names of the types among them.
func (c *checking) loadTypes(ctx context.Context, dir string, in contained, selected func(string) bool) []string {
	var types []string
	var work []func() vmtypestest.Result
	for _, name := range moduleNames(in.source) {
		if strings.HasSuffix(name, "_test.star") || !selected(name) {
			continue
		}
		work = append(work, func() vmtypestest.Result {
			start := time.Now()
			r := vmtypestest.Result{File: name}
			if err := evaluate.Diagnose(ctx, in.source, name); err != nil {
				r.Failures = vmtypestest.FailuresOf(err)
			}
			r.Time = time.Since(start)
			return r
		})
		if isType(name, in.source.Modules[name]) {
			types = append(types, strings.TrimSuffix(name, ".star"))
		}
	}
	broken := map[string]bool{}
	vmtypestest.InOrder(work, func(r vmtypestest.Result) {
		broken[strings.TrimSuffix(r.File, ".star")] = len(r.Failures) > 0
		c.recordResults(dir, &c.modules, r)
	})
	for _, name := range slices.Sorted(maps.Keys(in.source.Refused)) {
		text := name + ": " + in.source.Refused[name]
		c.recordResults(dir, &c.modules, vmtypestest.Result{
			File:     name,
			Failures: []vmtypestest.Failure{{File: name, Message: in.source.Refused[name], Text: text}},
		})
	}
	return slices.DeleteFunc(types, func(name string) bool { return broken[name] })
}

// moduleNames returns the names of the modules of a source, sorted.
func moduleNames(source vmtypes.Source) []string { return slices.Sorted(maps.Keys(source.Modules)) }

// isType reports whether a module defines launch, which makes it a type.
func isType(name, text string) bool {
	module := vmtypes.DescribeModule(name, text)
	return slices.ContainsFunc(module.Functions, func(f vmtypes.Function) bool { return f.Name == "launch" })
}

// tryMachines lets QEMU create the machine of each sample, and of each type without a sample.
func (c *checking) tryMachines(
	ctx context.Context, folder *vmtypestest.Folder, in contained, types []string, selected func(string) bool,
) {
	var work []func() tried
	for _, name := range folder.Samples {
		s, err := sample.Read(filepath.Join(folder.Dir, name))
		if err != nil {
			continue // the tests have reported the error
		}
		s.UseHost(prepare.ThisHost)
		types = slices.DeleteFunc(types, func(t string) bool { return t == s.Type })
		if selected(name) {
			work = append(work, func() tried {
				r, err := c.checker.Sample(ctx, s, in.Launch)
				return tried{Sample: name, Result: r, vmType: s.Type, err: err}
			})
		}
	}
	for _, name := range types {
		work = append(work, func() tried { return c.tryMinimal(ctx, name, in) })
	}
	vmtypestest.InOrder(work, func(t tried) {
		if ctx.Err() != nil || t.err != nil && t.VM == "" {
			return // the context has ended, or the tests have reported the missing plan
		}
		r := c.sampleResult(t, in)
		c.page.printMachine(t, r)
		t.Sample = filepath.Join(folder.Dir, t.Sample)
		c.tried = append(c.tried, t)
		c.machines = append(c.machines, inFolder(folder.Dir, r))
	})
}

// tryMinimal tries a type without a sample on this computer, with the first minimal VM that has a plan.
func (c *checking) tryMinimal(ctx context.Context, name string, in contained) tried {
	first := tried{Sample: name + ".star", VM: "a minimal VM", vmType: name}
	described, err := evaluate.Type{Source: in.source, Name: name}.Describe(ctx)
	var samples []*sample.Sample
	if err == nil {
		samples, err = sample.Minimal(name, described.Options)
	}
	if first.err = err; err != nil {
		first.Failures = []check.Failure{{Message: err.Error()}}
	}
	for i, s := range samples {
		s.UseHost(prepare.ThisHost)
		r, err := c.checker.Sample(ctx, s, in.Launch)
		t := tried{Sample: name + ".star", VM: s.Path, vmType: name, Result: r, err: err}
		if err == nil {
			return t
		}
		t.Failures = []check.Failure{{Message: s.Locate(err).Error() +
			"\nthis type has no sample, so a minimal VM was tried; write one: " + name + ".yaml"}}
		if i == 0 {
			first = t
		}
	}
	return first
}

// sampleResult converts the QEMU result of a sample to a test result.
func (c *checking) sampleResult(t tried, in contained) vmtypestest.Result {
	r := vmtypestest.Result{
		File: t.Sample, Function: "qemu", Time: t.Time, Skipped: t.Untried,
		Output: strings.Join(slices.Concat(t.Without, t.Replaced, t.Warnings), "\n"),
	}
	for _, f := range t.Failures {
		failure := vmtypestest.Failure{File: t.Sample, Message: f.Message, Text: f.Message}
		if !strings.Contains(f.Message, f.Option) {
			failure.Text += "\nthis is about " + f.Option
		}
		made := "made at"
		if len(f.Origin) == 0 && t.err == nil {
			f.Origin, made = in.originOfLaunch(t.vmType), "QEMU names no option; the plan was created at"
		}
		for i, frame := range f.Origin {
			switch {
			case i == 0:
				failure.File, failure.Line = frame.File, frame.Line
				failure.Column = lint.ColumnOf(in.moduleText(frame.File), frame.Line, wordsOf(f))
				failure.Text += fmt.Sprintf("\n%s %s\n%4d | %s\n     | %s^", made, frame, frame.Line,
					in.lineOf(frame.File, frame.Line), strings.Repeat(" ", failure.Column-1))
			case frame.Step != "":
				failure.Text += fmt.Sprintf("\n%s %s", frame.Step, frame)
			default:
				failure.Text += fmt.Sprintf("\ncalled from %s", frame)
			}
		}
		r.Failures = append(r.Failures, failure)
	}
	return r
}

// wordsOf returns the words of options that QEMU could have refused: what its message quotes, and the option itself.
func wordsOf(f check.Failure) []string {
	var words []string
	for i, part := range strings.Split(f.Message, "'") {
		if i%2 == 1 {
			words = append(words, part, part[strings.LastIndexByte(part, '.')+1:])
		}
	}
	return append(words, strings.FieldsFunc(f.Option, func(r rune) bool { return strings.ContainsRune(" ,=", r) })...)
}

// originOfLaunch returns the place of a type's function launch.
func (c contained) originOfLaunch(vmType string) plan.Origin {
	file := filepath.Base(strings.TrimSuffix(vmType, ".star")) + ".star"
	if _, own := c.source.Modules[file]; !own {
		file = vmtypes.StockPrefix + file
	}
	for _, f := range vmtypes.DescribeModule(file, c.moduleText(file)).Functions {
		if f.Name == "launch" {
			return plan.Origin{{File: file, Line: f.Line, Function: f.Name}}
		}
	}
	return nil
}

// moduleText returns the source of a module, or "".
func (c contained) moduleText(module string) string {
	text, known := c.source.Modules[module]
	if !known {
		text, _ = vmtypes.StockModule(module) // "" if it isn't a stock module
	}
	return text
}

// lineOf returns a line of a module.
func (c contained) lineOf(module string, line int) string {
	lines := strings.Split(c.moduleText(module), "\n")
	if line < 1 || line > len(lines) {
		return ""
	}
	return lines[line-1]
}

// printMachine prints the result of a sample on QEMU.
func (p *page) printMachine(t tried, r vmtypestest.Result) {
	name, took, with := cli.Printable(t.Sample), "", ""
	if t.VM != "" {
		with = " with a minimal VM"
	}
	if p.verbose {
		took = "  " + p.Faint(formatMilliseconds(t.Time))
	}
	switch {
	case t.err != nil:
		p.printLine("%s %s  there is no plan", p.Red("✗"), p.Bold(name))
	case len(r.Failures) > 0:
		p.printLine("%s %s  %s%s", p.Red("✗"), p.Bold(name), cmp.Or(t.Machine, "QEMU rejects it"), took)
	case t.Untried != "":
		p.printLine("%s %s  %s", p.Yellow("!"), p.Bold(name), p.Yellow("not tried: "+cli.Printable(t.Untried)))
	default:
		p.printLine("%s %s  %s%s", p.Green("✓"), name, cli.Printable(t.Machine)+with, took)
	}
	if t.VM != "" {
		p.printLine("    %s", p.Faint("made-up VM: "+cli.Printable(t.VM)))
	}
	for _, f := range r.Failures {
		p.printText(f.Text)
	}
	for _, without := range t.Without {
		p.printLine("    %s", p.Yellow("without "+cli.Printable(without)))
	}
	for _, replaced := range t.Replaced {
		p.printLine("    %s", p.Faint("replaced "+cli.Printable(replaced)))
	}
	for _, warning := range t.Warnings {
		p.printLine("    %s %s", p.Yellow("!"), p.Yellow(cli.Printable(warning)))
	}
}

// printSummary prints the summary and returns the error for the exit code.
func (c *checking) printSummary() error {
	all := slices.Concat(c.modules, c.tests, c.machines)
	if c.junit != "" {
		slices.SortStableFunc(all, func(a, b vmtypestest.Result) int { return cmp.Compare(a.File, b.File) })
		if err := writeJUnit(c.junit, all); err != nil {
			return err
		}
	}
	summary := vmtypestest.Summarize(all)
	untried := c.countUntried()
	if c.form == "json" {
		value := map[string]any{"summary": summary, "results": all, "machines": c.tried}
		if err := cli.PrintValue(c.page.w, c.form, value); err != nil {
			return err
		}
	} else {
		c.printTotals()
		if summary.Failed == 0 && untried != "" {
			c.page.printLine("%s", c.page.Yellow(untried))
		}
	}
	switch {
	case c.page.err != nil:
		return c.page.err
	case summary.Failed > 0:
		return cli.ExitError{Code: exitFailed}
	case untried != "":
		return cli.ExitError{Code: exitUntried}
	}
	return nil
}

// countUntried returns a line with the number of machines that were not tried, or only in part; "" if there are none.
func (c *checking) countUntried() string {
	var none, part int
	for _, t := range c.tried {
		switch {
		case t.Untried != "":
			none++
		case t.Missing:
			part++
		}
	}
	var words []string
	for _, count := range []struct {
		n    int
		what string
	}{{none, "not tried"}, {part, "tried in part"}} {
		if count.n > 0 {
			words = append(words, fmt.Sprintf("%d %s", count.n, count.what))
		}
	}
	if words == nil {
		return ""
	}
	return fmt.Sprintf("incomplete: of %d machines, %s", len(c.tried), strings.Join(words, ", "))
}

// printTotals prints a summary line for each kind of check.
func (c *checking) printTotals() {
	versions := map[string]bool{}
	for _, t := range c.tried {
		if t.Version != "" {
			versions["QEMU "+t.Version] = true
		}
	}
	name := cmp.Or(strings.Join(slices.Sorted(maps.Keys(versions)), ", "), "QEMU")
	width := max(len("modules"), len(name))
	for _, kind := range []struct {
		name    string
		results []vmtypestest.Result
	}{{"modules", c.modules}, {"tests", c.tests}, {name, c.machines}} {
		s := vmtypestest.Summarize(kind.results)
		line := fmt.Sprintf("%-*s  %s", width, kind.name, s)
		switch {
		case len(kind.results) == 0:
			c.page.printLine("%s", c.page.Faint(fmt.Sprintf("%-*s  none", width, kind.name)))
		case s.Failed > 0:
			c.page.printLine("%s", c.page.Red(line))
		case s.Skipped > 0:
			c.page.printLine("%s", c.page.Yellow(line))
		default:
			c.page.printLine("%s", c.page.Green(line))
		}
	}
}
