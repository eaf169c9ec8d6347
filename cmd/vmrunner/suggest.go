package main

import "github.com/spf13/cobra"

// suggestVerbs registers the verbs that users of virsh, limactl, incus, VirtualBox and other programs type.
func suggestVerbs(root *cobra.Command) {
	words := map[string][]string{
		"list":         {"ls", "vms", "all"},
		"disk":         {"vol", "volume", "storage", "createmedium", "qemu-img"},
		"image":        {"images", "fetch", "remote"},
		"nic":          {"network", "net", "interface", "attach-interface", "detach-interface", "domif-setlink"},
		"snapshot":     {"snapshots", "snapshot-create", "snapshot-create-as", "checkpoint", "snap"},
		"create":       {"launch", "define", "new", "add", "install", "createvm", "virt-install"},
		"start":        {"boot", "startvm", "poweron", "launch"},
		"stop":         {"shutdown", "halt", "poweroff", "down", "kill", "acpipowerbutton", "destroy"},
		"restart":      {"reboot"},
		"delete":       {"rm", "remove", "undefine", "purge", "unregistervm", "destroy"},
		"log":          {"logs", "journal", "journalctl"},
		"status":       {"info", "dominfo", "domstate", "show", "inspect", "get", "domifaddr"},
		"clone":        {"duplicate", "virt-clone", "clonevm"},
		"cd":           {"cdrom", "change-media", "insert", "eject"},
		"resize":       {"scale", "setvcpus", "setmem"},
		"migrate":      {"move", "migrate-setspeed", "evacuate", "teleport"},
		"receive":      {"incoming"},
		"reclaim":      {"fence", "unfence", "recover"},
		"pause":        {"suspend"},
		"freeze":       {"domfsfreeze", "fsfreeze", "quiesce"},
		"thaw":         {"domfsthaw", "fsthaw", "unfreeze"},
		"resume":       {"unpause", "unsuspend", "continue", "cont"},
		"ssh":          {"shell", "exec", "login"},
		"cp":           {"copy", "scp", "push", "pull", "copyto", "copyfrom"},
		"edit":         {"modify", "modifyvm", "configure"},
		"view":         {"domdisplay", "vncdisplay", "viewer", "gui", "display", "open", "spice"},
		"autostart":    {"enable", "disable", "start-at-login"},
		"console":      {"attach", "serial", "ttyconsole"},
		"port-forward": {"forward", "tunnel", "expose"},
		"plan":         {"render", "dumpxml", "domxml-to-native", "argv"},
		"diff":         {"compare", "domxml-diff", "changes"},
		"events":       {"watch", "event", "follow"},
		"qmp":          {"monitor", "hmp", "qemu-monitor-command"},
	}
	for _, verb := range root.Commands() {
		verb.SuggestFor = words[verb.Name()]
	}
}
