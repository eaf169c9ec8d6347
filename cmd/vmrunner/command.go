package main

import (
	"github.com/spf13/cobra"

	"vmop/cli"
	"vmop/runner/config"
	"vmop/runner/control"
)

// version is set at build time: -ldflags "-X main.version=…".
var version = "devel"

// flags are the flags that all verbs share.
type flags struct {
	config string
	types  cli.TypeFlags
	log    cli.LogFlags
	// console is where the log goes beside the guest's console; nil if that isn't shown.
	console *consoleLog
}

// newCommand returns the root command with all its verbs, for arguments that begin with run
// with that one alone: to make the others takes a twentieth of the time until QEMU is executed.
//
// See docs/decisions/0017-cobra.md.
func newCommand(args ...string) *cobra.Command {
	var f flags
	run := newRun(&f)
	root := &cobra.Command{
		Use:   "vmrunner",
		Short: "Run one virtual machine with QEMU",
		Long: "vmrunner runs the virtual machine that a configuration file describes.\n" +
			"Without a verb it does the same as \"vmrunner run\".\n\n" + exitCodes,
		Args: cli.NoArguments,
		RunE: run.RunE,
	}
	cli.SetUp(root, version)
	p := root.PersistentFlags()
	p.StringVarP(&f.config, "config", "c", config.DefaultFile, "the VM's configuration `file`")
	f.types.Add(root)
	f.log.Add(root)
	cli.CompleteFile(root, "config", "yaml", "yml", "json")
	root.Flags().AddFlagSet(run.Flags())
	root.AddGroup(&cobra.Group{ID: groupNamed, Title: "Manage the VMs of this computer:"},
		&cobra.Group{ID: groupFile, Title: "Run a VM in the foreground:"},
		&cobra.Group{ID: groupRunning, Title: "Manage running VMs:"},
		&cobra.Group{ID: groupAuthors, Title: "Write VM types:"})
	if len(args) > 0 && args[0] == run.Name() {
		root.AddCommand(run)
		return root
	}
	root.AddCommand(newList(&f), newCreate(&f), newConvert(), newGrant(), newStart(&f), newRestart(&f), newEdit(&f),
		newDelete(&f), newAutostart(&f), newLog(&f), newDisk(&f), newImage(), newSnapshot(&f), newReclaim(&f))
	root.AddCommand(newView(&f), newSSH(&f), newCopy(&f), newPortForward(&f))
	root.AddCommand(run, newInit(&f, run), newPlan(&f), newPS(), newTop(), newStatus(&f), newStop(&f),
		newAction(&f, control.Reset, "Press the reset button",
			"reset restarts the machine immediately, without notice to the guest."),
		newAction(&f, control.Pause, "Pause the guest",
			"pause stops the guest's CPUs, and thereby its clock, until resume."),
		newAction(&f, control.Resume, "Resume a paused guest", "resume lets a paused guest continue."),
		newFreeze(&f), newThaw(&f), newMigrate(&f), newReceive(&f),
		newConsole(&f), newVNC(&f), newScreenshot(&f), newEvents(&f), newQMP(&f), newDiff(&f), newPipe(&f), newVMType())
	suggest(root)
	return root
}

// Groups of verbs in the help.
const (
	groupNamed   = "named"
	groupFile    = "file"
	groupRunning = "running"
	groupAuthors = "authors"
)

// exitCodes are the exit codes, for the help.
const exitCodes = `Exit codes:
    0  success; run: the guest or the user ended the VM
    1  failure; run: the VM failed, and QEMU reported no exit code of its own
    2  wrong usage, or a configuration that is missing or invalid
    3  the VM is not running; run: the VM is already running
  130  run: Ctrl-C (INT), and 143: TERM, before the guest was started`
