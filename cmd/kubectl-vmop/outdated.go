package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/manager/vm/objects"
)

// outdated is a VM that runs in a pod of an earlier definition.
type outdated struct {
	vm  *v1.VirtualMachine
	how *v1.MigrateOptions // how to move the guest to a new pod; nil if it needs a restart
	why string             // why it needs a restart
}

// outdatedVMs returns the outdated VMs that are running.
func outdatedVMs(vms []v1.VirtualMachine) (all []outdated) {
	for i := range vms {
		vm := &vms[i]
		changes := vm.Status.RestartAwaitingChanges
		if vm.Status.Phase != v1.PhaseRunning || len(changes) == 0 || vm.DeletionTimestamp != nil {
			continue
		}
		o := outdated{vm: withKind(vm)}
		o.how, o.why = objects.Update(vm, changes, vm.Status.NodeName)
		all = append(all, o)
	}
	return all
}

// pendingPaths returns the paths of the changes that need a restart.
func (o outdated) pendingPaths() string {
	var paths []string
	for _, c := range o.vm.Status.RestartAwaitingChanges {
		paths = append(paths, cli.Printable(c.Path))
	}
	return strings.Join(paths, ", ")
}

// bringUpToDate extends a verb that moves a VM: with --all --outdated, the verb moves all VMs that such a move
// brings up to date.
func (f *flags) bringUpToDate(cmd *cobra.Command) {
	var all, only, dry bool
	var atOnce int
	cmd.Use = "migrate NAME | --all --outdated"
	cmd.Flags().BoolVar(&all, "all", false, "move all VMs of the namespace that --outdated selects")
	cmd.Flags().BoolVar(&only, "outdated", false, "select running VMs with pending changes; needs --all")
	cmd.Flags().IntVar(&atOnce, "at-once", 2, "`NUMBER` of VMs to move at the same time, with --all --outdated")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print what would be done, with --all --outdated")
	one, args := cmd.RunE, cmd.Args
	cmd.Args = func(cmd *cobra.Command, names []string) error {
		switch {
		case !all && !only && !dry && !cmd.Flags().Changed("at-once"):
			return args(cmd, names)
		case !all || !only || len(names) > 0, cmd.Flags().Changed("node-selector"), cmd.Flags().Changed("copy-disks"):
			return cli.UsageError{Err: errors.New("--all and --outdated are given together, with --at-once and --dry-run, " +
				"and without a name, --node-selector or --copy-disks")}
		case atOnce < 1:
			return cli.UsageError{Err: fmt.Errorf("--at-once is %d: must be at least 1", atOnce)}
		}
		return cmd.Flags().Set("wait", "true") // it always waits, so --timeout does not need --wait
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !all {
			return one(cmd, args)
		}
		c, err := f.onlyCluster(cmd)
		if err != nil {
			return err
		}
		list, err := c.vms.List(cmd.Context(), metav1.ListOptions{})
		if err != nil {
			return unknownKind(err)
		}
		w := waiting{}
		if w.limit, err = cmd.Flags().GetDuration("timeout"); err != nil {
			return err
		}
		ctx, cancel := w.waitContext(cmd.Context())
		defer cancel()
		return c.moveAll(ctx, cmd, outdatedVMs(list.Items), atOnce, dry)
	}
}

// moveAll moves several VMs at a time and prints the result for each.
func (c *cluster) moveAll(ctx context.Context, cmd *cobra.Command, all []outdated, atOnce int, dry bool) error {
	if len(all) == 0 {
		cmd.PrintErrln("no running VM needs a restart")
	}
	var mu sync.Mutex
	failed := 0
	say := func(o outdated, text string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", o.vm.Name, text)
	}
	var moves errgroup.Group
	moves.SetLimit(atOnce)
	for _, o := range all {
		switch {
		case o.how == nil:
			say(o, "needs a restart: "+o.why)
			continue
		case dry:
			say(o, "would be moved: "+o.pendingPaths())
			continue
		}
		moves.Go(func() error {
			spec := v1.VirtualMachineOperationSpec{Type: v1.OperationMigrate, Migrate: o.how}
			if ctx.Err() != nil {
				return nil
			}
			if _, err := c.operateVM(ctx, cmd, o.vm, spec, true); err != nil {
				say(o, "not moved: "+err.Error())
				mu.Lock()
				defer mu.Unlock()
				failed++
				return nil
			}
			say(o, "moved: "+o.pendingPaths())
			return nil
		})
	}
	_ = moves.Wait() // all errors were printed
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case failed > 0:
		return fmt.Errorf("%d of %d VMs were not moved", failed, len(all))
	}
	return nil
}
