package vmtype

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"vmop/authoring/vmtypestest"
	"vmop/internal/cli"
)

// exitFailed is the exit code after a failed test or check.
const exitFailed = 1

func newTest(f Flags) *cobra.Command {
	var t testRun
	cmd := &cobra.Command{
		Use:   "test [DIR...]",
		Short: "Run the tests of VM types and try their samples",
		Long: "Run the functions test_* of the files *_test.star in a folder, and try the samples\n" +
			"in it and in its subfolder testdata: configurations (*.yaml), for which a plan must be\n" +
			"possible, and archives (*.txtar), which also contain the expected plan; -u updates it.\n" +
			"Nothing is started, and QEMU is not needed. DIR is the current folder by default.\n" +
			"docs/vm-types/testing.md explains how tests and samples are written.\n\n" +
			"Exit codes: 0 all passed, 1 some failed, 2 wrong usage, or nothing to test.",
		Example: "  vmrunner vmtype test\n" +
			"  vmrunner vmtype test --run 'asset_test.star/test_no_tag' -v types\n" +
			"  vmrunner vmtype test -u && git diff\n" +
			"  vmrunner vmtype test --watch",
		ValidArgsFunction: completeFolders,
		RunE: func(cmd *cobra.Command, args []string) error {
			t.page = page{
				Paint: cli.PaintFor(cmd.OutOrStdout()), w: cmd.OutOrStdout(), verbose: t.verbose,
				quiet: t.form == "json",
			}
			return t.runTests(cmd.Context(), orHere(args))
		},
	}
	t.policy = newPolicyCheck(f, cmd)
	cli.OutputFlag(cmd, &t.form, "text", "json")
	cmd.Flags().StringVar(&t.selected, "run", "", "run only tests with names, FILE/FUNCTION, that match this `regex`")
	cmd.Flags().BoolVarP(&t.update, "update", "u", false, "update the plans of goldens that differ")
	cmd.Flags().BoolVarP(&t.verbose, "verbose", "v", false, "also list passing tests, with durations")
	cmd.Flags().StringVar(&t.junit, "junit", "", "write a report for CI systems (JUnit XML) to this `file`")
	cli.CompleteFile(cmd, "junit", "xml")
	watchFlag(cmd, &t.watch)
	cmd.SetFlagErrorFunc(oneDash)
	return cmd
}

// oneDash explains the spelling of -run, which go test accepts.
func oneDash(_ *cobra.Command, err error) error {
	if strings.HasSuffix(err.Error(), "in -run") {
		err = fmt.Errorf("%w; it is spelled --run, with two dashes", err)
	}
	return cli.UsageError{Err: err}
}

// completeFolders completes folders in shells.
func completeFolders(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// orHere returns the current folder if there are no arguments.
func orHere(args []string) []string {
	if len(args) == 0 {
		return []string{"."}
	}
	return args
}

// testRun is the state of one call of the verb.
type testRun struct {
	form, selected, junit string
	update, verbose       bool
	watch                 bool
	match                 *regexp.Regexp // nil selects all
	policy                *policyCheck
	page                  page
}

func (t *testRun) runTests(ctx context.Context, dirs []string) error {
	if t.selected != "" {
		var err error
		if t.match, err = regexp.Compile(t.selected); err != nil {
			return cli.UsageError{Err: fmt.Errorf("--run: %w", err)}
		}
	}
	round := func(ctx context.Context, s selection) error { return t.testFolders(ctx, dirs, s) }
	if t.watch {
		return whileWatching(ctx, &t.page, dirs, round)
	}
	return round(ctx, selectAll)
}

// testFolders tests the selected files of the folders.
func (t *testRun) testFolders(ctx context.Context, dirs []string, selected selection) error {
	var results []vmtypestest.Result
	found := false
	for _, dir := range dirs {
		if err := requireFile("test", "folder", dir); err != nil {
			return err
		}
		folder, err := vmtypestest.Find(dir)
		if err != nil {
			return cli.UsageError{Err: err}
		}
		found = found || len(folder.Files)+len(folder.Samples) > 0
		in, err := containedIn(dir, t.policy)
		if err != nil {
			return err
		}
		options := vmtypestest.Options{Match: t.match, Update: t.update, Select: selected(folder, in.source)}
		t.page.warnMisspelt(dir, in.source, options.Select)
		if err := folder.Run(ctx, in, options, func(some []vmtypestest.Result) {
			for i := range some {
				t.page.printResult(some[i])
				some[i] = inFolder(dir, some[i])
			}
			results = append(results, some...)
		}); err != nil {
			return err
		}
	}
	switch {
	case !found:
		return cli.UsageError{Err: fmt.Errorf("there is nothing to test in %s: no *_test.star, *.txtar, or "+
			"*.yaml file with a section \"/Runner\"", strings.Join(dirs, ", "))}
	case len(results) == 0 && t.match != nil:
		return cli.UsageError{Err: fmt.Errorf("--run %s: no test has a matching name; -v lists the names", t.selected)}
	}
	return t.printSummary(results)
}

// printSummary prints the summary and returns the error for the exit code.
func (t *testRun) printSummary(results []vmtypestest.Result) error {
	if t.junit != "" {
		if err := writeJUnit(t.junit, results); err != nil {
			return err
		}
	}
	summary := vmtypestest.Summarize(results)
	if t.form == "json" {
		if err := cli.PrintValue(t.page.w, t.form, map[string]any{"summary": summary, "results": results}); err != nil {
			return err
		}
	} else {
		t.page.printTotal(summary.String(), summary.Failed > 0)
	}
	if t.page.err != nil {
		return t.page.err
	}
	if summary.Failed > 0 {
		return cli.ExitError{Code: exitFailed}
	}
	return nil
}
