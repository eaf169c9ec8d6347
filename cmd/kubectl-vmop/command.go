package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"vmop/cli"
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
  ssh, scp, get and describe have those of the program that they run.`

func newCommand() *cobra.Command {
	var f flags
	root := &cobra.Command{
		Use:         "kubectl-vmop",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl vmop"},
		Short:       "Use and manage VirtualMachines of Kubernetes",
		Long: "kubectl vmop uses and manages the VirtualMachines of a namespace, with the rights of your kubeconfig.\n" +
			"A VM is NAME or vm/NAME. Its console, screen and ports are reached by pods/exec, or with --manager by the\n" +
			"manager, which needs a token only.\n\n" + exitCodes,
		Args: cli.NoArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cli.SetUp(root, version)
	f.add(root)
	f.completeConnection(root)
	root.AddGroup(&cobra.Group{ID: groupPower, Title: "Start and stop:"},
		&cobra.Group{ID: groupUse, Title: "Use the guest:"},
		&cobra.Group{ID: groupChange, Title: "Make and change:"},
		&cobra.Group{ID: groupLook, Title: "See and understand:"})
	root.AddCommand(newStart(&f), newStop(&f), newRestart(&f), newReset(&f),
		newAction(&f, control.Pause, "paused", "Pause the guest",
			"pause stops the guest's CPUs, and thereby its clock, until resume."),
		newAction(&f, control.Resume, "resumed", "Resume a paused guest", "resume lets a paused guest continue."))
	root.AddCommand(newConsole(&f), newVNC(&f), newSPICE(&f), newScreenshot(&f))
	root.AddCommand(newSSH(&f), newSCP(&f), newPortForward(&f))
	root.AddCommand(newCreate(&f), newResize(&f), newCD(&f), newExpose(&f), newDisk(&f), newImage(&f),
		newSnapshot(&f), newClone(&f), newRestore(&f), newDelete(&f), newPool(&f))
	root.AddCommand(f.newKubectl("get", "List VMs, as kubectl get does"),
		f.newKubectl("describe", "Show all of VMs, as kubectl describe does"),
		newWhy(&f), newEvents(&f), newTop(&f), newPlan(&f), newDiff(&f), newCanI(&f), newBundle(&f))
	root.AddCommand(newMigrate(&f), newEvict(&f), newReclaim(&f), missing("migrate-cancel",
		"a migration is ended by deleting its operation", "kubectl get vmop, kubectl delete vmop OPERATION"))
	root.AddCommand(missing("takeover",
		"VMs of VM-Operator are taken over by the program of the manager", "vmmanager takeover"))
	suggest(root)
	return root
}

// suggest notes with verbs what users of kubectl, virtctl, d8 and virsh type.
func suggest(root *cobra.Command) {
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

// missing returns a verb that users look for here, and that isn't here: it says why, and what to use instead.
func missing(name, why, instead string) *cobra.Command {
	return &cobra.Command{
		Use: name, Hidden: true, DisableFlagParsing: true, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(*cobra.Command, []string) error {
			return hinted{cli.UsageError{Err: fmt.Errorf("%s: %s", name, why)}, instead}
		},
	}
}
