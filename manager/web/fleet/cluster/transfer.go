package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/diskimage"
	"vmop/diskimage/transfer"
	"vmop/manager/disk"
	"vmop/manager/web/fleet"
	"vmop/manager/web/stream"
)

// Limits for downloads.
const (
	exportBegins  = 10 * time.Minute // deadline for the start of an export
	fetchRetry    = 2 * time.Second  // before reconnecting after an interruption
	fetchRetries  = 5                // in a row without progress
	withdrawLimit = 10 * time.Second
)

// doorOf returns the address at which the pod with this UID receives or sends data. message is the error while the pod
// isn't ready.
//
// See docs/decisions/0158-files-through-pages.md.
func doorOf(pod *corev1.Pod, uid types.UID, message string) (stream.Target, error) {
	switch {
	case pod == nil || uid == "" || pod.UID != uid || pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "":
		return stream.Target{}, fleet.NotYet(message)
	case pod.Annotations[disk.AnnotationKey] == "":
		return stream.Target{}, fleet.Refusal("an earlier manager has created the pod " + pod.Name + ": delete it")
	}
	return stream.Target{
		Address: net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(transfer.Port)),
		Key:     pod.Annotations[disk.AnnotationKey],
	}, nil
}

// Upload implements fleet.Storage.
func (f *Fleet) Upload(ctx context.Context, kind fleet.VolumeKind, name string, p fleet.Piece) (
	is fleet.Upload, err error,
) {
	book := f.bookOf(kind)
	d, err := book.Disk(name)
	if err != nil || d == nil {
		return is, orNotFound(err)
	}
	switch {
	case !disk.HasDoor(d):
		return is, fleet.Refusal(fmt.Sprintf("the %s %s is not one that is uploaded", kind, name))
	case disk.Whole(d) && p.From == p.Size && !p.Cancel:
		return fleet.Upload{State: fleet.UploadImported, At: p.Size}, nil
	case disk.Whole(d):
		return is, fleet.Refusal(fmt.Sprintf("the %s %s already contains data", kind, name))
	case d.Status.Phase == v1.DiskFailed, d.Status.Phase == v1.DiskTerminating:
		return is, fleet.Refusal(d.Status.Reason + ": " + d.Status.Message)
	}
	pod, err := book.Pod(name)
	if err != nil {
		return is, err
	}
	uid := types.UID("")
	if d.Status.Import != nil {
		uid = d.Status.Import.Pod
	}
	target, err := doorOf(pod, uid, d.Status.Message)
	if err != nil {
		return is, err
	}
	conn, err := f.opts.Keys.Dial(ctx, target)
	if err != nil {
		return is, err
	}
	answer, err := transfer.Upload(ctx, conn, transfer.Announcement{
		Size: p.Size, Checksum: p.Checksum, ID: p.ID, From: p.From, Length: p.Length, Cancel: p.Cancel,
	}, p.Body)
	if err != nil {
		return is, err
	}
	switch state := fleet.UploadState(answer.Reason); state {
	case fleet.UploadContinues, fleet.UploadReceived, fleet.UploadImported, fleet.UploadUnknown:
		return fleet.Upload{State: state, At: answer.At}, nil
	}
	return is, fleet.Refusal(answer.Reason + ": " + answer.Message)
}

// Export implements fleet.Exports.
func (f *Fleet) Export(ctx context.Context, _ string, kind fleet.VolumeKind, name string) (string, error) {
	object, _, err := f.diskToWrite(ctx, kind, name)
	if err != nil {
		return "", err
	}
	d, err := f.bookOf(kind).Disk(name)
	if err != nil || d == nil {
		return "", orNotFound(err)
	}
	until, err := time.Parse(time.RFC3339Nano, d.Annotations[v1.AnnotationExport])
	ended := d.Status.Export != nil && d.Status.Export.Phase == v1.DiskExportEnded
	if err == nil && f.opts.Now().Before(until) && !ended {
		return "", fleet.Refusal(fmt.Sprintf("the %s %s is being exported already", kind, name))
	}
	request := f.opts.Now().Add(exportBegins).UTC().Format(time.RFC3339Nano)
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": object.GetUID(), "resourceVersion": d.ResourceVersion,
		"annotations": map[string]string{v1.AnnotationExport: request},
	}})
	if err != nil {
		return "", fmt.Errorf("encode the request to export %s: %w", name, err)
	}
	err = f.opts.Client.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch), owner)
	if err != nil {
		return "", asRefusal(err)
	}
	return request, f.bookOf(kind).Learn(object)
}

// Exported implements fleet.Exports.
func (f *Fleet) Exported(kind fleet.VolumeKind, name, request string) error {
	d, err := f.bookOf(kind).Disk(name)
	if err != nil || d == nil {
		return orNotFound(err)
	}
	until, err := time.Parse(time.RFC3339Nano, request)
	if err != nil {
		return fleet.Refusal("no export of that request has been asked for")
	}
	wanted, _ := time.Parse(time.RFC3339Nano, d.Annotations[v1.AnnotationExport])
	is := d.Status.Export
	switch {
	case wanted.After(until): // this manager may not know of the request yet
		return fleet.Refusal(fmt.Sprintf("another export of the %s %s has been asked for", kind, name))
	case is == nil || is.Request != request:
		if !f.opts.Now().Before(until) {
			return fleet.Refusal(fmt.Sprintf("the export of the %s %s has ended", kind, name))
		}
		return fleet.NotYet("the export has been asked for")
	case is.Phase == v1.DiskExportEnded, is.Reason == disk.ReasonSourceInUse, is.Reason == disk.ReasonDeletion:
		return fleet.Refusal(fmt.Sprintf("%s: %s", is.Reason, is.Message))
	case is.Phase != v1.DiskExportReady:
		return fleet.NotYet(is.Message)
	}
	_, err = f.exporterTarget(kind, name)
	return err
}

// exporterTarget returns the address of the pod that exports a disk.
func (f *Fleet) exporterTarget(kind fleet.VolumeKind, name string) (stream.Target, error) {
	book := f.bookOf(kind)
	d, err := book.Disk(name)
	if err != nil || d == nil || d.Status.Export == nil {
		return stream.Target{}, orNotFound(err)
	}
	pod, err := book.Exporter(name)
	if err != nil {
		return stream.Target{}, err
	}
	return doorOf(pod, d.Status.Export.Pod, d.Status.Export.Message)
}

// Download implements fleet.Exports.
func (f *Fleet) Download(
	ctx context.Context, kind fleet.VolumeKind, name, request string, to fleet.DiskWriter,
) error {
	if err := f.Exported(kind, name, request); err != nil {
		return err
	}
	target, err := f.exporterTarget(kind, name)
	if err != nil {
		return err
	}
	// If this fails, the export ends by itself after two minutes, and the file is still complete.
	defer func() { _ = f.withdrawExport(ctx, kind, name, request) }()
	arrival := diskimage.Arrival{To: to, Begin: to.Begin, Progress: func(_, _ int64) {}}
	for failures, reached := 0, int64(0); ; {
		err := f.fetchRest(ctx, target, &arrival)
		switch {
		case err == nil, errors.As(err, new(*diskimage.Error)), ctx.Err() != nil:
			return err
		case arrival.Reached() > reached:
			failures, reached = 0, arrival.Reached()
		case failures == fetchRetries:
			return err
		default:
			failures++
		}
		select {
		case <-ctx.Done():
		case <-time.After(fetchRetry):
		}
	}
}

// fetchRest fetches the remaining data.
func (f *Fleet) fetchRest(ctx context.Context, target stream.Target, arrival *diskimage.Arrival) error {
	conn, err := f.opts.Keys.Dial(ctx, target)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	return transfer.Fetch(conn, arrival)
}

// withdrawExport removes an export request, even after ctx has ended, unless there is a newer request.
func (f *Fleet) withdrawExport(ctx context.Context, kind fleet.VolumeKind, name, request string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawLimit)
	defer cancel()
	object, _, err := f.diskToWrite(ctx, kind, name)
	if err != nil {
		return nil // it is gone
	}
	if d, err := f.bookOf(kind).Disk(name); err != nil || d == nil || d.Annotations[v1.AnnotationExport] != request {
		return err
	}
	const path = "/metadata/annotations/vmoperator.jdrupes.org~1export"
	patch, err := json.Marshal([]map[string]string{
		{"op": "test", "path": path, "value": request}, {"op": "remove", "path": path},
	})
	if err == nil {
		err = f.opts.Client.Patch(ctx, object, client.RawPatch(types.JSONPatchType, patch), owner)
	}
	if err != nil {
		return fmt.Errorf("end the export: %w", err)
	}
	return nil
}
