package main

import (
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/runner/control"
	"vmop/runner/inventory"
)

// showStopped prints what is known about a VM that is not running, and returns the error for the exit code. It returns
// err if err has another reason, or if there is no configuration with this name.
func (t *target) showStopped(cmd *cobra.Command, args []string, err error) error {
	if len(args) == 0 || !errors.Is(err, control.ErrNotRunning) {
		return err
	}
	all, e := t.flags.openInventory(cmd, nil)
	if e != nil {
		return err
	}
	vm, e := all.Find(cmd.Context(), args[0])
	if e != nil || vm.Place == nil || vm.Running() {
		return err
	}
	if err := printStopped(cmd.OutOrStdout(), vm, time.Now()); err != nil {
		return err
	}
	return cli.ExitError{Code: exitAbsent}
}

func printStopped(w io.Writer, vm *inventory.VM, now time.Time) error {
	var rows facts
	rows.add("Name", vm.Name)
	state, end := string(vm.State), vm.Ended
	if end != nil && !end.At.IsZero() {
		state += " for " + shortDuration(now.Sub(end.At))
	}
	rows.add("State", state)
	if end != nil {
		rows.add("Last end", end.String())
	}
	rows.add("Message", vm.Problem)
	if c := vm.Config; c != nil {
		spec := vm.Spec()
		rows.add("VM type", c.VMType)
		rows.add("CPUs", strconv.Itoa(spec.CurrentCPUs))
		rows.add("RAM", spec.CurrentRAM.String())
	}
	if vm.Service.Autostart {
		rows.add("Autostart", "yes")
	}
	rows.add("Configuration", vm.File)
	next := "vmrunner start " + vm.Name
	if vm.Fault != nil {
		next = "correct the configuration: vmrunner edit " + vm.Name
	}
	rows.add("What to do", next)
	if err := cli.Table(w, rows); err != nil || vm.Fault == nil {
		return err
	}
	return cli.WriteLine(w, "\n"+cli.Describe(vm.Fault))
}
