package vmtype

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vmop/authoring/sample"
	"vmop/cli"
	"vmop/vmtypes"
)

func newProfile(f Flags) *cobra.Command {
	var p profile
	cmd := &cobra.Command{
		Use:   "profile [DIR | -f vm.yaml]",
		Short: "Tell which functions of a VM type take how long",
		Long: "profile makes plans and counts what each function takes: steps of the interpreter, which\n" +
			"are the same each time, and time. It does that for one VM (-f), or for all samples of a\n" +
			"folder, the current one if none is named. WITH CALLS includes the functions that are called.\n\n" + trialHelp,
		Example: "  vmrunner vmtype profile types\n" +
			"  vmrunner vmtype profile -f vm.yaml --sort time --top 5",
		Args: atMostOne("profile", "a folder with samples"), ValidArgsFunction: completeFolders,
		PreRunE: func(*cobra.Command, []string) error {
			if !slices.Contains(profileOrders(), p.order) {
				return cli.UsageError{Err: fmt.Errorf("--sort %s: want %s", p.order, strings.Join(profileOrders(), ", "))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			p.out, p.errs = cmd.OutOrStdout(), cmd.ErrOrStderr()
			return p.run(cmd.Context(), args)
		},
	}
	p.trial = newTrial(f, cmd)
	cli.OutputFlag(cmd, &p.form, "text", "json")
	cmd.Flags().StringVar(&p.order, "sort", "steps", strings.Join(profileOrders(), ", "))
	cmd.Flags().IntVar(&p.top, "top", 20, "how `many` functions to show; 0: all")
	cli.CompleteFlag(cmd, "sort", profileOrders()...)
	return cmd
}

func profileOrders() []string { return []string{"steps", "time", "all"} }

// profile is one call of the verb.
type profile struct {
	trial       *trial
	form, order string
	top         int
	out, errs   io.Writer
}

func (p *profile) run(ctx context.Context, args []string) error {
	if len(args) > 0 && p.trial.file != "" {
		return cli.UsageError{Err: errors.New("a folder and -f exclude each other")}
	}
	files := []string{p.trial.file}
	if p.trial.file == "" {
		dir := orHere(args)[0]
		err := isFolder(dir, *p.trial.folder)
		if err != nil {
			return err
		}
		if files, err = sample.Find(dir); err != nil {
			return cli.UsageError{Err: err}
		}
		if len(files) == 0 {
			return cli.UsageError{Err: fmt.Errorf("there is no sample in %s; say which VM to take: -f vm.yaml", dir)}
		}
	}
	sum := map[string]*vmtypes.Cost{}
	for _, file := range files {
		p.trial.file = file
		c, err := p.trial.read()
		if err != nil {
			return err
		}
		c.warn(p.errs)
		costs, err := c.vmType.Profile(ctx, c.spec, c.host)
		if err = c.locate(err); err != nil && !errors.As(err, new(*vmtypes.FaultsError)) {
			return fmt.Errorf("%s: %w", file, err)
		}
		add(sum, costs)
	}
	return p.print(sum, len(files))
}

// isFolder refuses what is no folder, such as the name of a type, with what would
// be right.
func isFolder(dir, types string) error {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return cli.UsageError{Err: fmt.Errorf("profile takes a folder with samples; the VM of a file is asked for with -f %s", dir)}
	}
	err := there("profile", "folder", dir)
	if err != nil && (vmtypes.IsStock(dir) || isThere(types, dir) || isThere(".", dir)) {
		err = cli.UsageError{Err: fmt.Errorf("profile takes a folder with samples, not a VM type; say for which VM: -f vm.yaml --set vmType=%s", dir)}
	}
	return err
}

func add(sum map[string]*vmtypes.Cost, costs []vmtypes.Cost) {
	for _, c := range costs {
		key := c.File + ":" + strconv.Itoa(c.Line) + " " + c.Function
		s := sum[key]
		if s == nil {
			s = &vmtypes.Cost{File: c.File, Line: c.Line, Function: c.Function}
			sum[key] = s
		}
		s.Steps += c.Steps
		s.Time += c.Time
		s.AllSteps += c.AllSteps
		s.AllTime += c.AllTime
	}
}

func (p *profile) print(sum map[string]*vmtypes.Cost, vms int) error {
	var steps uint64
	var took time.Duration
	costs := []*vmtypes.Cost{}
	for _, c := range sum {
		costs = append(costs, c)
		steps += c.Steps
		took += c.Time
	}
	slices.SortFunc(costs, p.compare)
	shown := costs
	if p.top > 0 {
		shown = costs[:min(p.top, len(costs))]
	}
	if p.form == "json" {
		return cli.PrintValue(p.out, p.form, map[string]any{"vms": vms, "steps": steps, "time": took, "functions": shown})
	}
	rows := [][]string{{"STEPS", "%", "WITH CALLS", "TIME", "WITH CALLS", "FUNCTION"}}
	for _, c := range shown {
		rows = append(rows, []string{
			strconv.FormatUint(c.Steps, 10), fmt.Sprintf("%d%%", c.Steps*100/max(steps, 1)), strconv.FormatUint(c.AllSteps, 10),
			inMilliseconds(c.Time), inMilliseconds(c.AllTime), fmt.Sprintf("%s:%d %s", c.File, c.Line, c.Function),
		})
	}
	if err := cli.Table(p.out, rows); err != nil {
		return err
	}
	of := "1 VM"
	if vms != 1 {
		of = fmt.Sprintf("%d VMs", vms)
	}
	_, err := fmt.Fprintf(p.out, "\n%d steps and %s in %d functions, for %s\n", steps, inMilliseconds(took), len(costs), of)
	return err
}

func (p *profile) compare(a, b *vmtypes.Cost) int {
	by := cmp.Compare(b.Steps, a.Steps)
	switch p.order {
	case "time":
		by = cmp.Compare(b.Time, a.Time)
	case "all":
		by = cmp.Compare(b.AllSteps, a.AllSteps)
	}
	return cmp.Or(by, cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
}

func inMilliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}
