package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/internal/readfile"
	"vmop/internal/yamlfile"
	"vmop/runner/adopt/record"
	"vmop/runner/config"
	"vmop/runner/config/follow"
	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/vmtypes/policy"
)

func newDiff(f *flags) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use:   "diff NAME FILE",
		Short: "Show what another configuration would change",
		Long: "Show what would change in a running VM if its configuration were FILE, or standard input\n" +
			"(-): changes that take effect immediately, and changes that need a restart. Nothing is\n" +
			"changed. The exit code is 1 if there is a difference, and 2 after an error.",
		Example: "  vmrunner diff web new.yaml",
	}
	vm := aboutVM(f, cmd)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if _, file := vm.nameFirst(cmd, args); len(file) != 1 {
			return cli.UsageError{Err: errors.New("usage: vmrunner diff NAME FILE")}
		}
		return nil
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return completeNames(cmd, args, word)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, file := vm.nameFirst(cmd, args)
		dir, err := vm.findRuntimeDir(cmd, name)
		if err != nil {
			return err
		}
		found, err := f.forecastChange(cmd, dir, file[0])
		if err != nil {
			return cli.UsageError{Err: err} // exit code 1 would mean differences
		}
		if form == "text" {
			printForecast(cmd.OutOrStdout(), found)
		} else if err := cli.PrintValue(cmd.OutOrStdout(), form, found); err != nil {
			return err
		}
		if len(found.Now)+len(found.Later) > 0 {
			return cli.ExitError{Code: 1}
		}
		return nil
	}
	cli.OutputFlag(cmd, &form, "text", "json", "yaml")
	return cmd
}

// forecastChange returns the effect that the configuration in a file would have on the VM in a runtime directory.
func (f *flags) forecastChange(cmd *cobra.Command, dir, file string) (r control.Forecast, err error) {
	limits, err := policy.Load(f.types.Policy)
	if err != nil {
		return r, err
	}
	text, err := readAll(cmd.InOrStdin(), file)
	if err != nil {
		return r, err
	}
	started, there, err := record.Read(dir)
	switch {
	case err != nil:
		return r, err
	case !there:
		return r, fmt.Errorf("%w: there is no record in %s", control.ErrNotRunning, dir)
	}
	running, err := started.VM(cmd.Context(), dir)
	if err != nil {
		return r, fmt.Errorf("read what the VM was started with: %w", err)
	}
	cfg, _, err := config.Parse(started.ConfigFile, text)
	if err != nil {
		return r, err
	}
	r.Now, r.Later, err = follow.Forecast(cmd.Context(), f.prepareBy(limits), running, cfg)
	return r, err
}

// readAll reads a configuration; - is standard input.
func readAll(in io.Reader, file string) (text []byte, err error) {
	if file == "-" {
		text, err = io.ReadAll(io.LimitReader(in, yamlfile.LargestFile))
	} else {
		text, err = readfile.ReadFile(file, yamlfile.LargestFile)
	}
	if err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	return text, nil
}

// printForecast prints the effect that a change has or would have.
func printForecast(w io.Writer, f control.Forecast) {
	for _, part := range []struct {
		title string
		list  []status.Change
	}{{"Takes effect immediately", f.Now}, {"Needs a restart", f.Later}} {
		if len(part.list) > 0 {
			fmt.Fprintln(w, part.title+":")
			_ = cli.Table(w, changeRows(part.list)) // the terminal may be gone
		}
	}
}
