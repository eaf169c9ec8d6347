package main

import (
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/internal/yamlfile"
	"vmop/runner/inventory"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// listItem is a VM in the JSON output of list.
type listItem struct {
	Name string `json:"name"`
	// State is the runner's state, or a state from package inventory.
	State inventory.State `json:"state"`
	// File is the configuration; Fault is the reason why it is unusable.
	File  string `json:"file,omitempty"`
	Fault string `json:"fault,omitempty"`
	// System reports whether the VM belongs to the computer instead of the user.
	System     bool           `json:"system,omitempty"`
	Autostart  bool           `json:"autostart,omitempty"`
	DataDir    string         `json:"dataDir,omitempty"`
	RuntimeDir string         `json:"runtimeDir,omitempty"`
	Problem    string         `json:"problem,omitempty"`
	Ended      *listEnd       `json:"ended,omitempty"`
	Status     *status.Status `json:"status,omitempty"`
}

// listEnd describes how the last run of a VM ended.
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

func newListCommand(f *flags) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List all VMs, running or stopped",
		Long: "List the VMs configured in ~/.config/vmrunner and /etc/opt/vmrunner, and running VMs\n" +
			"with a configuration from elsewhere. \"Active\" means that systemd runs the VM for another\n" +
			"user, \"Failed\" that its service has failed. \"Stopped\" shows the cause in parentheses\n" +
			"unless the guest or a user stopped the VM. \"(emulated)\" marks a guest\n" +
			"without KVM. To list only running VMs, use ps.",
		Args:              cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all, err := f.openInventory(cmd, nil)
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

// inventoryRows returns the rows of the table.
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
			spec := vm.Spec()
			row[2], row[3], vmType = strconv.Itoa(spec.CurrentCPUs), spec.CurrentRAM.String(), vm.Config.VMType
		}
		if s := vm.Status; s != nil {
			row = []string{
				vm.Name, stateOf(s), strconv.Itoa(s.CPUs), firstNonEmpty(ramOf(s), "-"),
				primaryAddress(s), firstNonEmpty(s.LoggedInUser, "-"), uptimeText(s, now),
			}
			if s.QEMU.Emulated != "" {
				row[1] += " (emulated)"
			}
			vmType, guest = s.VMType, firstNonEmpty(guestOf(s), "-")
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
			row = append(row, firstNonEmpty(vmType, "-"), guest, autostart, firstNonEmpty(vm.File, "-"))
		}
		rows = append(rows, row)
	}
	return rows
}

// primaryAddress returns the best address for reaching the guest.
func primaryAddress(s *status.Status) string {
	if len(s.Addresses) == 0 {
		return "-"
	}
	return s.Addresses[0].Endpoint()
}

// printFaults prints the errors of configurations after the list.
func printFaults(cmd *cobra.Command, vms []inventory.VM) {
	emulated := ""
	for _, vm := range vms {
		if vm.Status != nil && vm.Status.QEMU.Emulated != "" && vm.Status.QEMU.Emulated != emulated {
			emulated = vm.Status.QEMU.Emulated // usually the same for all
			cmd.PrintErrln("vmrunner: emulated guests are slow:", cli.Printable(emulated))
		}
		var faults yamlfile.Faults
		switch {
		case errors.As(vm.Fault, &faults) && len(faults) > 1:
			cmd.PrintErrf("vmrunner: %s has %d errors; to see them: vmrunner edit %[1]s\n", vm.Name, len(faults))
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
