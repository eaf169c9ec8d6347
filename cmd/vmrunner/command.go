package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"vmop/authoring/vmtype"
	"vmop/cli"
	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/vmtypes"
	"vmop/vmtypes/policy"
)

// version is set when the program is built: -ldflags "-X main.version=…".
var version = "devel"

// flags are those of all verbs.
type flags struct {
	config  string
	vmTypes string
	policy  string
	log     cli.LogFlags
}

// newCommand returns the program's command; umask is what the user has chosen.
func newCommand(umask int) *cobra.Command {
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
	p.StringVar(&f.vmTypes, "vmtypes", vmtypes.DefaultDir, "`folder` of custom VM types")
	p.StringVar(&f.policy, "vmtypes-policy", policy.DefaultFile, "`file` that says what VM types may do; the default may\nbe absent")
	f.log.Add(root)
	cli.CompleteFile(root, "config", "yaml", "yml", "json")
	cli.CompleteFolder(root, "vmtypes")
	cli.CompleteFile(root, "vmtypes-policy", "yaml", "yml")
	root.Flags().AddFlagSet(run.Flags())
	root.AddGroup(&cobra.Group{ID: groupFile, Title: "A configuration:"}, &cobra.Group{ID: groupRunning, Title: "VMs that run:"},
		&cobra.Group{ID: groupAuthors, Title: "VM types:"})
	root.AddCommand(run, newInit(&f, run), newPlan(&f), newVersion(), newPS(), newStatus(&f), newStop(&f),
		newAction(&f, control.Reset, "Press the reset button", "reset restarts the machine at once; the guest is not asked."),
		newAction(&f, control.Pause, "Let the guest stand still", "pause stops the guest's CPUs until resume. Its clock stands still, too."),
		newAction(&f, control.Resume, "Let a paused guest go on", "resume lets a paused guest go on."),
		newConsole(&f), newVNC(&f), newScreenshot(&f), newEvents(&f), newQMP(&f), newVMType(&f, umask))
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

// newVMType returns the verbs for authors. Nobody's VM is concerned, and what they
// write is for others, too.
func newVMType(f *flags, umask int) *cobra.Command {
	cmd := vmtype.New(vmtype.Flags{Folder: &f.vmTypes, Policy: &f.policy})
	cmd.GroupID = groupAuthors
	cmd.PersistentPreRun = func(*cobra.Command, []string) { unix.Umask(umask) }
	help := cmd.HelpFunc()
	cmd.SetHelpFunc(func(c *cobra.Command, args []string) {
		for _, running := range []string{"config", "log-format", "log-level"} {
			c.InheritedFlags().Lookup(running).Hidden = true
		}
		help(c, args)
	})
	return cmd
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "vmrunner", version)
			return err
		},
	}
}
