package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
)

// stepExport takes a step of an export and adds its state to the situation of the disk. It returns when to look again;
// 0 means never.
func (c *Controller) stepExport(ctx context.Context, s *disk.Situation) (again time.Duration, err error) {
	if s.Exporter, err = c.book.Exporter(s.Disk.Name); err != nil {
		return 0, err
	}
	again = s.UntilForgotten()
	switch disk.NextOfExport(*s) {
	case disk.Confirm:
		s.ExporterGone, err = c.hasPodEnded(ctx, disk.ExporterOf(s.Disk), s.Disk.Status.Export.Pod)
		again = goneRetry
	case disk.MakePod:
		s.Exporter, err = c.createPod(ctx, s.Disk, disk.ExportPod(s.Disk, c.workerFor(s.Disk)))
		if s.NoExporter = refusalOf(err); s.NoExporter != nil {
			return soonerOf(again, refusedRetry), nil
		}
	case disk.StartPod:
		s.Exporter, err = c.startPod(ctx, s.Exporter, true)
	case disk.RemovePod:
		err = c.removePod(ctx, s.Exporter)
	case disk.Forget:
		err = c.forgetExport(ctx, s.Disk)
	case disk.Nothing, disk.Create, disk.Grow:
	}
	return again, err
}

// forgetExport removes an expired export request, unless the disk has changed since it was read.
func (c *Controller) forgetExport(ctx context.Context, d *v1.VirtualDisk) error {
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"resourceVersion": d.ResourceVersion, "annotations": map[string]any{v1.AnnotationExport: nil},
	}})
	if err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Name: d.Name, Namespace: c.opts.Namespace}
	var next client.Object = &v1.VirtualDisk{ObjectMeta: meta}
	if c.kind == v1.KindVirtualImage {
		next = &v1.VirtualImage{ObjectMeta: meta}
	}
	if err := c.opts.Client.Patch(ctx, next, client.RawPatch(types.MergePatchType, text), owner); err != nil {
		return fmt.Errorf("remove the request to export the %s %s: %w", c.kind, d.Name, err)
	}
	return c.book.Learn(next)
}
