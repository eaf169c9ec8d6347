package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"vmop/cli"
	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/inventory"
	"vmop/runner/prepare"
	"vmop/vmtypes/policy"
)

// inventory returns the VMs of this computer. Without a policy it can't check configurations.
func (f *flags) inventory(cmd *cobra.Command, limits *policy.Policy) (*inventory.Inventory, error) {
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

// checking returns the VMs of this computer, and knows the policy for their types.
func (f *flags) checking(cmd *cobra.Command) (*inventory.Inventory, error) {
	limits, err := policy.Load(f.types.Policy)
	if err != nil {
		return nil, err
	}
	return f.inventory(cmd, limits)
}

// takeName makes the configuration of NAME the one that is used, if that was given, and
// gives this process the environment of its folder.
func (f *flags) takeName(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return f.hasConfig()
	}
	if cmd.Flags().Changed("config") {
		return cli.UsageError{Err: errors.New("which VM? NAME and -c FILE are mutually exclusive")}
	}
	all, err := f.inventory(cmd, nil)
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

// hidden returns the runtime directory of a VM that is configured and running, but has no control
// socket; err is that it isn't running.
func (t *target) hidden(cmd *cobra.Command, name string, err error) (string, error) {
	all, e := t.flags.inventory(cmd, nil)
	if e != nil {
		return "", err
	}
	vm, e := all.Find(cmd.Context(), name)
	switch {
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
		return "", fmt.Errorf("%s: %w; its last start has failed: %s\nfor the rest, run: vmrunner log %[1]s", name,
			control.ErrNotRunning, cli.Printable(vm.Problem))
	}
	return "", fmt.Errorf("%s: %w; start it by: vmrunner start %[1]s", name, control.ErrNotRunning)
}
