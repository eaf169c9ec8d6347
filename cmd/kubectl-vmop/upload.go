package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	diskof "vmop/manager/disk"
)

// errWhole means that the data have already arrived.
var errWhole = errors.New("already contains data: create another")

// awaitsUpload is the goal of an object that is ready for an upload. what is the kind and the name of the object.
func awaitsUpload(
	what string, phase v1.DiskPhase, source *v1.VirtualDiskSource, reason, message string,
) (bool, error) {
	switch {
	case source == nil || source.Type != v1.DiskSourceUpload:
		return false, fmt.Errorf("%s is not one that is uploaded: its dataSource has another type", what)
	case phase == v1.DiskReady:
		return false, fmt.Errorf("%s %w", what, errWhole)
	case phase == v1.DiskFailed, phase == v1.DiskTerminating:
		return false, fmt.Errorf("%s can't be uploaded: %s: %s", what, reason, cli.Printable(message))
	}
	return phase == v1.DiskUpload, nil
}

func newImageUpload(f *flags) *cobra.Command {
	var form, checksum string
	var d diskDraft
	var w waiting
	cmd := &cobra.Command{
		Use: "upload NAME FILE", Short: "Send an image from this computer",
		Long: "Send an image file to an image of the type Upload, and wait until it is Ready. With\n" +
			"--size a missing image is created. A failed upload can be sent again. Lost connections\n" +
			"are restored, and the same command continues an interrupted upload within one hour. It\n" +
			"requires permission to execute programs in pods (pods/exec).",
		Example: "  kubectl vmop image upload installer debian-12.iso --size 1Gi",
	}
	imageNoun().takeName(f, cmd, 1, cobra.ShellCompDirectiveDefault)
	doneFlag(cmd, &form)
	d.addVolume(cmd)
	cli.ChecksumFlag(cmd.Flags(), &checksum, "the file")
	w.addLimit(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d.name = imageNoun().bareName(args[0])
		u, err := openUpload(args[1], checksum)
		if err != nil {
			return err
		}
		defer u.file.Close()
		c, err := f.onlyCluster(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := w.waitContext(cmd.Context())
		defer cancel()
		image, err := c.uploadImage(ctx, cmd, &d, u)
		if err != nil {
			return err
		}
		return printDone(cmd, form, typedImage(image), imageKind, d.name, "uploaded")
	}
	return cmd
}

// uploadImage creates the image if it does not exist, and sends its data.
func (c *cluster) uploadImage(
	ctx context.Context, cmd *cobra.Command, d *diskDraft, u *upload,
) (*v1.VirtualImage, error) {
	if d.size != "" {
		image, err := d.draftImage()
		if err != nil {
			return nil, cli.UsageError{Err: err}
		}
		image.Spec.DataSource = v1.VirtualDiskSource{Type: v1.DiskSourceUpload}
		_, err = c.images.Create(ctx, image, metav1.CreateOptions{FieldManager: fieldManager})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return nil, err
		}
	}
	if _, err := c.images.Get(ctx, d.name, metav1.GetOptions{}); err != nil {
		return nil, imageNoun().explainObject(c, d.name, err)
	}
	what := "image " + d.name
	err := c.sendImage(ctx, cmd, what, diskof.ImagePodName(d.name), u, func() error {
		_, err := c.awaitImage(ctx, cmd, d.name, func(i *v1.VirtualImage) (bool, error) {
			if i == nil {
				return imageUsable(nil)
			}
			return awaitsUpload(what, i.Status.Phase, &i.Spec.DataSource, i.Status.Reason, i.Status.Message)
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.awaitImage(ctx, cmd, d.name, imageUsable)
}

func newDiskUpload(f *flags) *cobra.Command {
	var form, checksum string
	var w waiting
	cmd := &cobra.Command{
		Use: "upload NAME FILE", Short: "Send the image of a disk from this computer",
		Long: "Send an image file to a disk of the type Upload, and wait until VMs can use it. A failed\n" +
			"upload can be sent again. Lost connections are restored, and the same command continues\n" +
			"an interrupted upload within one hour. It requires permission to execute programs in\n" +
			"pods (pods/exec).",
		Example: "  kubectl vmop disk upload web-root debian-12.qcow2",
	}
	diskNoun().takeName(f, cmd, 1, cobra.ShellCompDirectiveDefault)
	doneFlag(cmd, &form)
	cli.ChecksumFlag(cmd.Flags(), &checksum, "the file")
	w.addLimit(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := diskNoun().bareName(args[0])
		u, err := openUpload(args[1], checksum)
		if err != nil {
			return err
		}
		defer u.file.Close()
		c, err := f.onlyCluster(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := w.waitContext(cmd.Context())
		defer cancel()
		if _, err := c.disks.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return diskNoun().explainObject(c, name, err)
		}
		what := "disk " + name
		err = c.sendImage(ctx, cmd, what, diskof.PodName(name), u, func() error {
			_, err := c.awaitDisk(ctx, cmd, name, func(d *v1.VirtualDisk) (bool, error) {
				if d == nil {
					return false, errDiskDeleted
				}
				return awaitsUpload(what, d.Status.Phase, d.Spec.DataSource, d.Status.Reason, d.Status.Message)
			})
			return err
		})
		if err != nil {
			return err
		}
		d, err := c.awaitDisk(ctx, cmd, name, isUsable)
		if err != nil {
			return err
		}
		return printDone(cmd, form, typedDisk(d), diskKind, name, "uploaded")
	}
	return cmd
}
