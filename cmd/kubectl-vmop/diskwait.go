package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/manager/disk"
)

// awaitDisk waits until a disk reaches a goal, shows its progress, and returns it.
func (c *cluster) awaitDisk(
	ctx context.Context, cmd *cobra.Command, name string, wanted func(*v1.VirtualDisk) (bool, error),
) (*v1.VirtualDisk, error) {
	shown := cli.NewProgress(cmd)
	defer shown.End()
	d, err := awaitObject(ctx, c.disks, name, func(d *v1.VirtualDisk) (bool, error) {
		reached, err := wanted(d)
		if d != nil && !reached && err == nil {
			shown.Show(string(d.Status.Phase)+d.Status.Reason, progressOf(d))
		}
		return reached, err
	})
	if d != nil {
		typedDisk(d)
	}
	return d, diskNoun().explainObject(c, name, err)
}

// progressOf describes what a disk is waiting for, or the progress of importing its data.
func progressOf(d *v1.VirtualDisk) string {
	s := d.Status
	text := "disk " + d.Name + ": " + pendingText(string(s.Phase), s.Reason, s.Message)
	if s.Progress != "" {
		text += ", " + s.Progress
	}
	if s.Import == nil || s.Import.Bytes == 0 {
		return text
	}
	size := func(n int64) string { return resource.NewQuantity(n>>20<<20, resource.BinarySI).String() }
	switch {
	case s.Import.Total > 0:
		text += fmt.Sprintf(" (%s of %s)", size(s.Import.Bytes), size(s.Import.Total))
	default:
		text += fmt.Sprintf(" (%s)", size(s.Import.Bytes))
	}
	if s.Import.TimeLeft != "" {
		text += ", " + s.Import.TimeLeft + " left"
	}
	return text
}

var errDiskDeleted = errors.New("the disk has been deleted meanwhile")

// isUsable is the goal of a disk that VMs can use, or that waits for its first VM.
func isUsable(d *v1.VirtualDisk) (bool, error) {
	switch {
	case d == nil:
		return false, errDiskDeleted
	case d.Status.Phase == v1.DiskFailed:
		return false, fmt.Errorf("disk %s has failed: %s: %s", d.Name, d.Status.Reason, cli.Printable(d.Status.Message))
	}
	return d.Status.Phase == v1.DiskReady || d.Status.Phase == v1.DiskWaiting, nil
}

// hasGrown is the goal of a disk that has the size of its definition since a generation, or will grow on its next
// use.
func hasGrown(generation int64) func(*v1.VirtualDisk) (bool, error) {
	return func(d *v1.VirtualDisk) (bool, error) {
		switch {
		case d == nil:
			return false, errDiskDeleted
		case d.Status.ObservedGeneration < generation:
			return false, nil
		case d.Status.Phase == v1.DiskFailed, d.Status.Phase == v1.DiskReady && d.Status.Reason != "":
			return false, fmt.Errorf("disk %s doesn't grow: %s: %s", d.Name, d.Status.Reason,
				cli.Printable(d.Status.Message))
		}
		return meta.IsStatusConditionTrue(d.Status.Conditions, v1.DiskConditionResized) ||
			d.Status.Phase == v1.DiskWaiting || d.Status.Reason == disk.ReasonGrowsLater, nil
	}
}
