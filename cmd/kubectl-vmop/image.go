package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
)

// imageKind is kubectl's name for the kind of an image.
const imageKind = "virtualimage." + v1.GroupName

// newImage returns the verb with the subcommands for images.
func newImage(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "image", Short: "Manage images that VMs share", GroupID: groupChange, Args: cli.NoArguments,
		Long: "Manage VirtualImages, which any number of VMs read through spec.blockDeviceRefs, and\n" +
			"from which you create disks (kubectl vmop disk create --image). IMAGE is NAME or\n" +
			"vi/NAME. Images of the cluster (ClusterVirtualImages) are cvi/NAME; VMs and disks use\n" +
			"them in the same way.",
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
	const long = "List the images of the namespace: phase, import progress, disk size and data source.\n" +
		"Images of the cluster follow as cvi/NAME, with the state of their copy in the namespace.\n" +
		"kubectl get vi also lists all namespaces (-A)."
	return newNounList(f, "image", long, func(cmd *cobra.Command, c *cluster, form string) error {
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
		Use: "pull NAME --size SIZE", Aliases: []string{"create"}, Short: "Create an image from a server",
		Long: "Create an image from a web server (--url) or a container image, or from another source\n" +
			"such as --disk. --size must be at least the size of the disk in the image. With --wait the\n" +
			"import progress is shown.",
		Example: "  kubectl vmop image pull debian-12 --size 3Gi --url https://cloud.example.org/debian-12.qcow2 --wait",
	}
	imageNoun().takeName(f, cmd, 0, cobra.ShellCompDirectiveNoFileComp)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	doneFlag(cmd, &form)
	d.addFlags(f, cmd)
	w.addFlags(cmd, "VMs can use the image")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d.name = imageNoun().bareName(args[0])
		image, err := d.draftImage()
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
		ctx, cancel := w.waitContext(cmd.Context())
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

// draftImage returns the image for a draft. Its source has no type if the draft specifies no source.
func (d *diskDraft) draftImage() (*v1.VirtualImage, error) {
	disk, err := d.draftDisk()
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

// awaitImage waits until an image reaches a goal, shows its progress, and returns it.
func (c *cluster) awaitImage(
	ctx context.Context, cmd *cobra.Command, name string, wanted func(*v1.VirtualImage) (bool, error),
) (*v1.VirtualImage, error) {
	shown := cli.NewProgress(cmd)
	defer shown.End()
	i, err := awaitObject(ctx, c.images, name, func(i *v1.VirtualImage) (bool, error) {
		reached, err := wanted(i)
		if i != nil && !reached && err == nil {
			s := i.Status
			text := "image " + name + ": " + pendingText(string(s.Phase), s.Reason, s.Message)
			if s.Progress != "" {
				text += ", " + s.Progress
			}
			shown.Show(string(s.Phase)+s.Reason, text)
		}
		return reached, err
	})
	return i, imageNoun().explainObject(c, name, err)
}

// imageUsable is the goal of an image that VMs can use.
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
		Long: "Delete an image without confirmation. VMs that use it keep it until they stop, and need\n" +
			"an image of that name to start again. Disks that were created from it are kept.",
		Example: "  kubectl vmop image remove debian-12",
	}
	imageNoun().takeName(f, cmd, 0, cobra.ShellCompDirectiveNoFileComp)
	doneFlag(cmd, &form)
	cmd.RunE = f.inCluster(&waiting{}, func(ctx context.Context, cmd *cobra.Command, c *cluster, args []string) error {
		name := imageNoun().bareName(args[0])
		i, err := c.images.Get(ctx, name, metav1.GetOptions{})
		if err == nil {
			err = c.images.Delete(ctx, name, deleteOptions(i, false))
		}
		if err != nil {
			return imageNoun().explainObject(c, name, err)
		}
		return printDone(cmd, form, typedImage(i), imageKind, name, "removed")
	})
	return cmd
}
