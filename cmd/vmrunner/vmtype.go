package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// newVMType returns the verb for authors of VM types. With it this process becomes the
// program vmtype, which is installed beside vmrunner, so that what authors need is
// neither linked nor initialised where a VM runs (docs/decisions/0048-vmtype-program.md).
// Authors' files get the umask that the user has chosen, and a shell may hand over open
// files (diff <(…)), so nothing is hardened before.
func newVMType() *cobra.Command {
	cmd := &cobra.Command{
		Use: "vmtype", Short: "Write, test and compare VM types", GroupID: groupAuthors,
		DisableFlagParsing: true,
		PersistentPreRun:   func(*cobra.Command, []string) {},
		RunE:               func(*cobra.Command, []string) error { return becomeVMType() },
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			cobra.CompErrorln(becomeVMType().Error())
			return nil, cobra.ShellCompDirectiveError
		},
	}
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) { // vmrunner help vmtype …
		cmd.PrintErrln("vmrunner:", becomeVMType())
		os.Exit(exitFailed)
	})
	return cmd
}

// becomeVMType replaces this process by the program vmtype, with the same arguments. It
// returns an error, and only then, if that can't be started.
func becomeVMType() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program vmtype: %w", err)
	}
	path := filepath.Join(filepath.Dir(self), "vmtype")
	err = syscall.Exec(path, os.Args, os.Environ())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no program at %s: the verbs for VM types are a program of their own; "+
			"install it beside vmrunner", path)
	}
	return fmt.Errorf("start %s: %w", path, err)
}
