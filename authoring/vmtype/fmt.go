package vmtype

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"vmop/authoring/format"
	"vmop/authoring/textdiff"
	"vmop/internal/atomicfile"
	"vmop/internal/cli"
)

func newFmt(Flags) *cobra.Command {
	var f formatting
	cmd := &cobra.Command{
		Use:   "fmt [FILES|DIR]",
		Short: "Format the source of VM types",
		Long: "Rewrite modules in the standard format, and print the names of changed modules.\n" +
			"For a folder, by default the current one, it formats all modules in it and below, except in\n" +
			"testdata. \"-\" formats standard input to standard output.\n\n" +
			"Exit codes: 0 success, 1 --check found unformatted files, 2 a file could not be formatted.",
		Example: "  vmrunner vmtype fmt\n  vmrunner vmtype fmt --check -d types",
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Paint = cli.PaintFor(cmd.OutOrStdout())
			f.in, f.out = cmd.InOrStdin(), cmd.OutOrStdout()
			if len(args) == 0 {
				args = []string{"."}
			}
			var errs []error
			for _, arg := range args {
				errs = append(errs, f.formatArgument(arg))
			}
			if err := errors.Join(errs...); err != nil {
				return cli.UsageError{Err: err}
			}
			if f.check && f.changed > 0 {
				return cli.ExitError{Code: exitDiffers}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&f.check, "check", false, "change nothing, and list the files that would change")
	cmd.Flags().BoolVarP(&f.diff, "diff", "d", false, "change nothing, and show what would change")
	return cmd
}

// formatting is the state of one call of the verb.
type formatting struct {
	cli.Paint
	in          io.Reader
	out         io.Writer
	check, diff bool
	changed     int
}

func (f *formatting) formatArgument(arg string) error {
	if arg == "-" {
		return f.standardInput()
	}
	if err := requireFile("fmt", "file or folder", arg); err != nil {
		return err
	}
	info, err := os.Stat(arg)
	switch {
	case err != nil:
		return fmt.Errorf("format: %w", err)
	case !info.IsDir():
		return f.formatFile(arg)
	}
	paths, err := modulesBelow(arg)
	if err == nil && len(paths) == 0 {
		err = fmt.Errorf("format: there is no *.star file in %s", arg)
	}
	errs := []error{err}
	for _, path := range paths {
		errs = append(errs, f.formatFile(path))
	}
	return errors.Join(errs...)
}

// modulesBelow returns the modules in a folder and its subfolders. It skips testdata, which can contain invalid
// modules, and hidden folders.
func modulesBelow(dir string) ([]string, error) {
	var paths []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != dir && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")):
			return filepath.SkipDir
		case filepath.Ext(path) == ".star" && d.Type().IsRegular():
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for modules: %w", err)
	}
	return paths, nil
}

func (f *formatting) standardInput() error {
	text, err := io.ReadAll(f.in)
	if err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	formatted, err := format.Source("<stdin>", string(text))
	if err != nil {
		return err
	}
	if f.check || f.diff {
		return f.reportChange("<stdin>", string(text), formatted)
	}
	_, err = io.WriteString(f.out, formatted)
	return err
}

func (f *formatting) formatFile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("format: %w", err)
	}
	formatted, err := format.Source(path, string(text))
	if err != nil || formatted == string(text) {
		return err
	}
	if !f.check && !f.diff {
		if err := atomicfile.Rewrite(path, []byte(formatted)); err != nil {
			return fmt.Errorf("write what was formatted: %w", err)
		}
	}
	return f.reportChange(path, string(text), formatted)
}

// reportChange prints the name or the difference of a file that has changed or would change.
func (f *formatting) reportChange(path, before, after string) error {
	if before == after {
		return nil
	}
	f.changed++
	if !f.diff {
		_, err := fmt.Fprintln(f.out, cli.Printable(path))
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", f.Bold("--- "+cli.Printable(path)))
	for _, h := range textdiff.Hunks(before, after) {
		fmt.Fprintf(&b, "%s\n", f.Cyan(fmt.Sprintf("@@ line %d", h.Old)))
		for _, line := range h.Lines {
			text := string(line.Sign) + line.Text
			switch line.Sign {
			case '-':
				text = f.Red(text)
			case '+':
				text = f.Green(text)
			}
			b.WriteString(text + "\n")
		}
	}
	_, err := io.WriteString(f.out, b.String())
	return err
}
