package vmtype

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"vmop/authoring/vmtypestest"
	"vmop/internal/cli"
	"vmop/vmtypes"
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
			"Tests and samples that have passed with the same files and program are not repeated.\n" +
			"docs/vm-types/testing.md explains how tests and samples are written.\n\n" +
			"Exit codes: 0 all passed, 1 some failed, 2 wrong usage, or nothing to test.",
		Example: "  vmrunner vmtype test\n" +
			"  vmrunner vmtype test --run 'asset_test.star/test_no_tag' -v types\n" +
			"  vmrunner vmtype test -u && git diff\n" +
			"  vmrunner vmtype test --coverage=lcov.info --draw 100\n" +
			"  vmrunner vmtype test --watch",
		ValidArgsFunction: completeFolders,
		RunE: func(cmd *cobra.Command, args []string) error {
			t.page = page{
				Paint: cli.PaintFor(cmd.OutOrStdout()), w: cmd.OutOrStdout(), verbose: t.verbose,
				quiet: t.form == "json",
			}
			if err := t.drawing.checkFlags(cmd); err != nil {
				return err
			}
			return t.runTests(cmd.Context(), orHere(args))
		},
	}
	t.policy = newPolicyCheck(f, cmd)
	t.addFlags(cmd)
	return cmd
}

// addFlags adds the flags of the verb.
func (t *testRun) addFlags(cmd *cobra.Command) {
	cli.OutputFlag(cmd, &t.form, "text", "json")
	runFlag(cmd, &t.selected, "run only tests with names, FILE/FUNCTION, that match this `REGEXP`")
	cmd.Flags().BoolVarP(&t.update, "update", "u", false, "update the expected plans that differ")
	cmd.Flags().BoolVarP(&t.verbose, "verbose", "v", false, "also list passed tests, with durations")
	cmd.Flags().StringVar(&t.junit, "junit", "", "`FILE` for a report for CI systems (JUnit XML)")
	cli.CompleteFile(cmd, "junit", "xml")
	watchFlag(cmd, &t.watch)
	cmd.Flags().BoolVar(&t.noCache, "no-cache", false, "also run tests that have passed with the same files")
	cmd.Flags().StringVar(&t.coverage.file, "coverage", "",
		"list the lines and branches that no test or sample reaches;\nwith =`FILE`, also write them for editors (LCOV)")
	cmd.Flags().Lookup("coverage").NoOptDefVal = onlyPrinted
	cli.CompleteFile(cmd, "coverage", "info", "lcov")
	cmd.Flags().IntVar(&t.drawing.number, "draw", 0, "also try each type with `N` drawn VMs")
	cmd.Flags().Uint64Var(&t.drawing.seed, "seed", 1, "draw other VMs: `NUMBER`")
	cmd.Flags().BoolVar(&t.drawing.save, "save", false, "save drawn VMs that make a type fail as samples in testdata")
	cli.AtMostOne(cmd, "watch", "coverage")
}

// runFlag adds --run.
func runFlag(cmd *cobra.Command, selected *string, usage string) {
	cmd.Flags().StringVar(selected, "run", "", usage)
	cmd.SetFlagErrorFunc(oneDash)
}

// compileRun compiles the value of --run; "" stands for no expression.
func compileRun(selected string, match **regexp.Regexp) (err error) {
	if selected != "" {
		if *match, err = regexp.Compile(selected); err != nil {
			return cli.UsageError{Err: fmt.Errorf("--run: %w", err)}
		}
	}
	return nil
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
	watch, noCache        bool
	coverage              coverageRun
	drawing               drawing
	match                 *regexp.Regexp // nil selects all
	policy                *policyCheck
	page                  page
}

func (t *testRun) runTests(ctx context.Context, dirs []string) error {
	if err := compileRun(t.selected, &t.match); err != nil {
		return err
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
		found = found || len(folder.Files)+len(folder.Samples) > 0 || t.drawing.number > 0
		if err := t.testFolder(ctx, folder, selected, func(some []vmtypestest.Result) {
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

// testFolder tests the selected files of a folder, and draws VMs for its types.
func (t *testRun) testFolder(
	ctx context.Context, folder *vmtypestest.Folder, selected selection, each func([]vmtypestest.Result),
) error {
	in, err := containedIn(folder.Dir, t.policy)
	if err != nil {
		return err
	}
	defer in.close()
	counts := &vmtypes.Coverage{}
	if t.coverage.file != "" {
		ctx = vmtypes.WithCoverage(ctx, counts)
	}
	options := vmtypestest.Options{Match: t.match, Update: t.update, Select: selected(folder, in.source)}
	if options.Cache, err = t.openCache(folder, in.source); err != nil {
		return err
	}
	t.page.warnMisspelt(folder.Dir, in.source, options.Select)
	if err := folder.Run(ctx, in, options, each); err != nil {
		return err
	}
	if err := t.drawing.drawFolder(ctx, folder, in, options, each); err != nil {
		return err
	}
	t.coverage.addFolder(folder.Dir, in.source, counts.Take())
	_ = options.Cache.Write() // without it, the next run takes longer
	return nil
}

// openCache returns the cache of a folder; nil without a cache. Coverage needs all tests.
func (t *testRun) openCache(folder *vmtypestest.Folder, source vmtypes.Source) (*vmtypestest.Cache, error) {
	if t.noCache || t.coverage.file != "" {
		return nil, nil
	}
	caches, err := os.UserCacheDir()
	if err != nil {
		return nil, nil // without a home, all tests run
	}
	program, err := programHash()
	if err != nil {
		return nil, err
	}
	rules, err := t.policy.text()
	if err != nil {
		return nil, err
	}
	return vmtypestest.OpenCache(filepath.Join(caches, "vmrunner", "vmtype-test"), folder, source, program+rules)
}

// programHash returns a hash of this program, which contains the stock library.
func programHash() (string, error) {
	file, err := os.Open("/proc/self/exe")
	if err != nil {
		return "", fmt.Errorf("identify this program for the cache of tests: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", fmt.Errorf("identify this program for the cache of tests: %w", err)
	}
	return string(hash.Sum(nil)), nil
}

// printSummary prints the summary and returns the error for the exit code.
func (t *testRun) printSummary(results []vmtypestest.Result) error {
	if t.junit != "" {
		if err := writeJUnit(t.junit, results); err != nil {
			return err
		}
	}
	if err := t.coverage.writeFile(); err != nil {
		return err
	}
	summary := vmtypestest.Summarize(results)
	if t.form == "json" {
		value := map[string]any{"summary": summary, "results": results}
		if t.coverage.file != "" {
			value["coverage"] = t.coverage.files
		}
		if err := cli.PrintValue(t.page.w, t.form, value); err != nil {
			return err
		}
	} else {
		t.page.printCoverage(t.coverage.files)
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
