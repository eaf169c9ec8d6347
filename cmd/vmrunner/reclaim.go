package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"vmop/cli"
	"vmop/runner/control"
	"vmop/runner/handover"
	"vmop/runner/lock"
	"vmop/runner/migrate"
	"vmop/runner/prepare"
)

const reclaimText = "reclaim is for a VM whose guest was released to another runner that is gone for good, or\n" +
	"was to come from one. Such a VM is not started, and a guest that is still here stays paused: the\n" +
	"guest may be running there, and a second one would write to the same disks. reclaim ends what is\n" +
	"here, and lets the VM be started anew, from its disks as they are now, with the TPM and the\n" +
	"firmware variables in its data directory. What the guest had in its memory is lost. Disks of which\n" +
	"only a part was copied are removed."

// newReclaim returns the verb by which a user ends what no runner can: see docs/decisions/0140-reclaim.md.
func newReclaim(f *flags) *cobra.Command {
	var sure bool
	cmd := &cobra.Command{
		Use: "reclaim [NAME] --runs-nowhere-else", Short: "Give up a guest that is lost in a migration",
		Long: reclaimText, Args: oneName, GroupID: groupNamed, ValidArgsFunction: f.completeConfigured,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.takeName(cmd, args); err != nil {
				return err
			}
			vm, err := prepare.Open(f.config)
			if err != nil {
				return err
			}
			note, err := reclaimable(vm)
			if err != nil {
				return err
			}
			if !sure {
				return cli.UsageError{Err: fmt.Errorf("the guest of %s may be running in the runner at %s. If you know that it "+
					"runs nowhere else, and never will: --runs-nowhere-else", vm.Config.VM.Name, note.Keys.Address)}
			}
			return reclaim(cmd.Context(), vm)
		},
	}
	cmd.Flags().BoolVar(&sure, "runs-nowhere-else", false,
		"I know that the guest runs nowhere else: the other computer is off, or\nits data are destroyed")
	return cmd
}

// reclaimable returns the note of a migration that a user may end.
func reclaimable(vm *prepare.VM) (handover.Note, error) {
	note, err := handover.Read(vm.DataDir)
	if err != nil {
		return note, err
	}
	switch note.Record {
	case migrate.NoRecord, migrate.Migrating, migrate.Taken:
		return note, fmt.Errorf("%s has not released its guest, and waits for none: there is nothing to reclaim",
			vm.Config.VM.Name)
	}
	return note, nil
}

// reclaim has the runner end the guest that is here, if there is one, or removes the record.
func reclaim(ctx context.Context, vm *prepare.VM) error {
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
	if err == nil { // the record may have changed
		var note handover.Note
		if note, err = reclaimable(vm); err == nil {
			err = note.Settle()
		}
	}
	if err == nil {
		err = handover.Note{}.Write(vm.DataDir)
	}
	return cmp.Or(err, errors.Join(machine.Release(), runner.Release()))
}
