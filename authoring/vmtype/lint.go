package vmtype

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vmop/authoring/introspect"
	"vmop/authoring/lint"
	"vmop/authoring/revision"
	"vmop/authoring/sample"
	"vmop/authoring/vmtypestest"
	"vmop/internal/cli"
	"vmop/internal/yamlfile"
	"vmop/vmtypes"
)

func newLint(Flags) *cobra.Command {
	var l linting
	cmd := &cobra.Command{
		Use:   "lint [DIR|FILE]",
		Short: "Find mistakes in the source of VM types",
		Long: "Check the modules of a folder, by default the current one, and the plans that they\n" +
			"produce for samples: options, devices and properties that the installed QEMU doesn't know,\n" +
			"devices with addresses that depend on their order, unused options of the type, and more. With a\n" +
			"FILE, only this file and the files that it loads are checked. --rules\n" +
			"lists all rules; docs/vm-types/lint.md explains them. A comment disables a rule for the\n" +
			"statement that it precedes or follows on the same line:\n\n" +
			"    # lint: disable=unused-variable\n\n" +
			"--fix changes the files: it corrects misspelled names of QEMU and of options, removes unused\n" +
			"loads, and adds api_version.\n\n" +
			"QEMU is queried without a machine; no VM is started.\n\n" +
			"Exit codes: 0 no findings, 1 findings, 2 the check failed.",
		Example: "  vmrunner vmtype lint\n  vmrunner vmtype lint types/asset.star -o json\n  vmrunner vmtype lint --fix",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return cli.UsageError{Err: fmt.Errorf("lint takes one folder or file; got %d", len(args))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			l.out, l.notes = cmd.OutOrStdout(), cmd.ErrOrStderr()
			if l.rules {
				return l.listRules()
			}
			found, err := l.lintAndFix(cmd.Context(), orHere(args)[0])
			switch {
			case err != nil:
				return cli.UsageError{Err: err}
			case found > 0:
				return cli.ExitError{Code: exitDiffers}
			}
			return nil
		},
	}
	cli.OutputFlag(cmd, &l.form, "text", "json")
	cmd.Flags().StringVar(&l.samples, "samples", "", "`DIR` of the sample VMs, if they are not next to the types")
	cmd.Flags().StringVar(&l.qemu, "qemu", "", "QEMU `PROGRAM` to query (default the programs of the plans)")
	cmd.Flags().BoolVar(&l.rules, "rules", false, "list the rules with their reasons")
	cmd.Flags().BoolVar(&l.fix, "fix", false, "correct the files where this needs no decision, and print the rest")
	cli.CompleteFolder(cmd, "samples")
	return cmd
}

// linting is the state of one call of the verb.
type linting struct {
	form, samples, qemu string
	path                string // the folder or file
	rules, fix          bool
	out, notes          io.Writer
	// oldest are the oldest versions of QEMU that types need.
	oldest map[string]string
}

func (l *linting) listRules() error {
	if l.form == "json" {
		type rule struct {
			Name     string `json:"name"`
			Reason   string `json:"reason"`
			AsksQEMU bool   `json:"asksQEMU"`
		}
		var list []rule
		for _, r := range lint.Rules() {
			list = append(list, rule{r.Name, r.Reason, r.AsksQEMU})
		}
		return cli.PrintValue(l.out, l.form, list)
	}
	paint := cli.PaintFor(l.out)
	for _, r := range lint.Rules() {
		text := paint.Bold(r.Name) + "\n    " + strings.ReplaceAll(wrapText(r.Reason, 80), "\n", "\n    ")
		if err := cli.WriteLine(l.out, text); err != nil {
			return err
		}
	}
	return nil
}

// lintPath checks a path and returns the findings. With an error, there can be findings too.
func (l *linting) lintPath(ctx context.Context, path string) (all []lint.Finding, err error) {
	l.path = path
	launches := &sharedLaunches{}
	defer launches.close()
	r, err := revision.Open(ctx, path, launches.launch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	modules, unread := r.Modules()
	if len(modules) == 0 {
		return nil, errors.Join(unread, fmt.Errorf("lint: there is no *.star file in %s", path))
	}
	folder := lint.Folder{Modules: modules, Around: lint.Surroundings{Read: vmtypes.StockModule}}
	shown := shownModules(r, modules)
	switch {
	case len(shown) == 0:
		return nil, errors.Join(unread, fmt.Errorf("lint: cannot read %s", path))
	case r.Single != "":
		unread = nil // of other files
	}
	maps.DeleteFunc(folder.Modules, func(name, _ string) bool {
		return !shown[name] && !strings.HasSuffix(name, "_test.star") // a test shows that a type is tested
	})
	findings := []lint.Finding{}
	for name, source := range modules {
		folder.Around.Stock = strings.HasPrefix(name, vmtypes.StockPrefix)
		findings = append(findings, loadFindings(name, vmtypes.CheckModule(name, source))...)
	}
	samples, err := l.readSamples(r)
	var ofSamples []lint.Finding
	switch faults := yamlfile.Faults(nil); {
	case r.Single != "" && l.samples == "": // the sample may belong to another file
	case errors.As(err, &faults):
		ofSamples = sampleFindings(faults)
	default:
		unread = errors.Join(unread, err)
	}
	plans := planLint{linting: l, folder: &folder, qemus: map[string]*introspect.QEMU{}}
	defer func() { err = errors.Join(err, plans.close()) }()
	if err := l.planSamples(ctx, r, samples, &plans, findings); err != nil {
		return nil, err
	}
	more, err := plans.findings(ctx)
	if err != nil {
		return nil, err
	}
	findings = slices.DeleteFunc(append(findings, more...), func(f lint.Finding) bool { return !shown[f.File] })
	for i := range findings {
		findings[i].File = l.pathOf(path, findings[i].File)
	}
	return lint.Sort(append(findings, ofSamples...)), unread
}

// shownModules returns the modules that findings are shown for: all, or a single type with the modules that it loads.
func shownModules(r *revision.Revision, modules map[string]string) map[string]bool {
	shown := map[string]bool{}
	if r.Single == "" {
		for name := range modules {
			shown[name] = true
		}
		return shown
	}
	var add func(name string)
	add = func(name string) {
		if source, ok := modules[name]; ok && !shown[name] {
			shown[name] = true
			for _, loaded := range vmtypes.DescribeModule(name, source).Loads {
				add(loaded)
			}
		}
	}
	add(r.Single + ".star")
	add(vmtypes.StockPrefix + r.Single + ".star")
	return shown
}

// syntaxRule is the rule of findings in a module that cannot be loaded. No comment disables it.
const syntaxRule = "syntax"

// loadFindings converts the error of a module that cannot be loaded.
func loadFindings(name string, err error) []lint.Finding {
	if err == nil {
		return nil
	}
	var findings []lint.Finding
	for _, f := range vmtypestest.FailuresOf(err) {
		findings = append(findings, lint.Finding{
			Rule: syntaxRule, File: name, Line: max(f.Line, 1), Column: max(f.Column, 1), EndLine: max(f.Line, 1),
			EndColumn: max(f.Column, 1) + 1, Message: f.Message,
		})
	}
	return findings
}

// sampleRule is the rule of findings in samples that cannot be read.
const sampleRule = "sample"

// sampleFindings converts the errors in samples.
func sampleFindings(faults yamlfile.Faults) []lint.Finding {
	var findings []lint.Finding
	for _, f := range faults {
		findings = append(findings, lint.Finding{
			Rule: sampleRule, File: f.File, Line: f.Line, Column: f.Column, EndLine: f.Line, EndColumn: f.Column + 1,
			Message: f.Text(),
		})
	}
	return findings
}

// pathOf returns the file of a module.
func (l *linting) pathOf(path, module string) string {
	if strings.HasSuffix(path, ".star") {
		path = filepath.Dir(path)
	}
	return filepath.Join(path, strings.TrimPrefix(module, vmtypes.StockPrefix))
}

// readSamples reads the samples in --samples, or in the folder of the types, without the plans that they contain.
func (l *linting) readSamples(r *revision.Revision) (list []*sample.Sample, err error) {
	add := func(s *sample.Sample) error {
		s.Text = "" // a plan of 5 KB, which no rule reads
		list = append(list, s)
		return nil
	}
	if l.samples != "" {
		err = revision.EachSample(l.samples, true, add)
	} else {
		err = r.EachSample(add)
	}
	return list, err
}

// planSamples adds the plans of the samples, and of the usual samples, to plans. broken are the findings in modules
// that cannot be loaded.
func (l *linting) planSamples(
	ctx context.Context, r *revision.Revision, samples []*sample.Sample, plans *planLint, broken []lint.Finding,
) error {
	folder := plans.folder
	l.oldest = sample.OldestQEMU(samples)
	maps.DeleteFunc(l.oldest, func(name, _ string) bool { return !slices.Contains(r.Types(), name) })
	for _, s := range samples {
		folder.Sampled = append(folder.Sampled, s.Type)
	}
	for _, name := range r.Types() {
		usual, err := sample.Usual(name)
		if err != nil {
			return err
		}
		added, reason, err := plans.addPlans(ctx, r, name, append(slices.Clone(samples), usual...))
		isBroken := slices.ContainsFunc(broken, func(f lint.Finding) bool { return f.File == name+".star" })
		isType := !isBroken && l.definesType(folder, name)
		if err == nil && added == 0 && isType {
			if minimal := l.minimalSamples(ctx, name); minimal != nil {
				added, reason, err = plans.addPlans(ctx, r, name, minimal)
			}
		}
		if err != nil {
			return err
		}
		if added == 0 && isType {
			fmt.Fprintf(l.notes, "note: no plan of %s was checked, because no sample has one; the last "+
				"reason was:\n  %s\n",
				name, strings.ReplaceAll(reason.Error(), "\n", "\n  "))
		}
	}
	return nil
}

// minimalSamples returns minimal VMs with values for the mandatory options of a type, or nil.
func (l *linting) minimalSamples(ctx context.Context, name string) []*sample.Sample {
	file, err := filepath.Abs(l.pathOf(l.path, name+".star"))
	if err != nil {
		return nil // the usual samples have the reason
	}
	d, err := describeFile(ctx, file)
	if err != nil {
		return nil // so does the usual sample
	}
	list, err := sample.Minimal(name, d.Options)
	if err != nil {
		return nil
	}
	return list
}

// definesType reports whether a module defines launch, which makes it a type.
func (l *linting) definesType(folder *lint.Folder, name string) bool {
	return strings.Contains(folder.Modules[name+".star"]+folder.Modules[vmtypes.StockPrefix+name+".star"],
		"def launch(")
}

// tooNew returns the types that need a newer QEMU than the named one, with a note for each.
func (l *linting) tooNew(qemu string) map[string]bool {
	types := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(l.oldest)) {
		if sample.IsOlder(strings.TrimPrefix(qemu, "QEMU "), l.oldest[name]) {
			types[name] = true
			fmt.Fprintf(l.notes, "note: %s needs QEMU %s, this is %s; rules not applied to it: %s\n", name, l.oldest[name],
				strings.TrimPrefix(qemu, "QEMU "), rulesOfQEMU())
		}
	}
	return types
}

// rulesOfQEMU returns the names of the rules that query QEMU.
func rulesOfQEMU() string {
	var names []string
	for _, r := range lint.Rules() {
		if r.AsksQEMU {
			names = append(names, r.Name)
		}
	}
	return strings.Join(names, ", ")
}

// openQEMU opens a QEMU for queries, or returns nil if it is not installed.
func (l *linting) openQEMU(ctx context.Context, program string) (*introspect.QEMU, error) {
	found, err := l.findQEMU(program)
	if err != nil {
		if l.qemu != "" {
			return nil, fmt.Errorf("--qemu: %w", err)
		}
		fmt.Fprintf(l.notes, "note: %s is not an installed QEMU; rules not applied: %s\n",
			filepath.Base(program), rulesOfQEMU())
		return nil, nil
	}
	cache, err := os.UserCacheDir()
	if err == nil {
		cache = filepath.Join(cache, "vmrunner", "qemu")
	}
	return introspect.Open(ctx, found, cache) // without a cache, each call queries QEMU
}

// findQEMU returns the QEMU to start. It never returns the path in a type, because checking an untrusted type must not
// run an untrusted program.
func (l *linting) findQEMU(program string) (string, error) {
	if l.qemu != "" {
		return exec.LookPath(l.qemu)
	}
	base := filepath.Base(program)
	if !strings.HasPrefix(base, "qemu-system-") && base != "qemu-kvm" {
		return "", fmt.Errorf("%s is not the name of a QEMU program", program)
	}
	if found, err := exec.LookPath(base); err == nil {
		return found, nil
	}
	return exec.LookPath("/usr/libexec/" + base)
}

func (l *linting) printFindings(findings []lint.Finding) error {
	if l.form == "json" {
		return cli.PrintValue(l.out, l.form, findings)
	}
	paint := cli.PaintFor(l.out)
	for _, f := range findings {
		place := fmt.Sprintf("%s:%d:%d:", f.File, f.Line, f.Column)
		if _, err := fmt.Fprintf(l.out, "%s %s %s\n", paint.Cyan(cli.Printable(place)), paint.Yellow(f.Rule+":"),
			cli.Printable(f.Message)); err != nil {
			return err
		}
	}
	return nil
}
