package main

import (
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"vmop/cli"
	"vmop/runner/inventory"
	"vmop/runner/status"
	"vmop/vmstatus"
	"vmop/yamlfile"
)

// listItem is a VM in the output of list, for programs.
type listItem struct {
	Name string `json:"name"`
	// State is that of the runner, or a word of package inventory.
	State inventory.State `json:"state"`
	// File is the configuration; Fault says why it can't be used.
	File  string `json:"file,omitempty"`
	Fault string `json:"fault,omitempty"`
	// System says that the VM is the computer's, and not the user's.
	System     bool           `json:"system,omitempty"`
	Autostart  bool           `json:"autostart,omitempty"`
	DataDir    string         `json:"dataDir,omitempty"`
	RuntimeDir string         `json:"runtimeDir,omitempty"`
	Problem    string         `json:"problem,omitempty"`
	Ended      *listEnd       `json:"ended,omitempty"`
	Status     *status.Status `json:"status,omitempty"`
}

// listEnd is how the last run of a VM ended.
type listEnd struct {
	At      *time.Time     `json:"at,omitempty"`
	Cause   vmstatus.Cause `json:"cause"`
	Message string         `json:"message"`
}

func itemOf(vm inventory.VM) listItem {
	l := listItem{
		Name: vm.Name, State: vm.State, File: vm.File, System: vm.Place != nil && vm.Place.System,
		Autostart: vm.Service.Autostart, DataDir: vm.DataDir, RuntimeDir: vm.RuntimeDir, Problem: vm.Problem,
		Status: vm.Status,
	}
	if vm.Fault != nil {
		l.Fault = vm.Fault.Error()
	}
	if e := vm.Ended; e != nil {
		l.Ended = &listEnd{Cause: e.Cause, Message: e.String()}
		if !e.At.IsZero() {
			l.Ended.At = &e.At
		}
	}
	return l
}

func newList(f *flags) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List all VMs, whether they run or not",
		Long: "list lists the VMs that are configured in ~/.config/vmrunner and /etc/opt/vmrunner, and\n" +
			"those that run by a configuration from elsewhere. \"Active\" means that systemd runs the\n" +
			"VM for another user, \"Failed\" that its service has failed. \"Stopped\" has in parentheses\n" +
			"what has ended the last run, unless it was the guest or a user. ps lists only those that run.",
		Args:    cli.NoArguments,
		GroupID: groupNamed, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := f.inventory(cmd, nil)
			if err != nil {
				return err
			}
			vms, err := all.List(cmd.Context())
			switch form {
			case "json", "yaml":
				list := make([]listItem, len(vms))
				for i, vm := range vms {
					list[i] = itemOf(vm)
				}
				return errors.Join(cli.PrintValue(cmd.OutOrStdout(), form, list), err)
			case "name":
				for _, vm := range vms {
					err = errors.Join(err, cli.WriteLine(cmd.OutOrStdout(), cli.Printable(vm.Name)))
				}
				return err
			}
			if len(vms) == 0 {
				cmd.PrintErrln("there is no VM yet; make one: vmrunner create NAME")
				return err
			}
			err = errors.Join(cli.Table(cmd.OutOrStdout(), inventoryRows(vms, form == "wide", time.Now())), err)
			printFaults(cmd, vms)
			return err
		},
	}
	cli.OutputFlag(cmd, &form, "table", "wide", "json", "yaml", "name")
	return cmd
}

// inventoryRows returns the rows of the list.
func inventoryRows(vms []inventory.VM, wide bool, now time.Time) [][]string {
	head := []string{"NAME", "STATE", "CPUS", "RAM", "ADDRESS", "USER", "AGE"}
	if wide {
		head = append(head, "TYPE", "GUEST", "AUTOSTART", "CONFIGURATION")
	}
	rows := [][]string{head}
	for _, vm := range vms {
		row := []string{vm.Name, string(vm.State), "", "", "-", "-", "-"}
		vmType, guest := "", "-"
		if vm.Config != nil {
			spec := vm.Config.VM.WithDefaults()
			row[2], row[3], vmType = strconv.Itoa(spec.CurrentCPUs), spec.CurrentRAM.String(), vm.Config.VMType
		}
		if s := vm.Status; s != nil {
			row = []string{
				vm.Name, stateOf(s), strconv.Itoa(s.CPUs), or(ramOf(s), "-"),
				primary(s), or(s.LoggedInUser, "-"), uptime(s, now),
			}
			vmType, guest = s.VMType, or(guestOf(s), "-")
		}
		if vm.Ended != nil && !vm.Ended.Well() {
			row[1] += " (" + string(vm.Ended.Cause) + ")"
		}
		if vm.Fault != nil {
			row[1] += " (fault)"
		}
		if wide {
			autostart := "no"
			if vm.Service.Autostart {
				autostart = "yes"
			}
			row = append(row, or(vmType, "-"), guest, autostart, or(vm.File, "-"))
		}
		rows = append(rows, row)
	}
	return rows
}

// primary is the best address where the guest answers.
func primary(s *status.Status) string {
	if len(s.Addresses) == 0 {
		return "-"
	}
	return s.Addresses[0].Endpoint()
}

// printFaults prints what is wrong with configurations, after the list.
func printFaults(cmd *cobra.Command, vms []inventory.VM) {
	for _, vm := range vms {
		var faults yamlfile.Faults
		switch {
		case errors.As(vm.Fault, &faults) && len(faults) > 1:
			cmd.PrintErrf("vmrunner: %s has %d faults; see them by: vmrunner edit %[1]s\n", vm.Name, len(faults))
		case vm.Fault != nil:
			cmd.PrintErrln("vmrunner:", cli.Printable(vm.Fault.Error()))
		}
		for _, file := range vm.Ignored {
			cmd.PrintErrf("vmrunner: %s is not used: %s is also configured by %s\n",
				cli.Printable(file), cli.Printable(vm.Name), cli.Printable(vm.File))
		}
		if vm.Problem != "" {
			cmd.PrintErrf("vmrunner: %s: %s\n", cli.Printable(vm.Name), cli.Printable(vm.Problem))
		}
	}
}
