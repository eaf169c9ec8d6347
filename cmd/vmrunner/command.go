package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"vmop/cli"
	"vmop/runner/config"
	"vmop/runner/control"
)

// version is set when the program is built: -ldflags "-X main.version=…".
var version = "devel"

// flags are those of all verbs.
type flags struct {
	config string
	types  cli.TypeFlags
	log    cli.LogFlags
}

// newCommand returns the program's command.
func newCommand() *cobra.Command {
	var f flags
	run := newRun(&f)
	root := &cobra.Command{
		Use:           "vmrunner",
		Short:         "Run one virtual machine with QEMU",
		Long:          "vmrunner runs the virtual machine that a configuration file describes.\nWithout a verb it does the same as \"vmrunner run\".\n\n" + exitCodes,
		Args:          cli.NoArguments,
		RunE:          run.RunE,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return cli.UsageError{Err: err} })
	p := root.PersistentFlags()
	p.StringVarP(&f.config, "config", "c", config.DefaultFile, "the VM's configuration `file`")
	f.types.Add(root)
	f.log.Add(root)
	cli.CompleteFile(root, "config", "yaml", "yml", "json")
	root.Flags().AddFlagSet(run.Flags())
	root.AddGroup(&cobra.Group{ID: groupFile, Title: "A configuration:"}, &cobra.Group{ID: groupRunning, Title: "VMs that run:"},
		&cobra.Group{ID: groupAuthors, Title: "VM types:"})
	root.AddCommand(run, newInit(&f, run), newPlan(&f), newVersion(), newPS(), newStatus(&f), newStop(&f),
		newAction(&f, control.Reset, "Press the reset button", "reset restarts the machine at once; the guest is not asked."),
		newAction(&f, control.Pause, "Let the guest stand still", "pause stops the guest's CPUs until resume. Its clock stands still, too."),
		newAction(&f, control.Resume, "Let a paused guest go on", "resume lets a paused guest go on."),
		newConsole(&f), newVNC(&f), newScreenshot(&f), newEvents(&f), newQMP(&f), newVMType())
	return root
}

// Groups of verbs in the help.
const (
	groupFile    = "file"
	groupRunning = "running"
	groupAuthors = "authors"
)

// exitCodes is for the help; see the package comment and the constants.
const exitCodes = `Exit codes:
    0  all is well; of run: the guest or the user ended the VM
    1  something went wrong; of run: the VM failed, if QEMU has no code of its own
    2  a wrong call, no configuration, or faults in it
    3  there is no such VM; of run: the VM runs already
  130  of run: Ctrl-C (INT), and 143: TERM, before the guest ran`

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "vmrunner", version)
			return err
		},
	}
}
