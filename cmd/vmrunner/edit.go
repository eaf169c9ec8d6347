package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/internal/printable"
	"vmop/runner/inventory"
	"vmop/runner/status"
)

// faultMark starts the lines with errors that edit inserts before an invalid configuration.
const faultMark = "#! "

func newEdit(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "edit NAME",
		Short: "Change the configuration of a VM",
		Long: "Open the configuration in $VISUAL or $EDITOR, and save it if it is valid. Otherwise the\n" +
			"editor opens again with the errors as comments, which are removed when you save. To\n" +
			"cancel, close the editor without a change. edit prints which changes take effect\n" +
			"immediately and which need a restart.",
	}
	f.oneVM(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all, err := f.checkingInventory(cmd)
		if err != nil {
			return err
		}
		return editUntilValid(cmd, all, args[0])
	}
	return cmd
}

// editUntilValid lets the user edit a configuration until it is valid or the user gives up.
func editUntilValid(cmd *cobra.Command, all *inventory.Inventory, name string) error {
	before, err := all.Text(cmd.Context(), name)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "vmrunner-edit")
	if err != nil {
		return fmt.Errorf("edit %s: %w", name, err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, name+".yaml")
	shown, refused := before, []byte(nil)
	if _, fault := all.Review(cmd.Context(), name, before); fault != nil {
		shown = withFaults(before, fault)
	}
	for {
		if err := os.WriteFile(file, shown, 0o600); err != nil {
			return fmt.Errorf("edit %s: %w", name, err)
		}
		if err := runEditor(cmd.Context(), file); err != nil {
			return err
		}
		edited, err := os.ReadFile(file)
		switch {
		case err != nil:
			return fmt.Errorf("edit %s: %w", name, err)
		case bytes.Equal(edited, shown):
			cmd.PrintErrln("nothing is changed")
			return nil
		}
		text := withoutFaults(edited)
		review, fault := all.Edit(cmd.Context(), name, before, text)
		if fault == nil {
			tellReview(cmd, name, review)
			return nil
		}
		if errors.Is(fault, inventory.ErrChanged) || cmd.Context().Err() != nil || bytes.Equal(text, refused) {
			return errors.Join(fault, keepEdited(cmd, name, text))
		}
		refused, shown = text, withFaults(text, fault)
	}
}

// keepEdited stores a text that can't be saved in a temporary file.
func keepEdited(cmd *cobra.Command, name string, text []byte) error {
	kept, err := os.CreateTemp("", name+"-*.yaml")
	if err != nil {
		return fmt.Errorf("keep your text: %w", err)
	}
	_, err = kept.Write(text)
	cmd.PrintErrln("nothing is saved; your text is in", kept.Name())
	return errors.Join(err, kept.Close())
}

// runEditor runs the user's editor on a file.
func runEditor(ctx context.Context, file string) error {
	editor := firstNonEmpty(os.Getenv("VISUAL"), os.Getenv("EDITOR"), "vi")
	run := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, editor, file) // editor may contain arguments
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := run.Run(); err != nil {
		return fmt.Errorf("the editor %s (VISUAL, EDITOR): %w", editor, err)
	}
	return nil
}

// withFaults inserts the errors before a text, as comments.
func withFaults(text []byte, fault error) []byte {
	var b bytes.Buffer
	for line := range strings.Lines(printable.Text(cli.Describe(fault))) {
		b.WriteString(strings.TrimRight(faultMark+line, " \n") + "\n")
	}
	b.WriteString(faultMark + "These lines are removed. Close the editor without a change to give up.\n")
	b.Write(text)
	return b.Bytes()
}

func withoutFaults(text []byte) []byte {
	var b bytes.Buffer
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(line, []byte(strings.TrimSpace(faultMark))) {
			b.Write(line)
		}
	}
	return b.Bytes()
}

// tellReview prints the effects of a change.
func tellReview(cmd *cobra.Command, name string, r *inventory.Review) {
	for _, w := range r.Warnings {
		cmd.PrintErrln("warning:", w)
	}
	if !r.Running {
		cmd.PrintErrln("saved; it takes effect when the VM starts")
		return
	}
	for _, part := range []struct {
		title string
		list  []status.Change
	}{{"Takes effect now", r.Now}, {"Needs a restart (vmrunner restart " + name + ")", r.Later}} {
		if len(part.list) == 0 {
			continue
		}
		cmd.PrintErrln(part.title + ":")
		_ = cli.Table(cmd.ErrOrStderr(), changeRows(part.list)) // the terminal may be gone
	}
	if len(r.Now)+len(r.Later) == 0 {
		cmd.PrintErrln("saved; nothing changes for the running VM")
	}
}
