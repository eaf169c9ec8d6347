package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"vmop/internal/cli"
	"vmop/runner/inventory"
)

// arrival contains the flags of up.
type arrival struct {
	*creation
	noWait bool
	limit  time.Duration
}

func newUp(f *flags) *cobra.Command {
	u := &arrival{creation: &creation{flags: f}}
	cmd := &cobra.Command{
		Use:   "up NAME",
		Short: "Create a VM if needed, start it, and wait for its guest",
		Long: "Create the VM NAME if it doesn't exist, start it if it isn't running, and wait until its\n" +
			"guest's agent or SSH server answers. Then show how to use the guest.\n" +
			"Ctrl-C stops waiting, and ends a VM that is still starting.\n\n" +
			"up does not wait for a guest without a network, or without a user for ssh (--user, which\n" +
			"--image implies).\n\n" +
			"The flags describe a new VM, as for create.",
		Example: "  vmrunner up web --image debian/12\n" +
			"  vmrunner up win --type windows --cd ~/win11.iso --virtio-drivers ~/virtio-win.iso\n" +
			"  vmrunner up web",
	}
	f.oneVM(cmd)
	u.addFlags(cmd)
	own := []string{"no-wait", "timeout", "yes"}
	cmd.Flags().BoolVar(&u.noWait, "no-wait", false, "return when the guest is running")
	cmd.Flags().DurationVar(&u.limit, "timeout", 0, "stop waiting after this `DURATION`, such as 5m (default no limit)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		u.draft.Name = args[0]
		all, err := f.checkingInventory(cmd)
		if err != nil {
			return err
		}
		if !slices.Contains(all.Names(), u.draft.Name) {
			if err := u.createVM(cmd, all); err != nil {
				return err
			}
		} else if given := changedFlags(cmd, own...); given != nil {
			return cli.UsageError{Err: fmt.Errorf("%s exists, and %s would not change it; edit it by: vmrunner edit %[1]s",
				u.draft.Name, strings.Join(given, ", "))}
		}
		return u.bringUp(cmd, all)
	}
	return cmd
}

// changedFlags returns the given flags of a verb, except some of its flags and the common flags of all verbs.
func changedFlags(cmd *cobra.Command, except ...string) (given []string) {
	own := cmd.LocalNonPersistentFlags()
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if own.Lookup(flag.Name) != nil && !slices.Contains(except, flag.Name) {
			given = append(given, "--"+flag.Name)
		}
	})
	return given
}

// bringUp starts the VM unless it is running, waits for its guest, and shows how to use it.
func (u *arrival) bringUp(cmd *cobra.Command, all *inventory.Inventory) error {
	name := u.draft.Name
	vm, err := all.Find(cmd.Context(), name)
	if err != nil {
		return err
	}
	if vm.Status == nil {
		if err := startShown(cmd, all, name); err != nil {
			return err
		}
		if vm, err = all.Find(cmd.Context(), name); err != nil {
			return err
		}
		printNotes(cmd, all, vm)
	}
	var waited error
	if canLogIn(vm) && !u.noWait {
		client, err := vm.Dial(cmd.Context())
		if err != nil {
			return err
		}
		waited = awaitGuest(cmd, client, guestWait{name: name, agent: true, limit: u.limit})
	}
	if waited == nil {
		cmd.PrintErrf("%s is running. Use it by:\n", name)
		for _, way := range waysIn(vm) {
			cmd.PrintErrln("  " + way)
		}
	}
	return waited
}

// canLogIn reports whether the guest has a user for ssh, and a network. Without them, up does not wait for the guest.
func canLogIn(vm *inventory.VM) bool {
	network := vm.Config != nil && (vm.Config.VM.Network == nil || len(vm.Config.VM.Network) > 0) // nil is the default
	return vm.Login() != "" && network
}

// waysIn returns the commands that lead to the guest, the most useful first.
func waysIn(vm *inventory.VM) (ways []string) {
	if canLogIn(vm) {
		ways = append(ways, "vmrunner ssh "+vm.Name)
	}
	if vm.Config != nil && vm.Config.VM.Display != nil {
		ways = append(ways, "vmrunner view "+vm.Name+"   (its screen)")
	}
	return append(ways, "vmrunner console "+vm.Name)
}
