package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/inventory"
	"vmop/runner/prepare"
	"vmop/vmtypes/policy"
)

// openInventory returns the VMs of this computer. Without a policy, the inventory can't check configurations.
func (f *flags) openInventory(cmd *cobra.Command, limits *policy.Policy) (*inventory.Inventory, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	env := config.HostEnv()
	opts := inventory.Options{
		Env: env, Places: inventory.Places(env), Program: program, Log: slog.New(slog.DiscardHandler),
		Prepare: prepare.Options{VMTypes: f.types.Folder, Policy: limits},
	}
	for _, name := range []string{"vmtypes", "vmtypes-policy"} {
		if flag := cmd.Flags().Lookup(name); flag != nil && flag.Changed {
			opts.Arguments = append(opts.Arguments, "--"+name+"="+flag.Value.String())
		}
	}
	return inventory.New(opts), nil
}

// checkingInventory returns the VMs of this computer, with the policy for checking their types.
func (f *flags) checkingInventory(cmd *cobra.Command) (*inventory.Inventory, error) {
	limits, err := policy.Load(f.types.Policy)
	if err != nil {
		return nil, err
	}
	return f.openInventory(cmd, limits)
}

// takeName selects the configuration of NAME, if NAME was given, and sets the environment variables of its folder
// in this process.
func (f *flags) takeName(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return f.hasConfig()
	}
	if cmd.Flags().Changed("config") {
		return cli.UsageError{Err: errors.New("which VM? NAME and -c FILE are mutually exclusive")}
	}
	all, err := f.openInventory(cmd, nil)
	if err != nil {
		return err
	}
	file, place, err := all.File(args[0])
	if err != nil {
		return cli.UsageError{Err: err}
	}
	f.config = file
	for _, variable := range place.Environment {
		name, value, _ := strings.Cut(variable, "=")
		if err := os.Setenv(name, value); err != nil {
			return fmt.Errorf("take the directories of %s: %w", args[0], err)
		}
	}
	return nil
}

// explainTarget replaces the error for a VM without a runner. The inventory's error suggests verbs with the VM's name.
func (t *target) explainTarget(cmd *cobra.Command, args []string, err error) error {
	if len(args) == 0 || !errors.As(err, new(noRunnerError)) {
		return err
	}
	all, e := t.flags.openInventory(cmd, nil)
	if e != nil {
		return err
	}
	if vm, e := all.Find(cmd.Context(), args[0]); e == nil && vm.Place != nil && vm.State == inventory.StateNoRunner {
		return errors.New(vm.Problem)
	}
	return err
}

// unknownError is the error for an unknown name. For exit codes, such a VM is not running.
type unknownError string

func (e unknownError) Error() string { return string(e) }

func (e unknownError) Unwrap() error { return control.ErrNotRunning }

// hiddenRuntimeDir returns the runtime directory of a configured and running VM without a control socket. err is the
// error that it isn't running.
func (t *target) hiddenRuntimeDir(cmd *cobra.Command, name string, err error) (string, error) {
	all, e := t.flags.openInventory(cmd, nil)
	if e != nil {
		return "", err
	}
	vm, e := all.Find(cmd.Context(), name)
	switch {
	case errors.Is(e, inventory.ErrUnknown):
		return "", unknownError(e.Error() + runningVMs(config.HostEnv()))
	case e != nil || vm.Place == nil:
		return "", err
	case vm.State == inventory.StateActive:
		return "", fmt.Errorf("%s is run by systemd for another user; only that user can do this", name)
	case vm.Running():
		t.dataDir = vm.DataDir
		return vm.RuntimeDir, nil
	case vm.Ended != nil && !vm.Ended.Well():
		return "", fmt.Errorf("%s: %w: it has ended: %s; start it by: vmrunner start %[1]s", name, control.ErrNotRunning,
			vm.Ended)
	}
	if vm.State == inventory.StateFailed && vm.Problem != "" {
		rest := ""
		if _, err := all.Log(cmd.Context(), name, inventory.LogQuery{}); err == nil {
			rest = "\nfor the rest, run: vmrunner log " + name
		}
		return "", fmt.Errorf("%s: %w; its last start has failed: %s%s", name, control.ErrNotRunning,
			cli.Printable(vm.Problem), rest)
	}
	return "", fmt.Errorf("%s: %w; start it by: vmrunner start %[1]s", name, control.ErrNotRunning)
}
