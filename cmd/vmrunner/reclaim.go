package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/runner/adopt/lock"
	"vmop/runner/control"
	"vmop/runner/migrate"
	"vmop/runner/migrate/handover"
	"vmop/runner/prepare"
)

const reclaimText = "Recover a VM after a failed migration when the other runner will never return. Such a VM\n" +
	"is not started, and its guest stays paused here, because the guest may be running\n" +
	"elsewhere and a second copy would write to the same disks.\n\n" +
	"reclaim ends the guest here and lets the VM start again from its current disks, TPM\n" +
	"state and firmware variables. The content of the guest's memory is lost, and partly\n" +
	"copied disks are removed."

// newReclaim returns the verb that lets a user end a migration that the runners can't finish; see
// docs/decisions/0140-reclaim.md.
func newReclaim(f *flags) *cobra.Command {
	var sure bool
	cmd := &cobra.Command{
		Use: "reclaim [NAME] --runs-nowhere-else", Short: "Recover a VM after a failed migration",
		Long: reclaimText, Args: oneName, ValidArgsFunction: f.completeConfigured,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.takeName(cmd, args); err != nil {
				return err
			}
			vm, err := prepare.Open(f.config)
			if err != nil {
				return err
			}
			note, err := reclaimableNote(vm)
			if err != nil {
				return err
			}
			if !sure {
				return cli.UsageError{Err: fmt.Errorf("the guest of %s may be running in the runner at %s. If you know that it "+
					"runs nowhere else, and never will: --runs-nowhere-else", vm.Config.VM.Name, note.Keys.Address)}
			}
			if err := reclaimGuest(cmd.Context(), vm); err != nil {
				return err
			}
			cmd.PrintErrf("%s has no guest any more; start it again from its disks\n", vm.Config.VM.Name)
			return nil
		},
	}
	cmd.Flags().BoolVar(&sure, "runs-nowhere-else", false,
		"confirm that the guest runs nowhere else: the other computer is\noff, or its data are destroyed")
	return cmd
}

// reclaimableNote returns the note of a migration that a user may end.
func reclaimableNote(vm *prepare.VM) (handover.Note, error) {
	note, err := handover.Read(vm.DataDir)
	if err != nil {
		return note, err
	}
	switch note.Record {
	case migrate.NoRecord, migrate.Migrating, migrate.Taken:
		return note, fmt.Errorf("%s has not released its guest, and does not expect one: there is nothing to reclaim",
			vm.Config.VM.Name)
	}
	return note, nil
}

// reclaimGuest asks the runner to end the local guest. Without a runner, it removes the record of the migration.
func reclaimGuest(ctx context.Context, vm *prepare.VM) error {
	client, err := dialDir(ctx, vm.RuntimeDir)
	if err == nil {
		_, err = client.End(ctx, control.Reclaim)
	}
	if !errors.Is(err, control.ErrNotRunning) {
		return err
	}
	runner, err := lock.Runner(vm.DataDir)
	if err != nil {
		return err
	}
	machine, err := lock.Machine(vm.DataDir)
	if err != nil {
		return errors.Join(err, runner.Release())
	}
	free, err := machine.Try()
	if err == nil && !free {
		err = errors.New("a process of the VM is left: start the VM by vmrunner start or run, and reclaim it then")
	}
	if err == nil { // read the record again, because it may have changed
		var note handover.Note
		if note, err = reclaimableNote(vm); err == nil {
			err = note.Settle()
		}
	}
	if err == nil {
		err = handover.Note{}.Write(vm.DataDir)
	}
	return cmp.Or(err, errors.Join(machine.Release(), runner.Release()))
}
