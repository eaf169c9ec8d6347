package vmtype

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"vmop/internal/cli"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

func newLint(Flags) *cobra.Command {
	var l linting
	cmd := &cobra.Command{
		Use:   "lint [DIR|FILE]",
		Short: "Find mistakes in the source of VM types",
		Long: "Check the modules of a folder, by default the current one, and the plans that they\n" +
			"produce for samples: options, devices and properties that the installed QEMU doesn't know,\n" +
			"devices with addresses that depend on their order, unused options of the type, and more. --rules\n" +
			"lists all rules; docs/vm-types/lint.md explains them. A comment disables a rule for the\n" +
			"statement that it precedes or follows on the same line:\n\n" +
			"    # lint: disable=unused-variable\n\n" +
			"QEMU is queried without a machine; no VM is started.\n\n" +
			"Exit codes: 0 no findings, 1 findings, 2 the check failed.",
		Example: "  vmrunner vmtype lint\n  vmrunner vmtype lint types/asset.star -o json",
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
			found, err := l.lintPath(cmd.Context(), orHere(args)[0])
			switch {
			case err != nil:
				return trouble{err}
			case found > 0:
				return cli.ExitError{Code: exitDiffers}
			}
			return nil
		},
	}
	cli.OutputFlag(cmd, &l.form, "text", "json")
	cmd.Flags().StringVar(&l.samples, "samples", "", "`folder` of the sample VMs, if they are not next to the types")
	cmd.Flags().StringVar(&l.qemu, "qemu", "", "QEMU `program` to query; default: the program of the plans")
	cmd.Flags().BoolVar(&l.rules, "rules", false, "list the rules with their reasons")
	cli.CompleteFolder(cmd, "samples")
	return cmd
}

// linting is the state of one call of the verb.
type linting struct {
	form, samples, qemu string
	rules               bool
	out, notes          io.Writer
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

// lintPath checks a path, prints the findings and returns their number.
func (l *linting) lintPath(ctx context.Context, path string) (found int, err error) {
	r, err := revision.Open(ctx, path, launchLimited)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	folder := lint.Folder{}
	if folder.Modules, err = r.Modules(); err != nil {
		return 0, err
	}
	if len(folder.Modules) == 0 {
		return 0, fmt.Errorf("lint: there is no *.star file in %s", path)
	}
	for name, source := range folder.Modules {
		if err := vmtypes.Syntax(l.pathOf(path, name), source); err != nil {
			return 0, err
		}
		folder.Around.Stock = strings.HasPrefix(name, vmtypes.StockPrefix)
	}
	folder.Around.Read = vmtypes.StockModule
	if err := l.planSamples(ctx, r, &folder); err != nil {
		return 0, err
	}
	findings, err := l.findIn(ctx, folder)
	if err != nil {
		return 0, err
	}
	findings = slices.DeleteFunc(findings, func(f lint.Finding) bool {
		return r.Single != "" && strings.TrimSuffix(f.File, ".star") != r.Single
	})
	for i := range findings {
		findings[i].File = l.pathOf(path, findings[i].File)
	}
	return len(findings), l.printFindings(findings)
}

// pathOf returns the file of a module.
func (l *linting) pathOf(path, module string) string {
	if strings.HasSuffix(path, ".star") {
		path = filepath.Dir(path)
	}
	return filepath.Join(path, strings.TrimPrefix(module, vmtypes.StockPrefix))
}

// planSamples computes the plans of the samples, and of the usual samples. The samples come from --samples, or from the
// folder of the types.
func (l *linting) planSamples(ctx context.Context, r *revision.Revision, folder *lint.Folder) error {
	var samples []*sample.Sample
	var err error
	if l.samples != "" {
		samples, err = revision.ReadSamples(l.samples, true)
	} else {
		samples, err = r.Samples()
	}
	if err != nil {
		return err
	}
	for _, s := range samples {
		folder.Sampled = append(folder.Sampled, s.Type)
	}
	for _, name := range r.Types() {
		usual, err := sample.Usual(name)
		if err != nil {
			return err
		}
		var reason error
		plans := len(folder.Plans)
		for _, s := range append(slices.Clone(samples), usual...) {
			if s.Type != name {
				continue
			}
			p, err := r.Plan(ctx, name, s)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if p == nil {
				reason = err
				continue
			}
			folder.Plans = append(folder.Plans, p)
		}
		if len(folder.Plans) == plans && l.definesType(folder, name) {
			fmt.Fprintf(l.notes, "note: no plan of %s was checked, because no sample has one; the last "+
				"reason was:\n  %s\n",
				name, strings.ReplaceAll(reason.Error(), "\n", "\n  "))
		}
	}
	return nil
}

// definesType reports whether a module defines launch, which makes it a type.
func (l *linting) definesType(folder *lint.Folder, name string) bool {
	return strings.Contains(folder.Modules[name+".star"]+folder.Modules[vmtypes.StockPrefix+name+".star"],
		"def launch(")
}

// findIn returns the findings of the rules. It checks each plan with its QEMU. It only checks the modules with a QEMU
// if all plans use the same QEMU.
func (l *linting) findIn(ctx context.Context, folder lint.Folder) ([]lint.Finding, error) {
	plans := map[string][]*plan.Plan{}
	for _, p := range folder.Plans {
		program := l.qemu
		if program == "" {
			program = p.QEMU.Executable
		}
		plans[program] = append(plans[program], p)
	}
	all := []lint.Finding{}
	for program, made := range plans {
		qemu, err := l.openQEMU(ctx, program)
		if err != nil {
			return nil, err
		}
		var found lint.QEMU
		if qemu != nil {
			found = qemu
		}
		if len(plans) == 1 {
			folder.Around.QEMU = found
			all = append(all, folder.Findings()...)
		} else {
			all = append(all, lint.Plans(made, folder.Modules, found)...)
		}
		if qemu != nil {
			if err := qemu.Close(); err != nil {
				return nil, err
			}
		}
	}
	if len(plans) != 1 {
		folder.Plans = nil
		all = append(all, folder.Findings()...)
	}
	return lint.Sort(all), nil
}

// openQEMU opens a QEMU for queries, or returns nil if it is not installed.
func (l *linting) openQEMU(ctx context.Context, program string) (*introspect.QEMU, error) {
	found, err := l.findQEMU(program)
	if err != nil {
		if l.qemu != "" {
			return nil, fmt.Errorf("--qemu: %w", err)
		}
		var names []string
		for _, r := range lint.Rules() {
			if r.AsksQEMU {
				names = append(names, r.Name)
			}
		}
		fmt.Fprintf(l.notes, "note: %s is not an installed QEMU; rules not applied: %s\n",
			filepath.Base(program), strings.Join(names, ", "))
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
