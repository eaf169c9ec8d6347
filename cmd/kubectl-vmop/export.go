package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	v1 "vmop/api/v1"
	"vmop/diskimage"
	"vmop/internal/cli"
	diskof "vmop/manager/disk"
)

// Limits of an export.
const (
	exportBegins  = 10 * time.Minute // for its start, unless --timeout is shorter
	exportRetry   = 2 * time.Second  // pause before restoring a broken connection
	exportRetries = 5                // consecutive attempts without progress
	withdrawTime  = 10 * time.Second
)

// exportable is a disk or an image in the cluster that can be exported.
type exportable struct {
	noun

	object string // its name
	pod    string
	get    func(ctx context.Context) (metav1.Object, error)
	patch  func(ctx context.Context, as types.PatchType, text []byte) error
	// await waits until the export reaches a goal. gone reports whether the object does not exist.
	await func(ctx context.Context, wanted func(gone bool, is *v1.DiskExport) (bool, error)) error
}

func (c *cluster) exportableDisk(name string) exportable {
	return exportable{
		noun: diskNoun(), object: name, pod: diskof.ExporterName(name),
		get: func(ctx context.Context) (metav1.Object, error) { return c.disks.Get(ctx, name, metav1.GetOptions{}) },
		patch: func(ctx context.Context, as types.PatchType, text []byte) error {
			_, err := c.disks.Patch(ctx, name, as, text, metav1.PatchOptions{FieldManager: fieldManager})
			return err
		},
		await: func(ctx context.Context, wanted func(bool, *v1.DiskExport) (bool, error)) error {
			_, err := awaitObject(ctx, c.disks, name, func(d *v1.VirtualDisk) (bool, error) {
				if d == nil {
					return wanted(true, nil)
				}
				return wanted(false, d.Status.Export)
			})
			return err
		},
	}
}

func (c *cluster) exportableImage(name string) exportable {
	return exportable{
		noun: imageNoun(), object: name, pod: diskof.ImageExporterName(name),
		get: func(ctx context.Context) (metav1.Object, error) { return c.images.Get(ctx, name, metav1.GetOptions{}) },
		patch: func(ctx context.Context, as types.PatchType, text []byte) error {
			_, err := c.images.Patch(ctx, name, as, text, metav1.PatchOptions{FieldManager: fieldManager})
			return err
		},
		await: func(ctx context.Context, wanted func(bool, *v1.DiskExport) (bool, error)) error {
			_, err := awaitObject(ctx, c.images, name, func(i *v1.VirtualImage) (bool, error) {
				if i == nil {
					return wanted(true, nil)
				}
				return wanted(false, i.Status.Export)
			})
			return err
		},
	}
}

func newDiskExport(f *flags) *cobra.Command {
	const more = "A disk can be exported while no VM uses it, and no VM can use it during the export. To\n" +
		"export a disk of a running VM, take a snapshot, create a disk from it, and export that disk."
	return newExport(f, diskNoun(), more, (*cluster).exportableDisk)
}

func newImageExport(f *flags) *cobra.Command {
	return newExport(f, imageNoun(), "VMs can use the image during the export.", (*cluster).exportableImage)
}

func newExport(f *flags, n noun, more string, of func(*cluster, string) exportable) *cobra.Command {
	var format string
	var w waiting
	cmd := &cobra.Command{
		Use: "export NAME FILE", Short: "Copy " + map[string]string{"disk": "a disk", "image": "an image"}[n.word] +
			" to a file of this computer",
		Long: "Copy the data to a new file in qcow2 or raw format, or in raw format to standard output\n" +
			"(-). Holes stay holes. A broken connection is opened again. It requires permission to\n" +
			"execute programs in pods (pods/exec).\n\n" + more,
		Example: "  kubectl vmop " + n.word + " export web-root web-root.qcow2\n" +
			"  kubectl vmop " + n.word + " export web-root - | zstd > web-root.zst",
	}
	n.takeName(f, cmd, 1, cobra.ShellCompDirectiveDefault)
	cmd.Flags().StringVar(&format, "format", "", "`FORMAT` of the file: qcow2 or raw (default qcow2, raw for -)")
	cli.CompleteFlag(cmd, "format", "qcow2", "raw")
	w.addLimit(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		to, err := formatFor(format, args[1])
		if err != nil {
			return err
		}
		c, err := f.onlyCluster(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := w.waitContext(cmd.Context())
		defer cancel()
		e := of(c, n.bareName(args[0]))
		if err := c.exportTo(ctx, cmd, e, args[1], to); err != nil {
			return err
		}
		if args[1] == "-" {
			return nil
		}
		return cli.WriteLine(cmd.OutOrStdout(), n.kind+"/"+e.object+" exported")
	}
	return cmd
}

// formatFor returns the format for a file.
func formatFor(format, file string) (diskimage.Format, error) {
	switch {
	case format == "" && file == "-":
		return diskimage.Raw, nil
	case format == "":
		return diskimage.QCOW2, nil
	case format != "qcow2" && format != "raw":
		return "", cli.UsageError{Err: fmt.Errorf("--format %s: must be qcow2 or raw", cli.Printable(format))}
	case format == "qcow2" && file == "-":
		return "", cli.UsageError{Err: errors.New("--format qcow2: the standard output gets raw bytes; name a file")}
	}
	return diskimage.Format(format), nil
}

// exportTo writes a disk or an image to a file.
func (c *cluster) exportTo(
	ctx context.Context, cmd *cobra.Command, e exportable, file string, as diskimage.Format,
) (err error) {
	arrival := diskimage.Arrival{To: &diskimage.Plain{W: cmd.OutOrStdout()}}
	if file != "-" {
		f, err := diskimage.Create(file, as)
		if err != nil {
			return err
		}
		defer f.Close()
		arrival.To = f
	}
	request, until, err := e.requestExport(ctx)
	if err != nil {
		return e.explainObject(c, e.object, err)
	}
	defer func() { err = errors.Join(err, e.withdrawRequest(ctx, request)) }()
	shown := cli.NewProgress(cmd)
	defer shown.End()
	arrival.Progress = func(at, size int64) {
		shown.Show("exporting", fmt.Sprintf("%s %s: exporting, %d%% of %s", e.word, e.object, at*100/size,
			diskimage.Size(size)))
	}
	late := errors.New("the export has not begun in time")
	begins, cancel := context.WithDeadlineCause(ctx, until.Add(time.Second), late) // the user's limit takes precedence
	err = e.awaitData(begins, request, shown)
	cancel()
	for failures, reached := 0, int64(0); err == nil; err = e.awaitData(ctx, request, shown) {
		err := c.fetchRest(ctx, e.pod, &arrival)
		switch {
		case err == nil, errors.As(err, new(*diskimage.Error)), ctx.Err() != nil:
			return causeOf(ctx, err)
		case arrival.Reached() > reached:
			failures, reached = 0, arrival.Reached()
		case failures == exportRetries:
			return err
		default:
			failures++
		}
		select {
		case <-ctx.Done():
		case <-time.After(exportRetry):
		}
	}
	return err
}

// fetchRest fetches the remaining data.
func (c *cluster) fetchRest(ctx context.Context, pod string, arrival *diskimage.Arrival) error {
	command := []string{
		"vmimport", "fetch", "--socket", diskof.UploadSocket, "--from", strconv.FormatInt(arrival.Reached(), 10),
	}
	inside, outside := io.Pipe()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = outside.CloseWithError(c.execIn(ctx, pod, "import", command, nil, outside)) // nil means the end of the data
	}()
	err := arrival.Receive(inside)
	_ = inside.Close()
	cancel()
	<-ended
	return err
}

// requestExport requests an export, unless an export is in progress. It returns the request and the time limit for its
// start.
func (e exportable) requestExport(ctx context.Context) (request string, until time.Time, err error) {
	now, err := e.get(ctx)
	if err != nil {
		return "", until, err
	}
	if before := now.GetAnnotations()[v1.AnnotationExport]; before != "" {
		if until, err = time.Parse(time.RFC3339Nano, before); err == nil && time.Now().Before(until) {
			return "", until, hinted{
				fmt.Errorf("%s %s is being exported already", e.word, e.object),
				"if that was broken off, cancel it by: kubectl annotate " + e.short + " " + e.object + " " +
					v1.AnnotationExport + "-",
			}
		}
	}
	until = time.Now().Add(exportBegins)
	if limit, limited := ctx.Deadline(); limited && limit.Before(until) {
		until = limit
	}
	request = until.UTC().Format(time.RFC3339Nano)
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": now.GetUID(), "resourceVersion": now.GetResourceVersion(),
		"annotations": map[string]string{v1.AnnotationExport: request},
	}})
	if err != nil {
		return "", until, err
	}
	return request, until, e.patch(ctx, types.MergePatchType, text)
}

// withdrawRequest removes the request, unless it has been replaced. It works even after the context has ended.
func (e exportable) withdrawRequest(ctx context.Context, request string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawTime)
	defer cancel()
	now, err := e.get(ctx)
	if isMissingObject(err) || err == nil && now.GetAnnotations()[v1.AnnotationExport] != request {
		return nil
	}
	const path = "/metadata/annotations/vmoperator.jdrupes.org~1export"
	text, marshalErr := json.Marshal([]map[string]string{
		{"op": "test", "path": path, "value": request}, {"op": "remove", "path": path},
	})
	if err = errors.Join(err, marshalErr); err == nil {
		err = e.patch(ctx, types.JSONPatchType, text)
	}
	if err != nil {
		return fmt.Errorf("end the export, which otherwise ends in two minutes: %w", err)
	}
	return nil
}

// awaitData waits until the data can be fetched, and shows the reason for waiting.
func (e exportable) awaitData(ctx context.Context, request string, shown *cli.Progress) error {
	what := e.word + " " + e.object
	return e.await(ctx, func(gone bool, is *v1.DiskExport) (bool, error) {
		switch {
		case gone:
			return false, fmt.Errorf("%s has been deleted meanwhile", what)
		case is == nil || is.Request != request:
			return false, nil
		case is.Phase == v1.DiskExportEnded, is.Reason == diskof.ReasonSourceInUse, is.Reason == diskof.ReasonDeletion:
			return false, fmt.Errorf("%s can't be exported: %s: %s", what, is.Reason, cli.Printable(is.Message))
		case is.Phase == v1.DiskExportPending:
			shown.Show(is.Reason, what+": "+is.Message)
		}
		return is.Phase == v1.DiskExportReady, nil
	})
}
