package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/cli"
	"vmop/manager/act"
	"vmop/regular"
)

// A diskDraft is a new disk in a few words.
type diskDraft struct {
	name, size, class, mode                                          string
	url, checksum, containerImage, snapshot, secretName, authorities string
	ofImage, ofDisk, ofClaim, vmSnapshot                             string
	upload, manyNodes                                                bool
}

func newDiskCreate(f *flags) *cobra.Command {
	var form, dryRun string
	var d diskDraft
	var w waiting
	cmd := &cobra.Command{
		Use: "create NAME --size SIZE", Short: "Make a disk, blank or of an image",
		Long: "create makes a disk. It is blank unless --url, --image or another flag says where its data comes from.\n" +
			" With --wait it shows how far the import is; where the storage makes a volume for the first VM that has\n" +
			"it, the import begins when that VM is to run, and is not waited for.",
		Example: "  kubectl vmop disk create web-data --size 10Gi\n" +
			"  kubectl vmop disk create web-root --size 20Gi --url https://cloud.example.org/debian-12.qcow2 --wait\n" +
			"  kubectl vmop disk create web-root --size 20Gi --container-image registry.example.org/images/debian:12\n" +
			"  kubectl vmop disk create web-before --size 10Gi --vm-snapshot before-upgrade/web-data",
	}
	disks().takes(f, cmd, 0, cobra.ShellCompDirectiveNoFileComp)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	doneFlag(cmd, &form)
	d.add(f, cmd)
	cmd.Flags().StringVar(&dryRun, "dry-run", "none", "none; server: the API server only checks it; client: it isn't sent")
	cli.CompleteFlag(cmd, "dry-run", "none", "server", "client")
	w.add(cmd, "VMs can have it")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d.name = disks().name(args[0])
		if dryRun != "none" && dryRun != "client" && dryRun != "server" {
			return cli.UsageError{Err: fmt.Errorf("--dry-run %s: want none, server or client", dryRun)}
		}
		disk, err := d.disk()
		if err != nil {
			return cli.UsageError{Err: err}
		}
		if dryRun == "client" {
			return printDone(cmd, form, disk, diskKind, disk.Name, "created (dry run)")
		}
		c, err := f.onlyCluster(cmd)
		if err != nil {
			return err
		}
		ctx, cancel := w.context(cmd.Context())
		defer cancel()
		if err := c.keepAccessMode(ctx, disk); err != nil {
			return err
		}
		if disk, err = c.createDisk(ctx, cmd, disk, dryRun == "server", w.wait); err != nil {
			return err
		}
		done := strings.TrimSuffix("created ("+dryRun+" dry run)", " (none dry run)")
		return printDone(cmd, form, typedDisk(disk), diskKind, disk.Name, done)
	}
	return cmd
}

// keepAccessMode gives a disk of a VM's snapshot the access mode of the one that is in it, unless it has one.
func (c *cluster) keepAccessMode(ctx context.Context, disk *v1.VirtualDisk) error {
	from, claim := disk.Spec.DataSource, &disk.Spec.PersistentVolumeClaim
	if claim.AccessMode != "" || from == nil || from.ObjectRef == nil || from.ObjectRef.Kind != v1.KindVMSnapshot {
		return nil
	}
	s, err := c.vmSnapshots.Get(ctx, from.ObjectRef.Name, metav1.GetOptions{})
	if absent(err) {
		return nil // the disk waits for it
	}
	if err != nil {
		return fmt.Errorf("find out which access mode the disk had: %w", err)
	}
	for _, v := range s.Status.Volumes {
		if v.VirtualDiskName == from.ObjectRef.VirtualDiskName {
			claim.AccessMode = v.AccessMode
		}
	}
	return nil
}

// createDisk makes a disk, unless that is only tried, and waits until VMs can have it if that is wanted.
func (c *cluster) createDisk(
	ctx context.Context, cmd *cobra.Command, disk *v1.VirtualDisk, dry, wait bool,
) (*v1.VirtualDisk, error) {
	options := metav1.CreateOptions{FieldManager: fieldManager, FieldValidation: metav1.FieldValidationStrict}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	disk, err := c.disks.Create(ctx, disk, options)
	if err != nil || dry || !wait {
		return disk, err
	}
	if disk, err = c.awaitDisk(ctx, cmd, disk.Name, usable); err != nil {
		return nil, err
	}
	if disk.Status.Phase == v1.DiskWaiting {
		cmd.PrintErrf("disk %s: %s\n", disk.Name, cli.Printable(disk.Status.Message))
	}
	return disk, nil
}

// addVolume adds the flags of the volume.
func (d *diskDraft) addVolume(cmd *cobra.Command) {
	p := cmd.Flags()
	p.StringVar(&d.size, "size", "", "`size` of the volume, such as 20Gi")
	p.StringVar(&d.class, "storage-class", "", "`class` of the volume; default: the cluster's default")
	p.StringVar(&d.mode, "volume-mode", "", "Block (the default), or Filesystem: the disk is a file in the volume")
	p.BoolVar(&d.manyNodes, "many-nodes", false,
		"nodes can have it at the same time, if the storage lets them\n(ReadWriteMany): a VM with it can move while it is running")
	cli.CompleteFlag(cmd, "volume-mode", "Block", "Filesystem")
	cli.CompleteFlag(cmd, "size")
	cli.CompleteFlag(cmd, "storage-class")
}

func (d *diskDraft) add(f *flags, cmd *cobra.Command) {
	d.addVolume(cmd)
	p := cmd.Flags()
	p.StringVar(&d.ofImage, "image", "", "`name` of a VirtualImage, cvi/NAME of a ClusterVirtualImage")
	p.StringVar(&d.ofDisk, "disk", "", "`name` of a VirtualDisk, which is copied while no VM has it")
	p.StringVar(&d.ofClaim, "claim", "", "`name` of a PersistentVolumeClaim with the label vmoperator.jdrupes.org/data-source=true,\n"+
		"which is copied while nothing writes to it")
	p.BoolVar(&d.upload, "upload", false, "the image is sent later: kubectl vmop disk|image upload NAME FILE")
	p.StringVar(&d.url, "url", "", "`URL` of an image on a web server")
	p.StringVar(&d.checksum, "checksum", "", "`checksum` of what --url transfers: sha256:HEX, sha512:HEX or md5:HEX")
	p.StringVar(&d.containerImage, "container-image", "", "container `image` with an image of a disk in its folder /disk")
	p.StringVar(&d.snapshot, "snapshot", "", "`name` of a VirtualDiskSnapshot")
	p.StringVar(&d.vmSnapshot, "vm-snapshot", "", "`SNAPSHOT/DISK`: a VirtualMachineSnapshot, and a VirtualDisk that is in it")
	p.StringVar(&d.secretName, "secret", "", "`name` of the Secret with the credentials of the server or registry")
	p.StringVar(&d.authorities, "ca-file", "", "`file` with authorities (PEM) that are trusted as well")
	cli.CompleteFile(cmd, "ca-file", "pem", "crt")
	for _, name := range []string{"url", "checksum", "container-image", "secret", "claim"} {
		cli.CompleteFlag(cmd, name)
	}
	anyImages().completeFlag(f, cmd, "image")
	disks().completeFlag(f, cmd, "disk")
	diskSnapshots().completeFlag(f, cmd, "snapshot")
	vmSnapshots().completeFlag(f, cmd, "vm-snapshot")
	cli.AtMostOne(cmd, "url", "container-image", "snapshot", "vm-snapshot", "image", "disk", "claim", "upload")
}

// disk returns the disk that the draft describes.
func (d *diskDraft) disk() (*v1.VirtualDisk, error) {
	if d.size == "" {
		return nil, errors.New("what size? give --size, such as 20Gi")
	}
	size, err := resource.ParseQuantity(d.size)
	if err != nil {
		return nil, fmt.Errorf("--size %s: want a size such as 20Gi", d.size)
	}
	disk := typedDisk(&v1.VirtualDisk{ObjectMeta: metav1.ObjectMeta{Name: d.name}})
	claim := &disk.Spec.PersistentVolumeClaim
	claim.Size, claim.VolumeMode = size, corev1.PersistentVolumeMode(d.mode)
	if d.manyNodes {
		claim.AccessMode = corev1.ReadWriteMany
	}
	if d.class != "" {
		claim.StorageClassName = &d.class
	}
	disk.Spec.DataSource, err = d.source()
	return disk, err
}

// source returns where the data comes from; nil: the disk is blank.
func (d *diskDraft) source() (*v1.VirtualDiskSource, error) {
	remote := d.url != "" || d.containerImage != ""
	switch {
	case d.checksum != "" && d.url == "":
		return nil, errors.New("--checksum needs --url; a container image is named by its digest: IMAGE@sha256:…")
	case d.secretName != "" && !remote, d.authorities != "" && !remote:
		return nil, errors.New("--secret and --ca-file need --url or --container-image")
	case d.snapshot != "":
		return ofObject(v1.KindVirtualDiskSnapshot, d.snapshot), nil
	case d.vmSnapshot != "":
		name, disk, both := strings.Cut(d.vmSnapshot, "/")
		if !both || name == "" || disk == "" {
			return nil, fmt.Errorf("--vm-snapshot %s: want SNAPSHOT/DISK, such as before-upgrade/web-data", d.vmSnapshot)
		}
		source := ofObject(v1.KindVMSnapshot, name)
		source.ObjectRef.VirtualDiskName = disk
		return source, nil
	case d.ofImage != "":
		ref := imageRef(d.ofImage)
		return ofObject(string(ref.Kind), ref.Name), nil
	case d.ofDisk != "":
		return ofObject(string(v1.KindVirtualDisk), d.ofDisk), nil
	case d.ofClaim != "":
		return ofObject(v1.KindClaim, d.ofClaim), nil
	case d.upload:
		return &v1.VirtualDiskSource{Type: v1.DiskSourceUpload}, nil
	case !remote:
		return nil, nil
	}
	var secret *v1.LocalSecretRef
	if d.secretName != "" {
		secret = &v1.LocalSecretRef{Name: d.secretName}
	}
	bundle, err := d.bundle()
	if err != nil {
		return nil, err
	}
	if d.containerImage != "" {
		return &v1.VirtualDiskSource{Type: v1.DiskSourceContainerImage, ContainerImage: &v1.ContainerImageSource{
			Image: d.containerImage, ImagePullSecret: secret, CABundle: bundle,
		}}, nil
	}
	sum, err := act.Checksum(d.checksum)
	if err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	return &v1.VirtualDiskSource{Type: v1.DiskSourceHTTP, HTTP: &v1.HTTPSource{
		URL: d.url, Checksum: sum, SecretRef: secret, CABundle: bundle,
	}}, nil
}

func ofObject(kind, name string) *v1.VirtualDiskSource {
	return &v1.VirtualDiskSource{Type: v1.DiskSourceObjectRef, ObjectRef: &v1.DiskSourceRef{Kind: kind, Name: name}}
}

// longestBundle bounds a file of authorities, in bytes, as the resource does.
const longestBundle = 96 << 10

func (d *diskDraft) bundle() ([]byte, error) {
	if d.authorities == "" {
		return nil, nil
	}
	text, err := regular.ReadFile(d.authorities, longestBundle)
	if err != nil {
		return nil, fmt.Errorf("read --ca-file: %w", err)
	}
	return text, nil
}
