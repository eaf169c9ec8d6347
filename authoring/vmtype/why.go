package vmtype

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vmop/authoring/influence"
	"vmop/internal/cli"
	"vmop/internal/spelling"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

func newWhy(f Flags) *cobra.Command {
	var w why
	cmd := &cobra.Command{
		Use:   "why PATTERN -f vm.yaml",
		Short: "Show where an argument comes from and what it depends on",
		Long: "Show the lines of a plan that match a pattern (a regular expression): the source\n" +
			"that created each of them, with the calls that led there, and the fields of the vm section\n" +
			"and facts about the computer on which it depends.\n\n" +
			"Dependencies are found by trial: each field is changed on its own, and the plan is computed\n" +
			"again. Therefore they apply to this VM only, and a field that matters only in combination\n" +
			"with another field is not found.\n\n" + trialHelp + "\n\n" +
			"Exit codes: 0 success, 1 nothing matches or there is no plan, 2 wrong usage.",
		Example: "  vmrunner vmtype why -netdev -f vm.yaml\n" +
			"  vmrunner vmtype why 'smp|-m ' -f vm.yaml --set vm.maximumCpus=8",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.UsageError{Err: fmt.Errorf("why takes a PATTERN, such as netdev; got %d arguments",
					len(args))}
			}
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			w.out, w.errs, w.Paint = cmd.OutOrStdout(), cmd.ErrOrStderr(), cli.PaintFor(cmd.OutOrStdout())
			return w.explainLines(cmd.Context(), args[0])
		},
	}
	w.trial = newTrial(f, cmd)
	cli.OutputFlag(cmd, &w.form, "text", "json")
	return cmd
}

// why is the state of one call of the verb.
type why struct {
	cli.Paint
	trial     *trial
	form      string
	out, errs io.Writer
}

// reason is the explanation of a line of a plan.
type reason struct {
	Line      string       `json:"line"`
	Calls     []call       `json:"calls,omitempty"`
	DependsOn []dependency `json:"dependsOn"`
	// Unknown are fields without another value that has a plan.
	Unknown []dependency `json:"unknown,omitempty"`
}

type call struct {
	File     string `json:"file"`
	Line     int    `json:"line"`
	Function string `json:"function"`
	Source   string `json:"source"`
	// Step is the step that begins with this call: changed, or replaced, for the creation of the replaced option. It is
	// empty for the creation of the option itself.
	Step plan.Step `json:"step,omitempty"`
}

type dependency struct {
	Path  string `json:"path"`
	Value string `json:"value,omitempty"`
}

func (w *why) explainLines(ctx context.Context, text string) error {
	pattern, err := regexp.Compile(text)
	if err != nil {
		return cli.UsageError{Err: fmt.Errorf("read the PATTERN: %w", err)}
	}
	c, err := w.trial.readFiles(ctx)
	if err != nil {
		return err
	}
	asked := influence.RecordQueries(&c.host)
	p, err := c.launchPlan(ctx)
	c.printWarnings(w.errs, p)
	if p == nil || err != nil && !errors.As(err, new(*vmtypes.FaultsError)) {
		return err
	}
	lines := slices.DeleteFunc(p.Lines(), func(l plan.Line) bool { return !pattern.MatchString(l.Text) })
	if len(lines) == 0 {
		return fmt.Errorf("no line of the plan of type %s matches %q%s", p.Type, text, suggestWord(text, p))
	}
	reasons, err := w.reasonsOf(ctx, c, p, lines, *asked)
	if err != nil {
		return err
	}
	if w.form == "json" {
		return cli.PrintValue(w.out, w.form, reasons)
	}
	return w.printReasons(reasons)
}

// suggestWord suggests a word from the plan.
func suggestWord(text string, p *plan.Plan) string {
	var words []string
	for _, o := range p.QEMU.Args {
		words = append(words, strings.TrimLeft(o.Flag, "-"), o.Value, o.ID())
	}
	if word := spelling.Nearest(strings.TrimLeft(text, "-"), words); word != "" {
		return " (did you mean " + word + "?)"
	}
	return ""
}

// reasonsOf returns the reasons of the lines.
func (w *why) reasonsOf(
	ctx context.Context, c *candidate, p *plan.Plan, lines []plan.Line, asked influence.Queries,
) ([]reason, error) {
	d, err := c.vmType.Describe(ctx)
	if err != nil {
		return nil, err
	}
	fields, err := influence.Study(c.spec, d.Options, func(specs []vmspec.Spec) ([]string, error) {
		return c.vmType.Texts(ctx, specs, c.host)
	})
	if err != nil {
		return nil, fmt.Errorf("find its dependencies: %w", err)
	}
	facts := influence.HostFields(c.host, asked)
	without := make([]string, len(facts))
	for i, fact := range facts {
		made, err := c.vmType.Texts(ctx, []vmspec.Spec{c.spec}, fact.Host)
		if err != nil {
			return nil, fmt.Errorf("find its dependencies: %w", err)
		}
		without[i] = made[0]
	}
	source := sourceLines(c.vmType.Source)
	var list []reason
	for _, l := range lines {
		r := reason{Line: strings.TrimSpace(l.Text), DependsOn: []dependency{}}
		for _, f := range l.Origin {
			r.Calls = append(r.Calls, call{f.File, f.Line, f.Function, source(f.File, f.Line), f.Step})
		}
		for _, f := range fields.Of(l.Text, p.Text()) {
			if f.Doubtful {
				r.Unknown = append(r.Unknown, dependency{f.Path, f.Value})
			} else {
				r.DependsOn = append(r.DependsOn, dependency{f.Path, f.Value})
			}
		}
		for i, fact := range facts {
			if influence.Needs(l.Text, p.Text(), without[i]) {
				r.DependsOn = append(r.DependsOn, dependency{fact.Path, fact.Value})
			}
		}
		list = append(list, r)
	}
	return list, nil
}

// sourceLines returns a function that returns source lines of modules.
func sourceLines(custom vmtypes.Source) func(file string, line int) string {
	return func(file string, line int) string {
		text, ok := custom.Modules[file]
		if !ok {
			var err error
			if text, err = vmtypes.StockModule(file); err != nil {
				return ""
			}
		}
		lines := strings.Split(text, "\n")
		if line < 1 || line > len(lines) {
			return ""
		}
		return strings.TrimSpace(lines[line-1])
	}
}

// widestSource is the maximum length of a shown source line.
const widestSource = 100

func (w *why) printReasons(reasons []reason) error {
	var b strings.Builder
	for i, r := range reasons {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(w.Bold(cli.Printable(r.Line)) + "\n")
		var rows [][2]string
		heading := plan.Step("").String()
		for _, c := range r.Calls {
			if c.Step != "" {
				w.printSection(&b, heading, rows, w.Cyan)
				heading, rows = c.Step.String(), nil
			}
			text := []rune(cli.Printable(c.Source))
			if len(text) > widestSource {
				text = append(text[:widestSource], '…')
			}
			rows = append(rows, [2]string{fmt.Sprintf("%s:%d %s", c.File, c.Line, c.Function), string(text)})
		}
		w.printSection(&b, heading, rows, w.Cyan)
		w.printSection(&b, "depends on", rowsOf(r.DependsOn), w.Green)
		w.printSection(&b, "perhaps on: other values give no plan", rowsOf(r.Unknown), w.Yellow)
		if len(r.DependsOn)+len(r.Unknown) == 0 {
			b.WriteString("  depends on nothing that was tried: no single change affects it\n")
		}
	}
	_, err := io.WriteString(w.out, b.String())
	return err
}

func rowsOf(list []dependency) [][2]string {
	var rows [][2]string
	for _, d := range list {
		rows = append(rows, [2]string{cli.Printable(d.Path), cli.Printable(d.Value)})
	}
	return rows
}

// printSection writes two columns below a heading.
func (w *why) printSection(b *strings.Builder, heading string, rows [][2]string, paint func(string) string) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "  %s\n", heading)
	width := 0
	for _, row := range rows {
		width = max(width, len([]rune(row[0])))
	}
	for _, row := range rows {
		blanks := ""
		if row[1] != "" {
			blanks = strings.Repeat(" ", width+2-len([]rune(row[0])))
		}
		fmt.Fprintf(b, "    %s%s%s\n", paint(row[0]), blanks, row[1])
	}
}
