package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/runner/control"
)

// Groups of verbs in the help.
const (
	groupPower  = "power"
	groupUse    = "use"
	groupChange = "change"
	groupLook   = "look"
)

// exitCodes are the exit codes, for the help.
const exitCodes = `Exit codes:
    0  success
    1  failure; diff: there are differences; can-i: no
    2  wrong usage
    3  there is no such VM, disk or snapshot
    4  you may not do that
  124  --timeout has passed
  ssh, scp, get and describe return the exit code of the program that they run.`

func newPluginCommand() *cobra.Command {
	var f flags
	root := &cobra.Command{
		Use:         "kubectl-vmop",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl vmop"},
		Short:       "Use and manage VirtualMachines of Kubernetes",
		Long: "Use and manage the VirtualMachines of a namespace with the permissions of your kubeconfig. A VM is NAME\n" +
			"or vm/NAME. Console, screen and ports are reached through pods/exec, or with --manager through the\n" +
			"manager, which needs only a token.\n\n" + exitCodes,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cli.SetUp(root, version)
	f.addTo(root)
	f.completeConnection(root)
	root.AddGroup(&cobra.Group{ID: groupPower, Title: "Start and stop:"},
		&cobra.Group{ID: groupUse, Title: "Use the guest:"},
		&cobra.Group{ID: groupChange, Title: "Create and change:"},
		&cobra.Group{ID: groupLook, Title: "Examine:"})
	root.AddCommand(newStart(&f), newStop(&f), newRestart(&f), newReset(&f),
		newAction(&f, control.Pause, "paused", "Pause the guest",
			"Stop the guest's CPUs, and so its clock, until resume."),
		newAction(&f, control.Resume, "resumed", "Resume a paused guest", "Continue a paused guest."))
	root.AddCommand(newConsole(&f), newVNC(&f), newSPICE(&f), newScreenshot(&f))
	root.AddCommand(newSSH(&f), newSCP(&f), newPortForward(&f))
	root.AddCommand(newCreate(&f), newResize(&f), newCD(&f), newExpose(&f), newDiskCommand(&f), newImage(&f),
		newSnapshot(&f), newClone(&f), newRestore(&f), newDelete(&f), newPool(&f))
	root.AddCommand(f.newKubectl("get", "List VMs, as kubectl get does"),
		f.newKubectl("describe", "Show the details of VMs, as kubectl describe does"),
		newWhy(&f), newEvents(&f), newTop(&f), newPlan(&f), newDiff(&f), newCanI(&f), newBundle(&f))
	root.AddCommand(newMigrate(&f), newEvict(&f), newReclaim(&f), newMissingVerb("migrate-cancel",
		"a migration is ended by deleting its operation", "kubectl get vmop, kubectl delete vmop OPERATION"))
	root.AddCommand(newMissingVerb("takeover",
		"VMs of VM-Operator are taken over by the program of the manager", "vmmanager takeover"))
	suggestVerbs(root)
	return root
}

// suggestVerbs registers the verbs that users of kubectl, virtctl, d8 and virsh type.
func suggestVerbs(root *cobra.Command) {
	words := map[string][]string{
		"start":        {"up", "boot", "poweron", "run"},
		"stop":         {"shutdown", "halt", "poweroff", "down", "kill", "destroy"},
		"restart":      {"reboot", "soft-reboot", "softreboot", "rollout"},
		"pause":        {"suspend", "freeze"},
		"resume":       {"unpause", "unsuspend", "unfreeze", "continue"},
		"console":      {"attach", "serial", "logs", "log"},
		"vnc":          {"view", "viewer", "display", "screen"},
		"ssh":          {"exec", "shell", "login"},
		"port-forward": {"portforward", "forward", "tunnel"},
		"resize":       {"scale", "setvcpus", "setmem", "set"},
		"cd":           {"cdrom"},
		"disk": {
			"vd", "virtualdisk", "volume", "vol-create", "image-upload", "vmexport", "attach-disk", "addvolume",
			"removevolume",
		},
		"expose":         {"service"},
		"snapshot":       {"vmsnapshot", "vdsnapshot", "backup", "checkpoint", "snapshot-create", "snapshot-list"},
		"clone":          {"copy", "cp", "duplicate"},
		"restore":        {"revert", "rollback", "snapshot-revert"},
		"get":            {"list", "ls", "ps", "status", "guestosinfo", "userlist", "fslist"},
		"describe":       {"info", "show", "inspect"},
		"diff":           {"edit", "apply", "compare"},
		"can-i":          {"auth", "permissions"},
		"plan":           {"render", "dumpxml", "expand", "template"},
		"delete":         {"rm", "remove", "undefine"},
		"create":         {"new", "define"},
		"support-bundle": {"bundle", "support", "dump", "memory-dump"},
	}
	for _, verb := range root.Commands() {
		verb.SuggestFor = append(verb.SuggestFor, words[verb.Name()]...)
	}
}

// newMissingVerb returns a verb that users expect here but that does not exist. It prints the reason and the
// alternative.
func newMissingVerb(name, why, instead string) *cobra.Command {
	return &cobra.Command{
		Use: name, Hidden: true, DisableFlagParsing: true, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			return hinted{cli.UsageError{Err: fmt.Errorf("%s: %s", name, why)}, instead}
		},
	}
}
