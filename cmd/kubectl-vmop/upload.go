package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/cli"
	"vmop/diskimage"
	diskof "vmop/manager/disk"
	"vmop/regular"
)

// An upload is an image in a file of this computer.
type upload struct {
	file     *os.File
	size     int64 // bytes
	checksum string
}

// openUpload opens a file. Its size is announced, so nothing that was cut off is taken for whole.
func openUpload(name, checksum string) (*upload, error) {
	if _, err := diskimage.ParseChecksum(checksum); err != nil {
		return nil, cli.UsageError{Err: fmt.Errorf("--%w", err)}
	}
	file, err := regular.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read the image: %w", err)
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case info.Size() == 0:
		err = fmt.Errorf("%s is empty", name)
	default:
		return &upload{file, info.Size(), checksum}, nil
	}
	return nil, errors.Join(err, file.Close())
}

// send sends the image to the import pod of what has a name for people, and returns when it was imported.
func (c *cluster) send(ctx context.Context, cmd *cobra.Command, what, pod string, u *upload) error {
	shown := cli.NewProgress(cmd)
	defer shown.End()
	command := []string{"vmimport", "receive", "--socket", diskof.UploadSocket, "--size", strconv.FormatInt(u.size, 10)}
	if u.checksum != "" {
		command = append(command, "--checksum", u.checksum)
	}
	sent := int64(0)
	in := reading{u.file, func(n int) {
		sent += int64(n)
		shown.Show("sending", fmt.Sprintf("%s: sending, %d%%", what, sent*100/u.size))
	}}
	var out bytes.Buffer
	err := c.execIn(ctx, pod, "import", command, in, &out)
	var said struct{ Reason, Message string }
	if json.Unmarshal(out.Bytes(), &said) == nil && said.Reason != "" && said.Reason != diskof.ReasonImported {
		return fmt.Errorf("%s: %s: %s", what, cli.Printable(said.Reason), cli.Printable(said.Message))
	}
	if apierrors.IsNotFound(err) { // not what the user has named
		return fmt.Errorf("%s: the pod %s, which takes the data, is just being started again (%v): repeat the upload",
			what, pod, err)
	}
	return err
}

// reading tells how much was read.
type reading struct {
	io.Reader

	read func(n int)
}

func (r reading) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.read(n)
	return n, err
}

// awaitsUpload is the goal that an upload can be sent; what is the kind and the name of what has the phase.
func awaitsUpload(
	what string, phase v1.DiskPhase, source *v1.VirtualDiskSource, reason, message string,
) (bool, error) {
	switch {
	case source == nil || source.Type != v1.DiskSourceUpload:
		return false, fmt.Errorf("%s is not one that is uploaded: its dataSource has another type", what)
	case phase == v1.DiskReady:
		return false, fmt.Errorf("%s has its data already: make another one", what)
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
		Long: "upload sends an image in a file to an image of the type Upload, and waits until it is Ready. With --size\n" +
			"the image is made if there is none. An upload that has failed can be sent again. It needs the right to\n" +
			"execute programs in pods (pods/exec).",
		Example: "  kubectl vmop image upload installer debian-12.iso --size 1Gi",
	}
	images().takes(f, cmd, 1, cobra.ShellCompDirectiveDefault)
	doneFlag(cmd, &form)
	d.addVolume(cmd)
	cmd.Flags().StringVar(&checksum, "checksum", "", "`checksum` of the file: sha256:HEX, sha512:HEX or md5:HEX")
	cmd.Flags().DurationVar(&w.limit, "timeout", 0, "limit, such as 30m (0: none)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d.name = images().name(args[0])
		u, err := openUpload(args[1], checksum)
		if err != nil {
			return err
		}
		defer u.file.Close()
		c, err := f.onlyCluster(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := w.context(cmd.Context())
		defer cancel()
		image, err := c.uploadImage(ctx, cmd, &d, u)
		if err != nil {
			return err
		}
		return printDone(cmd, form, typedImage(image), imageKind, d.name, "uploaded")
	}
	return cmd
}

// uploadImage makes an image if there is none, and sends its data.
func (c *cluster) uploadImage(
	ctx context.Context, cmd *cobra.Command, d *diskDraft, u *upload,
) (*v1.VirtualImage, error) {
	if d.size != "" {
		image, err := d.image()
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
		return nil, images().explain(c, d.name, err)
	}
	what := "image " + d.name
	_, err := c.awaitImage(ctx, cmd, d.name, func(i *v1.VirtualImage) (bool, error) {
		if i == nil {
			return imageUsable(nil)
		}
		return awaitsUpload(what, i.Status.Phase, &i.Spec.DataSource, i.Status.Reason, i.Status.Message)
	})
	if err == nil {
		err = c.send(ctx, cmd, what, diskof.ImagePodName(d.name), u)
	}
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
		Long: "upload sends an image in a file to a disk of the type Upload, and waits until VMs can have it. An upload\n" +
			"that has failed can be sent again. It needs the right to execute programs in pods (pods/exec).",
		Example: "  kubectl vmop disk upload web-root debian-12.qcow2",
	}
	disks().takes(f, cmd, 1, cobra.ShellCompDirectiveDefault)
	doneFlag(cmd, &form)
	cmd.Flags().StringVar(&checksum, "checksum", "", "`checksum` of the file: sha256:HEX, sha512:HEX or md5:HEX")
	cmd.Flags().DurationVar(&w.limit, "timeout", 0, "limit, such as 30m (0: none)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := disks().name(args[0])
		u, err := openUpload(args[1], checksum)
		if err != nil {
			return err
		}
		defer u.file.Close()
		c, err := f.onlyCluster(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := w.context(cmd.Context())
		defer cancel()
		if _, err := c.disks.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return disks().explain(c, name, err)
		}
		what := "disk " + name
		_, err = c.awaitDisk(ctx, cmd, name, func(d *v1.VirtualDisk) (bool, error) {
			if d == nil {
				return false, errDiskDeleted
			}
			return awaitsUpload(what, d.Status.Phase, d.Spec.DataSource, d.Status.Reason, d.Status.Message)
		})
		if err == nil {
			err = c.send(ctx, cmd, what, diskof.PodName(name), u)
		}
		if err != nil {
			return err
		}
		d, err := c.awaitDisk(ctx, cmd, name, usable)
		if err != nil {
			return err
		}
		return printDone(cmd, form, typedDisk(d), diskKind, name, "uploaded")
	}
	return cmd
}
