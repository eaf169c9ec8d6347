package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/cli"
)

// imageKind is what kubectl calls an image.
const imageKind = "virtualimage." + v1.GroupName

// newImage returns the verb whose subcommands are about images.
func newImage(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "image", Short: "Make, list and remove images that VMs share", GroupID: groupChange, Args: cli.NoArguments,
		Long: "image is about VirtualImages, which any number of VMs have by spec.blockDeviceRefs, to read, and of which\n" +
			"disks are made (kubectl vmop disk create --image). An image is NAME or vi/NAME. Those of the cluster\n" +
			"(ClusterVirtualImages) are cvi/NAME: list shows them, and VMs and disks have them in the same way.",
		RunE: wantSubcommand,
	}
	cmd.AddCommand(newImageList(f), newImagePull(f), newImageUpload(f), newImageExport(f), newImageRemove(f),
		newImageAttach(f), newImageDetach(f))
	return cmd
}

func typedImage(i *v1.VirtualImage) *v1.VirtualImage {
	i.SetGroupVersionKind(v1.GroupVersion().WithKind("VirtualImage"))
	return i
}

func newImageList(f *flags) *cobra.Command {
	const long = "list shows the images of the namespace: their phase, how far the import of their data is, how large the\n" +
		"disk in them is, and where their data comes from, and behind them the cluster's, as cvi/NAME, with what is\n" +
		"stored of them in the namespace. kubectl get vi shows those of all namespaces (-A)."
	return newList(f, "image", long, func(cmd *cobra.Command, c *cluster, form string) error {
		list, err := c.images.List(cmd.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		all, err := c.ofCluster(cmd.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		return printImages(cmd, form, list, all)
	})
}

func printImages(cmd *cobra.Command, form string, list *v1.VirtualImageList, all []v1.ClusterVirtualImage) error {
	out := cmd.OutOrStdout()
	for i := range list.Items {
		of := typedImage(&list.Items[i])
		if form == "name" {
			if err := cli.WriteLine(out, imageKind+"/"+of.Name); err != nil {
				return err
			}
		}
	}
	switch {
	case form == "name":
		return nil
	case form == "json", form == "yaml":
		list.SetGroupVersionKind(v1.GroupVersion().WithKind("VirtualImageList"))
		return cli.PrintValue(out, form, list)
	case len(list.Items) == 0 && len(all) == 0:
		cmd.PrintErrln("there are no images in the namespace; " +
			"make one by: kubectl vmop image pull NAME --url URL --size SIZE")
		return nil
	}
	return cli.Table(out, imageRows(list.Items, all))
}

func newImagePull(f *flags) *cobra.Command {
	var form string
	var d diskDraft
	var w waiting
	cmd := &cobra.Command{
		Use: "pull NAME --size SIZE", Aliases: []string{"create"}, Short: "Make an image of one on a server",
		Long: "pull makes an image of one on a web server (--url), in a container image, or of a snapshot. --size is at\n" +
			"least what the disk in the image has. With --wait it shows how far the import is.",
		Example: "  kubectl vmop image pull debian-12 --size 3Gi --url https://cloud.example.org/debian-12.qcow2 --wait",
	}
	images().takes(f, cmd, 0, cobra.ShellCompDirectiveNoFileComp)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	doneFlag(cmd, &form)
	d.add(f, cmd)
	w.add(cmd, "VMs can have it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d.name = images().name(args[0])
		image, err := d.image()
		if err == nil && image.Spec.DataSource.Type == "" {
			err = errors.New("where does it come from? give --url, --container-image, --image, --disk or --snapshot")
		}
		if err != nil {
			return cli.UsageError{Err: err}
		}
		c, err := f.onlyCluster(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := w.context(cmd.Context())
		defer cancel()
		image, err = c.images.Create(ctx, image, metav1.CreateOptions{
			FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict,
		})
		if err == nil && w.wait {
			image, err = c.awaitImage(ctx, cmd, image.Name, imageUsable)
		}
		if err != nil {
			return err
		}
		return printDone(cmd, form, typedImage(image), imageKind, image.Name, "created")
	}
	return cmd
}

// image returns the image that a draft describes; its source has no type if the draft says none.
func (d *diskDraft) image() (*v1.VirtualImage, error) {
	disk, err := d.disk()
	if err != nil {
		return nil, err
	}
	image := typedImage(&v1.VirtualImage{ObjectMeta: metav1.ObjectMeta{Name: d.name}})
	image.Spec.PersistentVolumeClaim = v1.VirtualImageClaim(disk.Spec.PersistentVolumeClaim)
	if disk.Spec.DataSource != nil {
		image.Spec.DataSource = *disk.Spec.DataSource
	}
	return image, nil
}

// awaitImage waits until an image is as wanted, shows how far it is, and returns it.
func (c *cluster) awaitImage(
	ctx context.Context, cmd *cobra.Command, name string, wanted func(*v1.VirtualImage) (bool, error),
) (*v1.VirtualImage, error) {
	shown := cli.NewProgress(cmd)
	defer shown.End()
	i, err := awaitObject(ctx, c.images, name, func(i *v1.VirtualImage) (bool, error) {
		reached, err := wanted(i)
		if i != nil && !reached && err == nil {
			s := i.Status
			text := "image " + name + ": " + awaited(string(s.Phase), s.Reason, s.Message)
			if s.Progress != "" {
				text += ", " + s.Progress
			}
			shown.Show(string(s.Phase)+s.Reason, text)
		}
		return reached, err
	})
	return i, images().explain(c, name, err)
}

// imageUsable is the goal that VMs can have an image.
func imageUsable(i *v1.VirtualImage) (bool, error) {
	switch {
	case i == nil:
		return false, errors.New("the image has been deleted meanwhile")
	case i.Status.Phase == v1.DiskFailed:
		return false, fmt.Errorf("image %s has failed: %s: %s", i.Name, i.Status.Reason,
			cli.Printable(i.Status.Message))
	}
	return i.Status.Phase == v1.DiskReady, nil
}

func newImageRemove(f *flags) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use: "remove NAME", Aliases: []string{"rm"}, SuggestFor: []string{"delete", "del"}, Short: "Delete an image",
		Long: "remove deletes an image, without a question. VMs that have it keep it until they stop, and don't start\n" +
			"again without an image of that name. Disks that were made of it stay as they are.",
		Example: "  kubectl vmop image remove debian-12",
	}
	images().takes(f, cmd, 0, cobra.ShellCompDirectiveNoFileComp)
	doneFlag(cmd, &form)
	cmd.RunE = f.inCluster(&waiting{}, func(ctx context.Context, cmd *cobra.Command, c *cluster, args []string) error {
		name := images().name(args[0])
		i, err := c.images.Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			err = c.images.Delete(ctx, name, deletion(i, false))
		}
		if err != nil {
			return images().explain(c, name, err)
		}
		return printDone(cmd, form, typedImage(i), imageKind, name, "removed")
	})
	return cmd
}
