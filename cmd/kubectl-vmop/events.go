package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/duration"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
)

func newEvents(f *flags) *cobra.Command {
	var form string
	var watch bool
	cmd := &cobra.Command{
		Use: "events NAME", Short: "List the events of a VM, its pod and its disks", GroupID: groupLook,
		Long: "List the events of the VM, its StatefulSet, its pod and its claims, oldest first. The\n" +
			"API server keeps events for one hour.",
		Example: "  kubectl vmop events web\n  kubectl vmop events web --watch",
	}
	f.oneVM(cmd)
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "also print new events, until Ctrl-C")
	cli.OutputFlag(cmd, &form, "text", "json", "yaml")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, vm, err := f.findVM(cmd, args)
		if err != nil {
			return err
		}
		subjects, err := c.eventSubjects(cmd.Context(), vm)
		if err != nil {
			return err
		}
		list, err := c.eventsOf(cmd.Context(), subjects)
		if err != nil {
			return err
		}
		if form != "text" {
			return cli.PrintValue(cmd.OutOrStdout(), form, corev1.EventList{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "List"}, Items: list,
			})
		}
		if len(list) == 0 && !watch {
			cmd.PrintErrf("there are no events of VM %s\n", vm.Name)
			return nil
		}
		rows := [][]string{{"LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"}}
		for _, e := range list {
			rows = append(rows, eventRow(e, time.Now()))
		}
		if err := cli.Table(cmd.OutOrStdout(), rows); err != nil || !watch {
			return err
		}
		return c.watchEvents(cmd, subjects, list)
	}
	return cmd
}

// eventSubjects returns the names of a VM's objects that have events.
func (c *cluster) eventSubjects(ctx context.Context, vm *v1.VirtualMachine) ([]string, error) {
	names := []string{vm.Name, podNameOf(vm)} // the VM and its StatefulSet; its pod
	if p, err := podOf(vm); err == nil && p.Name != names[1] {
		names = append(names, p.Name)
	}
	claims, err := c.claimsOf(ctx, vm.Name)
	for _, claim := range claims {
		names = append(names, claim.Name)
	}
	return names, err
}

// eventsOf returns the events of objects, oldest first.
func (c *cluster) eventsOf(ctx context.Context, subjects []string) (all []corev1.Event, err error) {
	for _, name := range subjects {
		list, err := c.core.Events(c.namespace).List(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("involvedObject.name", name).String(),
		})
		if err != nil {
			return nil, fmt.Errorf("list events of %s: %w", name, err)
		}
		all = append(all, list.Items...)
	}
	slices.SortStableFunc(all, func(a, b corev1.Event) int { return lastSeen(a).Compare(lastSeen(b)) })
	return all, nil
}

// watchEvents prints new events.
func (c *cluster) watchEvents(cmd *cobra.Command, subjects []string, before []corev1.Event) error {
	for cmd.Context().Err() == nil {
		w, err := c.core.Events(c.namespace).Watch(cmd.Context(), metav1.ListOptions{})
		if err != nil {
			return causeOf(cmd.Context(), fmt.Errorf("watch events: %w", err))
		}
		for change := range w.ResultChan() {
			e, is := change.Object.(*corev1.Event)
			known := func(b corev1.Event) bool { return is && b.UID == e.UID && lastSeen(b).Equal(lastSeen(*e)) }
			if !is || !slices.Contains(subjects, e.InvolvedObject.Name) || slices.ContainsFunc(before, known) {
				continue
			}
			before = append(before, *e)
			if err := cli.Table(cmd.OutOrStdout(), [][]string{eventRow(*e, time.Now())}); err != nil {
				return err
			}
		}
		w.Stop()
	}
	return nil // the user leaves with Ctrl-C
}

// lastSeen returns the time when an event last occurred.
func lastSeen(e corev1.Event) time.Time {
	times := []time.Time{e.LastTimestamp.Time, e.EventTime.Time, e.CreationTimestamp.Time}
	if e.Series != nil {
		times = append(times, e.Series.LastObservedTime.Time)
	}
	return slices.MaxFunc(times, time.Time.Compare)
}

func eventRow(e corev1.Event, now time.Time) []string {
	seen := duration.HumanDuration(now.Sub(lastSeen(e)))
	if n := cmp.Or(e.Count, 1); n > 1 {
		seen = fmt.Sprintf("%s (x%d)", seen, n)
	}
	object := strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name
	return []string{seen, e.Type, e.Reason, object, e.Message}
}
