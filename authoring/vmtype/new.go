package vmtype

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"vmop/authoring/scaffold"
	"vmop/internal/cli"
	"vmop/vmtypes"
)

func newNew(f Flags) *cobra.Command {
	var from, dir string
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Create a new VM type",
		Long: "Create the files of a new VM type: NAME.star, a module that builds on another type and\n" +
			"has one option; NAME_test.star, its tests; and NAME.txtar, a sample VM with its plan. They\n" +
			"are complete: start by changing them. If one of the files exists already, nothing is\n" +
			"created.",
		Example: "  vmrunner vmtype new asset\n  vmrunner vmtype new edge --from arm64 --dir types",
		Args:    oneArgument("the name of the type"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := strings.TrimSuffix(args[0], ".star")
			source, err := vmtypes.ReadSource(dir)
			if err != nil {
				return err
			}
			files, err := scaffold.Files(cmd.Context(), bounded{}, source, name, from)
			if err != nil {
				return cli.UsageError{Err: err}
			}
			if err := writeNew(dir, files); err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), nextSteps(dir, name, files))
			return err
		},
	}
	cmd.Flags().StringVar(&from, "from", "standard", "`TYPE` to build on: a stock type, or one in --dir")
	cmd.Flags().StringVar(&dir, "dir", ".", "`DIR` for the files, which is created if it doesn't exist")
	cli.CompleteFolder(cmd, "dir")
	if err := cmd.RegisterFlagCompletionFunc("from", completeTypes(f)); err != nil {
		panic(err) // the flag does not exist
	}
	return cmd
}

// writeNew creates all files. If one of them exists or cannot be written, it fails and removes the files that it has
// created.
func writeNew(dir string, files []scaffold.File) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i, f := range files {
		err := writeFile(filepath.Join(dir, f.Name), f.Text)
		if err == nil {
			continue
		}
		for _, made := range files[:i] {
			err = errors.Join(err, os.Remove(filepath.Join(dir, made.Name)))
		}
		if errors.Is(err, fs.ErrExist) {
			return cli.UsageError{Err: fmt.Errorf("%s exists already; nothing was created", filepath.Join(dir, f.Name))}
		}
		return err
	}
	return nil
}

func writeFile(path, text string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// nextSteps returns a text with the created files and the next steps.
func nextSteps(dir, name string, files []scaffold.File) string {
	about := []string{"the type", "its tests", "a sample VM and its plan"}
	var b strings.Builder
	b.WriteString("Made:\n")
	width := len(filepath.Join(dir, name+"_test.star"))
	for i, f := range files {
		fmt.Fprintf(&b, "  %-*s  %s\n", width, filepath.Join(dir, f.Name), about[i])
	}
	where := ""
	if dir != "." {
		where = " " + dir
	}
	module := filepath.Join(dir, name+".star")
	if !strings.ContainsRune(module, filepath.Separator) {
		module = "./" + module
	}
	fmt.Fprintf(&b, "\nNext steps:\n"+
		"  vmrunner vmtype test%s\n"+
		"  vmrunner vmtype render -f %s --why\n"+
		"  vmrunner vmtype show %s\n", where, filepath.Join(dir, name+".txtar"), module)
	return b.String()
}
