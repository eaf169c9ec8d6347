package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/internal/cli/typeflags"
	"vmop/runner/config"
	"vmop/runner/control"
)

// version is set at build time: -ldflags "-X main.version=…".
var version = "devel"

// flags are the flags that all verbs share.
type flags struct {
	config string
	types  typeflags.Flags
	log    cli.LogFlags
	// console receives the log while the guest's console is shown; otherwise it is nil.
	console *consoleLog
}

// newRunnerCommand returns the root command with all its verbs. If the arguments start with run, it adds only that
// verb, because adding the others takes a twentieth of the time until QEMU is executed.
//
// See docs/decisions/0017-cobra.md.
func newRunnerCommand(args ...string) *cobra.Command {
	var f flags
	run := newRun(&f)
	root := &cobra.Command{
		Use:   "vmrunner",
		Short: "Run virtual machines with QEMU",
		Long: "Create and run virtual machines with QEMU.\n" +
			"Without a verb, vmrunner runs the VM of -c, or of the default configuration if it exists.\n\n" + exitCodes,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.hasConfig() != nil && cmd.Flags().NFlag() == 0 {
				return cmd.Help()
			}
			return run.RunE(cmd, args)
		},
	}
	cli.SetUp(root, version)
	p := root.PersistentFlags()
	p.StringVarP(&f.config, "config", "c", config.DefaultFile, "configuration `FILE` of the VM")
	f.types.Add(root)
	f.log.Add(root)
	cli.CompleteFile(root, "config", "yaml", "yml", "json")
	root.Flags().AddFlagSet(run.Flags())
	if len(args) > 0 && args[0] == run.Name() {
		root.AddCommand(run)
		groupVerbs(root)
		return root
	}
	root.AddCommand(newListCommand(&f), newCreate(&f), newConvert(), newGrant(), newUp(&f), newStart(&f),
		newRestart(&f), newEdit(&f), newDelete(&f),
		newSet(&f), newResize(&f), newCD(&f), newClone(&f), newRename(&f), newDescribe(&f),
		newAutostart(&f), newLog(&f), newDiskCommand(&f), newNICCommand(&f), newImage(),
		newSnapshot(&f), newReclaim(&f))
	root.AddCommand(newView(&f), newSSH(&f), newCopy(&f), newPortForward(&f))
	root.AddCommand(run, newInit(&f, run), newPlan(&f), newPS(), newTop(), newStatus(&f), newStop(&f),
		newAction(&f, control.Reset, "was reset", "Press the reset button",
			"Restart the machine immediately, without notice to the guest."),
		newAction(&f, control.Pause, "is paused", "Pause the guest",
			"Stop the guest's CPUs, and so its clock, until resume."),
		newAction(&f, control.Resume, "continues", "Resume a paused guest", "Continue a paused guest."),
		newFreeze(&f), newThaw(&f), newMigrate(&f), newReceive(&f),
		newConsole(&f), newVNC(&f), newScreenshot(&f), newEvents(&f), newQMP(&f), newDiff(&f), newPipe(&f),
		newWhy(&f), newVMType())
	suggestVerbs(root)
	groupVerbs(root)
	return root
}

// groupVerbs assigns the verbs to groups in the help, the common verbs first.
func groupVerbs(root *cobra.Command) {
	for _, g := range []struct{ title, verbs string }{
		{"Common commands:", "up create list start stop restart status edit delete"},
		{"Change and copy VMs:", "set resize cd clone rename"},
		{"Use a guest:", "console view ssh cp port-forward screenshot vnc"},
		{"Manage disks, images, network cards and snapshots:", "disk image nic snapshot"},
		{"Examine VMs:", "describe diff events log plan ps top why"},
		{"Control a running VM:", "freeze pause reset resume thaw"},
		{"Move VMs:", "convert migrate receive reclaim"},
		{"Automate and extend:", "autostart init pipe qmp run vmtype"},
	} {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, verb := range root.Commands() {
			if slices.Contains(strings.Fields(g.verbs), verb.Name()) {
				verb.GroupID = g.title
			}
		}
	}
}

// exitCodes are the exit codes, for the help.
const exitCodes = `Exit codes:
    0  success; run: the guest or the user ended the VM
    1  failure; run: the VM failed, and QEMU reported no exit code; diff: differences
    2  wrong usage, or a configuration that is missing or invalid; diff: failure
    3  there is no such VM, or it is not running; run: the VM is already running
  130  run: Ctrl-C (INT), and 143: TERM, before the guest was started`
