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

// newVMType returns the verb for authors of VM types. It replaces this process with the program vmtype, which is
// installed next to vmrunner. So a process that runs a VM neither links nor initialises the code for authors
// (docs/decisions/0048-vmtype-program.md). This process is not hardened before, because authors' files must get
// the user's umask, and a shell may pass open files (diff <(…)).
func newVMType() *cobra.Command {
	cmd := &cobra.Command{
		Use: "vmtype", Short: "Write, test and compare VM types",
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

// becomeVMType replaces this process with the program vmtype, with the same arguments. It returns only if vmtype
// can't be started, with an error.
func becomeVMType() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the program vmtype: %w", err)
	}
	path := filepath.Join(filepath.Dir(self), "vmtype")
	err = syscall.Exec(path, os.Args, os.Environ())
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no program at %s: the verbs for VM types are a separate program; "+
			"install it next to vmrunner", path)
	}
	return fmt.Errorf("start %s: %w", path, err)
}
