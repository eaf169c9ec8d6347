package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/manager/operation/act"
	"vmop/manager/pool"
	"vmop/manager/web/fleet"
	shown "vmop/manager/web/fleet/describe"
)

// poolNoun returns the noun for VmPools.
func poolNoun() noun {
	list := func(ctx context.Context, c *cluster, o metav1.ListOptions) (runtime.Object, error) {
		return c.pools.List(ctx, o)
	}
	return noun{"pool", "vmpool", "vmpool." + v1.GroupName, list}
}

// newPool returns the verb with the subcommands for pools.
func newPool(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "pool", Short: "Use pools of VMs", GroupID: groupUse, Args: cli.NoArguments,
		Long: "Use VmPools, which give VMs to users. With --manager, the permissions of the pool apply,\n" +
			"and you get a VM for yourself. Without it, your rights in the cluster apply: claim and\n" +
			"release need permission to patch vms/status, which administrators have.",
		RunE: wantSubcommand,
	}
	cmd.AddCommand(newPoolList(f), newPoolGet(f), newPoolClaim(f), newPoolRelease(f))
	return cmd
}

// allPools returns the pools of the namespace with their VMs.
func (f *flags) allPools(cmd *cobra.Command) ([]*fleet.Pool, error) {
	m, err := f.viaManager(cmd)
	if err != nil {
		return nil, err
	}
	if m != nil {
		var list struct{ Items []*fleet.Pool }
		err := m.doRequest(cmd.Context(), http.MethodGet, m.base.String()+"/api/v1/pools", nil, &list)
		return list.Items, err
	}
	c, err := f.connectTo(cmd)
	if err != nil {
		return nil, err
	}
	list, err := c.pools.List(cmd.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, unknownKind(err)
	}
	members, err := c.poolMembers(cmd.Context())
	if err != nil {
		return nil, err
	}
	var all []*fleet.Pool
	for i := range list.Items {
		p, err := pool.Of(&list.Items[i])
		if err != nil {
			return nil, err
		}
		all = append(all, shown.Pool(p, members, time.Now()))
	}
	return all, nil
}

// poolMembers returns the VMs that are in pools.
func (c *cluster) poolMembers(ctx context.Context) (all []pool.Member, err error) {
	list, err := c.vms.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, unknownKind(err)
	}
	for i := range list.Items {
		if vm := &list.Items[i]; pool.Concerns(vm) {
			all = append(all, pool.MemberOf(vm))
		}
	}
	return all, nil
}

func newPoolList(f *flags) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use: "list", Short: "List the pools of the namespace", Args: cli.NoArguments,
		Long: "List the pools with the number of VMs for the next users (AVAILABLE), assigned to users\n" +
			"(ASSIGNED), with a connected viewer (IN USE), and kept for their users (RETAINED).",
		Example: "  kubectl vmop pool list", ValidArgsFunction: cobra.NoFileCompletions,
	}
	cli.OutputFlag(cmd, &form, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		all, err := f.allPools(cmd)
		if err != nil {
			return err
		}
		if form != "table" {
			return cli.PrintValue(cmd.OutOrStdout(), form, all)
		}
		if len(all) == 0 {
			cmd.PrintErrln("the namespace has no pools, or you may not use them; " +
				"to create a pool, see docs/tasks/pools.md")
			return nil
		}
		rows := [][]string{{"NAME", "VMS", "AVAILABLE", "ASSIGNED", "IN USE", "RETAINED", "MESSAGE"}}
		for _, p := range all {
			row := []string{p.Name}
			for _, n := range []int{p.VMs, p.Available, p.Assigned, p.InUse, p.Retained} {
				row = append(row, strconv.Itoa(n))
			}
			rows = append(rows, append(row, p.Message))
		}
		return cli.Table(cmd.OutOrStdout(), rows)
	}
	return cmd
}

func newPoolGet(f *flags) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use: "get POOL", Short: "Show the users of a pool's VMs",
		Long: "Show the VMs of a pool: their users, the time of assignment and last use, and until when\n" +
			"an unused VM is kept for its user.",
		Example: "  kubectl vmop pool get desktops",
	}
	poolNoun().takeName(f, cmd, 0, cobra.ShellCompDirectiveNoFileComp)
	cli.OutputFlag(cmd, &form, "table", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all, err := f.allPools(cmd)
		if err != nil {
			return err
		}
		for _, p := range all {
			if p.Name != poolNoun().bareName(args[0]) {
				continue
			}
			if form != "table" {
				return cli.PrintValue(cmd.OutOrStdout(), form, p)
			}
			return cli.Table(cmd.OutOrStdout(), memberTable(p))
		}
		return noPool(args[0])
	}
	return cmd
}

// noPool returns the error for an unknown pool name.
func noPool(name string) error {
	of := schema.GroupResource{Group: v1.GroupName, Resource: "vmpools"}
	return hinted{apierrors.NewNotFound(of, poolNoun().bareName(name)), "list the pools by: kubectl vmop pool list"}
}

func memberTable(p *fleet.Pool) [][]string {
	rows := [][]string{{"VM", "STATE", "USER", "SINCE", "LAST USED", "KEPT UNTIL"}}
	at := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return t.UTC().Format(time.RFC3339)
	}
	for _, m := range p.Members {
		row := []string{m.VM, m.State, "-", "-", "-", "-"}
		if a := m.Assigned; a != nil {
			row = []string{m.VM, m.State, a.User, at(a.Since), at(a.LastUsed), at(a.Until)}
		}
		rows = append(rows, row)
	}
	return rows
}

func newPoolClaim(f *flags) *cobra.Command {
	var form, user string
	cmd := &cobra.Command{
		Use: "claim POOL", Short: "Get a VM of a pool, and start it",
		Long: "Get a VM of a pool, and start it: your current VM, otherwise a free VM, otherwise a VM\n" +
			"that is no longer kept for its user. The command prints the name of the VM. Then use\n" +
			"kubectl vmop vnc or ssh.",
		Example: "  kubectl vmop pool claim desktops --manager https://vms.example.com\n" +
			"  kubectl vmop pool claim desktops --user alice",
	}
	poolNoun().takeName(f, cmd, 0, cobra.ShellCompDirectiveNoFileComp)
	doneFlag(cmd, &form)
	cmd.Flags().StringVar(&user, "user", "", "`NAME` of the user who gets the VM (default you); not with --manager")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := poolNoun().bareName(args[0])
		m, err := f.viaManager(cmd)
		if err != nil {
			return err
		}
		if m != nil {
			return m.claimVM(cmd, form, name, user)
		}
		c, err := f.connectTo(cmd)
		if err != nil {
			return err
		}
		if user == "" {
			user = c.userName(cmd.Context())
		}
		if user == "" {
			return cli.UsageError{Err: errors.New("the API server doesn't report your name: give --user NAME")}
		}
		vm, err := c.claimVM(cmd.Context(), name, user)
		if err != nil {
			return err
		}
		return printDone(cmd, form, withKind(vm), vmKind, vm.Name, "assigned to "+user)
	}
	return cmd
}

// claimVM claims a VM through the manager.
func (m *manager) claimVM(cmd *cobra.Command, form, name, user string) error {
	if user != "" {
		return cli.UsageError{Err: errors.New("--user: the manager knows you by your token: leave it out")}
	}
	var got struct{ VM string }
	address := m.base.String() + "/api/v1/pools/" + url.PathEscape(name) + "/claim"
	if err := m.doRequest(cmd.Context(), http.MethodPost, address, nil, &got); err != nil {
		return err
	}
	return printDone(cmd, form, map[string]string{"vm": got.VM}, vmKind, got.VM, "assigned to you")
}

// mostClaims is the maximum number of attempts to claim a VM when others are claiming the same VM.
const mostClaims = 50

// claimVM assigns a VM of a pool to a user, and starts it.
func (c *cluster) claimVM(ctx context.Context, name, user string) (*v1.VirtualMachine, error) {
	is, err := c.pools.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, poolNoun().explainObject(c, name, err)
	}
	p, err := pool.Of(is)
	if err != nil {
		return nil, err
	}
	for range mostClaims {
		all, err := c.poolMembers(ctx)
		if err != nil {
			return nil, err
		}
		one, mine := p.Choose(all, user, time.Now())
		if one == nil {
			return nil, hinted{
				fmt.Errorf("none of the VMs of the pool %s is free", name),
				"see who has them: kubectl vmop pool get " + name,
			}
		}
		vm, err := c.giveVM(ctx, p, *one, mine, user)
		if apierrors.IsConflict(err) {
			continue // another user has claimed it, or its runner has reported a change
		}
		return vm, err
	}
	return nil, fmt.Errorf("others were faster %d times: try again", mostClaims)
}

// giveVM assigns a VM to a user, unless it is already assigned to the user, and starts it.
func (c *cluster) giveVM(ctx context.Context, p pool.Pool, m pool.Member, mine bool, user string) (
	vm *v1.VirtualMachine, err error,
) {
	if mine {
		vm, err = c.getVM(ctx, m.Name)
	} else {
		vm, err = c.reassignVM(ctx, p.Give(m, user, time.Now()))
	}
	if err != nil || m.Wanted && m.Phase != v1.PhaseFailed {
		return vm, err
	}
	start := v1.VirtualMachineOperationSpec{Type: v1.OperationStart, VirtualMachineName: m.Name}
	options := metav1.CreateOptions{FieldManager: fieldManager}
	_, err = c.operations.Create(ctx, act.NewOperation(c.namespace, c.userName(ctx), start), options)
	return vm, err
}

// reassignVM changes the user of a VM.
func (c *cluster) reassignVM(ctx context.Context, change pool.Change) (*v1.VirtualMachine, error) {
	patch, err := change.Patch()
	if err != nil {
		return nil, err
	}
	options := metav1.PatchOptions{FieldManager: fieldManager}
	vm, err := c.vms.Patch(ctx, change.Name, types.MergePatchType, patch, options, "status")
	if apierrors.IsForbidden(err) {
		return nil, hinted{err, "with --manager URL the permissions of the pool count"}
	}
	return vm, err
}

func newPoolRelease(f *flags) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use: "release VM", Short: "Release a VM of a pool",
		Long: "Free a VM that a user has from a pool. The guest keeps running unless the pool defines\n" +
			"otherwise. The next user sees the data on its disks unless the pool recreates its VMs.",
		Example: "  kubectl vmop pool release desktop-3",
	}
	f.oneVM(cmd)
	doneFlag(cmd, &form)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, _ := splitName(args)
		m, err := f.viaManager(cmd)
		if err != nil {
			return err
		}
		if m != nil {
			if err := m.doRequest(cmd.Context(), http.MethodPost, m.vmURL(name, "release"), nil, nil); err != nil {
				return err
			}
			return printDone(cmd, form, map[string]string{"vm": name}, vmKind, name, "released")
		}
		c, err := f.connectTo(cmd)
		if err != nil {
			return err
		}
		vm, err := c.releaseVM(cmd.Context(), name)
		if err != nil {
			return err
		}
		return printDone(cmd, form, withKind(vm), vmKind, name, "released")
	}
	return cmd
}

// releaseVM ends the assignment of a VM.
func (c *cluster) releaseVM(ctx context.Context, name string) (*v1.VirtualMachine, error) {
	for range mostClaims {
		vm, err := c.getVM(ctx, name)
		if err != nil {
			return nil, err
		}
		m := pool.MemberOf(vm)
		if m.Assignment == nil || m.Assignment.Released != nil {
			return nil, fmt.Errorf("VM %s is not assigned to a user", name)
		}
		change := pool.Change{Member: m}
		if is, err := c.pools.Get(ctx, m.Assignment.Pool, metav1.GetOptions{}); err == nil {
			change = pool.Pool{VmPool: is}.Release(m, pool.Released, time.Now())
		}
		if vm, err = c.reassignVM(ctx, change); !apierrors.IsConflict(err) {
			return vm, err
		}
	}
	return nil, fmt.Errorf("VM %s changes too often: try again", name)
}
