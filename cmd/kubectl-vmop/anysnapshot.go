package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/internal/spelling"
	"vmop/manager/snapshot"
)

// vmSnapshots returns the noun for VirtualMachineSnapshots.
func vmSnapshots() noun {
	list := func(ctx context.Context, c *cluster, o metav1.ListOptions) (runtime.Object, error) {
		return c.vmSnapshots.List(ctx, o)
	}
	return noun{"snapshot", "vmsnapshot", "virtualmachinesnapshot." + v1.GroupName, list}
}

// diskSnapshots returns the noun for VirtualDiskSnapshots.
func diskSnapshots() noun {
	list := func(ctx context.Context, c *cluster, o metav1.ListOptions) (runtime.Object, error) {
		return c.diskSnapshots.List(ctx, o)
	}
	return noun{"snapshot", "vdsnapshot", "virtualdisksnapshot." + v1.GroupName, list}
}

// anySnapshot is a VirtualMachineSnapshot or a VirtualDiskSnapshot.
type anySnapshot struct {
	noun

	name, of        string // of is vm/NAME or vd/NAME
	uid             types.UID
	phase           v1.SnapshotPhase
	reason, message string
	consistent      *bool
	why             string // reason why it isn't consistent
	created         time.Time
	object          metav1.Object
}

// ofDisk reports whether the snapshot is a VirtualDiskSnapshot.
func (s anySnapshot) ofDisk() bool { return s.kind == diskSnapshots().kind }

// checkOfVM returns an error if the snapshot is a VirtualDiskSnapshot. The error explains how to use such a
// snapshot.
func (s anySnapshot) checkOfVM() error {
	if !s.ofDisk() {
		return nil
	}
	return hinted{
		fmt.Errorf("the snapshot %s is a VirtualDiskSnapshot, which has no definition of a VM", s.name),
		fmt.Sprintf("kubectl vmop disk create NAME --size SIZE --snapshot %s creates a disk from it", s.name),
	}
}

// String returns a name that identifies the snapshot even if the other kind has a snapshot of the same name.
func (s anySnapshot) String() string { return s.short + "/" + s.name }

func viewOfVM(of *v1.VirtualMachineSnapshot) anySnapshot {
	of.SetGroupVersionKind(v1.GroupVersion().WithKind(v1.KindVMSnapshot))
	is := of.Status
	return anySnapshot{
		vmSnapshots(), of.Name, "vm/" + of.Spec.VirtualMachineName, of.UID, is.Phase, is.Reason, is.Message,
		is.Consistent, whyNot(is.Conditions), of.CreationTimestamp.Time, of,
	}
}

func viewOfDisk(of *v1.VirtualDiskSnapshot) anySnapshot {
	of.SetGroupVersionKind(v1.GroupVersion().WithKind(v1.KindVirtualDiskSnapshot))
	is := of.Status
	return anySnapshot{
		diskSnapshots(), of.Name, "vd/" + of.Spec.VirtualDiskName, of.UID, is.Phase, is.Reason, is.Message,
		is.Consistent, whyNot(is.Conditions), of.CreationTimestamp.Time, of,
	}
}

// whyNot returns the reason why a snapshot isn't consistent.
func whyNot(conditions []metav1.Condition) string {
	if c := meta.FindStatusCondition(conditions, v1.SnapshotConditionConsistent); c != nil {
		return c.Message
	}
	return ""
}

// listSnapshots returns the snapshots of the namespace, VM snapshots first.
func (c *cluster) listSnapshots(ctx context.Context) (all []anySnapshot, err error) {
	vms, err := c.vmSnapshots.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, unknownKind(err)
	}
	for i := range vms.Items {
		all = append(all, viewOfVM(&vms.Items[i]))
	}
	disks, err := c.diskSnapshots.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, unknownKind(err)
	}
	for i := range disks.Items {
		all = append(all, viewOfDisk(&disks.Items[i]))
	}
	return all, nil
}

// findSnapshot returns the snapshot for NAME, vmsnapshot/NAME or vdsnapshot/NAME.
func (c *cluster) findSnapshot(ctx context.Context, text string) (anySnapshot, error) {
	found, err := c.snapshotsMeant(ctx, text)
	if err == nil && len(found) > 1 {
		err = cli.UsageError{Err: fmt.Errorf("there are several snapshots %s: use %s or %s", text, found[0], found[1])}
	}
	if err != nil {
		return anySnapshot{}, err
	}
	return found[0], nil
}

// snapshotOfVM returns the VirtualMachineSnapshot for vmsnapshot/NAME or NAME, even if a VirtualDiskSnapshot has
// the same name. If only a VirtualDiskSnapshot exists, the error explains how to use it.
func (c *cluster) snapshotOfVM(ctx context.Context, text string) (anySnapshot, error) {
	found, err := c.snapshotsMeant(ctx, text)
	if err != nil {
		return anySnapshot{}, err
	}
	return found[0], found[0].checkOfVM()
}

// snapshotsMeant returns the snapshots that a text can refer to, VM snapshots first. It returns at least one
// snapshot or an error.
func (c *cluster) snapshotsMeant(ctx context.Context, text string) (found []anySnapshot, err error) {
	all, err := c.listSnapshots(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range all {
		if s.noun.bareName(text) == s.name {
			found = append(found, s)
		}
		names = append(names, s.name)
	}
	if len(found) > 0 {
		return found, nil
	}
	hint := "list the snapshots by: kubectl vmop snapshot list"
	if near := spelling.Nearest(text[strings.LastIndex(text, "/")+1:], names); near != "" {
		hint = "did you mean " + near + "? kubectl vmop snapshot list shows all"
	}
	of := schema.GroupResource{Group: v1.GroupName, Resource: "virtualmachinesnapshots"}
	return nil, hinted{
		fmt.Errorf("there is no snapshot %s in namespace %s: %w", text, c.namespace, apierrors.NewNotFound(of, text)),
		hint,
	}
}

func printSnapshots(cmd *cobra.Command, form string, all []anySnapshot) error {
	out := cmd.OutOrStdout()
	var objects []metav1.Object
	rows := [][]string{{"NAME", "OF", "PHASE", "CONSISTENT", "AGE", "REASON"}}
	for _, s := range all {
		if form == "name" {
			if err := cli.WriteLine(out, s.kind+"/"+s.name); err != nil {
				return err
			}
		}
		s.object.SetManagedFields(nil) // like kubectl
		objects = append(objects, s.object)
		consistent := "-"
		if s.consistent != nil {
			consistent = fmt.Sprint(*s.consistent)
		}
		rows = append(rows, []string{
			s.name, s.of, string(s.phase), consistent, duration.HumanDuration(time.Since(s.created)),
			cmp.Or(s.reason, "-"),
		})
	}
	switch {
	case form == "name":
		return nil
	case form == "json", form == "yaml":
		return cli.PrintValue(out, form, listOf(objects...))
	case len(all) == 0:
		cmd.PrintErrln("there are no snapshots in the namespace; make one by: kubectl vmop snapshot create VM")
		return nil
	}
	return cli.Table(out, rows)
}

// listOf returns a List object of objects of any kind.
func listOf(objects ...metav1.Object) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": append([]metav1.Object{}, objects...)}
}

// awaitMade waits until a snapshot is ready, warns if it isn't consistent, and returns it.
func (c *cluster) awaitMade(ctx context.Context, cmd *cobra.Command, s anySnapshot) (anySnapshot, error) {
	now, err := c.awaitSnapshot(ctx, cmd, s, s.isMade)
	switch {
	case errors.As(err, new(cli.SignalError)), errors.Is(err, errTimeout):
		cmd.PrintErrf("the snapshot %s is still being created: kubectl vmop snapshot list\n", s.name)
	case err == nil && now.consistent != nil && !*now.consistent:
		cmd.PrintErrf("warning: the snapshot %s is not consistent, but as after a power cut: %s\n", s.name,
			cli.Printable(now.why))
	}
	return now, err
}

// isMade is the goal of a ready snapshot.
func (s anySnapshot) isMade(now *anySnapshot) (bool, error) {
	switch {
	case now == nil, now.uid != s.uid, now.phase == v1.SnapshotTerminating:
		return false, fmt.Errorf("the snapshot %s has been deleted meanwhile", s.name)
	case now.phase == v1.SnapshotFailed:
		err := fmt.Errorf("snapshot %s has failed: %s: %s", s.name, now.reason, cli.Printable(now.message))
		if now.reason == snapshot.ReasonNotConsistent {
			return false, hinted{err, "it requires a guest agent or a stopped VM; or --" + consistencyFlag +
				"=false, for a snapshot that is as after a power cut"}
		}
		return false, err
	}
	return now.phase == v1.SnapshotReady, nil
}

// awaitSnapshot waits until a snapshot reaches a goal, shows its progress, and returns it. The goal is called
// with nil if the snapshot does not exist.
func (c *cluster) awaitSnapshot(
	ctx context.Context, cmd *cobra.Command, s anySnapshot, wanted func(*anySnapshot) (bool, error),
) (anySnapshot, error) {
	shown := cli.NewProgress(cmd)
	defer shown.End()
	check := func(now *anySnapshot) (bool, error) {
		reached, err := wanted(now)
		if now != nil && !reached && err == nil {
			text := pendingText(string(now.phase), now.reason, now.message)
			shown.Show(string(now.phase)+now.reason, "snapshot "+now.name+": "+text)
		}
		return reached, err
	}
	if s.ofDisk() {
		return awaitEither(ctx, c.diskSnapshots, viewOfDisk, s.name, check)
	}
	return awaitEither(ctx, c.vmSnapshots, viewOfVM, s.name, check)
}

func awaitEither[T any, P object[T]](
	ctx context.Context, client source[P], view func(P) anySnapshot, name string,
	check func(*anySnapshot) (bool, error),
) (is anySnapshot, err error) {
	_, err = awaitObject(ctx, client, name, func(now P) (bool, error) {
		if now == nil {
			return check(nil)
		}
		is = view(now)
		return check(&is)
	})
	return is, err
}
