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
	"vmop/internal/cli"
	"vmop/internal/readfile"
	"vmop/manager/operation/act"
)

// diskDraft is a short description of a new disk.
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
		Use: "create NAME --size SIZE", Short: "Create a disk, blank or from an image",
		Long: "Create a disk, blank or with data from --url, --image or another source.\n\n" +
			"With --wait the import progress is shown. If the storage creates volumes for the first\n" +
			"VM that uses them, the import starts with that VM, and the command does not wait for it.",
		Example: "  kubectl vmop disk create web-data --size 10Gi\n" +
			"  kubectl vmop disk create web-root --size 20Gi --url https://cloud.example.org/debian-12.qcow2 --wait\n" +
			"  kubectl vmop disk create web-root --size 20Gi --container-image registry.example.org/images/debian:12\n" +
			"  kubectl vmop disk create web-before --size 10Gi --vm-snapshot before-upgrade/web-data",
	}
	diskNoun().takeName(f, cmd, 0, cobra.ShellCompDirectiveNoFileComp)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	doneFlag(cmd, &form)
	d.addFlags(f, cmd)
	dryRunFlag(cmd, &dryRun)
	w.addFlags(cmd, "VMs can use the disk, or the storage waits for its first VM")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d.name = diskNoun().bareName(args[0])
		if dryRun != "none" && dryRun != "client" && dryRun != "server" {
			return cli.UsageError{Err: fmt.Errorf("--dry-run %s: must be none, server or client", dryRun)}
		}
		disk, err := d.draftDisk()
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
		ctx, cancel := w.waitContext(cmd.Context())
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

// keepAccessMode sets the access mode of a disk from a VM snapshot to the mode of the original disk, unless the
// disk has an access mode.
func (c *cluster) keepAccessMode(ctx context.Context, disk *v1.VirtualDisk) error {
	from, claim := disk.Spec.DataSource, &disk.Spec.PersistentVolumeClaim
	if claim.AccessMode != "" || from == nil || from.ObjectRef == nil || from.ObjectRef.Kind != v1.KindVMSnapshot {
		return nil
	}
	s, err := c.vmSnapshots.Get(ctx, from.ObjectRef.Name, metav1.GetOptions{})
	if isMissingObject(err) {
		return nil // the disk waits for the snapshot
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

// createDisk creates a disk, unless it is a dry run. If requested, it waits until VMs can use the disk.
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
	if disk, err = c.awaitDisk(ctx, cmd, disk.Name, isUsable); err != nil {
		return nil, err
	}
	if disk.Status.Phase == v1.DiskWaiting {
		cmd.PrintErrf("disk %s: %s\n", disk.Name, cli.Printable(disk.Status.Message))
	}
	return disk, nil
}

// addVolume adds the flags for the volume.
func (d *diskDraft) addVolume(cmd *cobra.Command) {
	p := cmd.Flags()
	p.StringVar(&d.size, "size", "", "`SIZE` of the volume, such as 20Gi")
	p.StringVar(&d.class, "storage-class", "", "storage `CLASS` of new volumes (default the cluster's default class)")
	p.StringVar(&d.mode, "volume-mode", "", "volume `MODE`: Block, or Filesystem for a disk in a file (default Block)")
	p.BoolVar(&d.manyNodes, "many-nodes", false,
		"let several nodes use the volume at the same time (ReadWriteMany), if the storage supports it:\na running "+
			"VM with the disk can then move")
	cli.CompleteFlag(cmd, "volume-mode", "Block", "Filesystem")
	cli.CompleteFlag(cmd, "size")
	cli.CompleteFlag(cmd, "storage-class")
}

func (d *diskDraft) addFlags(f *flags, cmd *cobra.Command) {
	d.addVolume(cmd)
	p := cmd.Flags()
	p.StringVar(&d.ofImage, "image", "", "copy the VirtualImage `NAME`, or the ClusterVirtualImage cvi/NAME")
	p.StringVar(&d.ofDisk, "disk", "", "copy the VirtualDisk `NAME` while no VM uses it")
	p.StringVar(&d.ofClaim, "claim", "",
		"copy the PersistentVolumeClaim `NAME` while no pod writes to it; it needs the "+
			"label\nvmoperator.jdrupes.org/data-source=true")
	p.BoolVar(&d.upload, "upload", false, "let the disk or image wait for kubectl vmop disk|image upload NAME FILE")
	p.StringVar(&d.url, "url", "", "import the image at this `URL` of a web server")
	cli.ChecksumFlag(p, &d.checksum, "the data that --url transfers")
	p.StringVar(&d.containerImage, "container-image", "",
		"import the disk image in the folder /disk of this container `IMAGE`, or in an OCI artifact")
	p.StringVar(&d.snapshot, "snapshot", "", "copy the VirtualDiskSnapshot `NAME`")
	p.StringVar(&d.vmSnapshot, "vm-snapshot", "", "copy a VirtualDisk in a VirtualMachineSnapshot: `SNAPSHOT/DISK`")
	p.StringVar(&d.secretName, "secret", "", "`NAME` of the Secret with the credentials for --url or --container-image")
	p.StringVar(&d.authorities, "ca-file", "", "`FILE` with additional trusted authorities (PEM)")
	cli.CompleteFile(cmd, "ca-file", "pem", "crt")
	for _, name := range []string{"url", "checksum", "container-image", "secret", "claim"} {
		cli.CompleteFlag(cmd, name)
	}
	anyImages().completeFlag(f, cmd, "image")
	diskNoun().completeFlag(f, cmd, "disk")
	diskSnapshots().completeFlag(f, cmd, "snapshot")
	vmSnapshots().completeFlag(f, cmd, "vm-snapshot")
	cli.AtMostOne(cmd, "url", "container-image", "snapshot", "vm-snapshot", "image", "disk", "claim", "upload")
}

// draftDisk returns the disk for the draft.
func (d *diskDraft) draftDisk() (*v1.VirtualDisk, error) {
	if d.size == "" {
		return nil, errors.New("what size? give --size, such as 20Gi")
	}
	size, err := resource.ParseQuantity(d.size)
	if err != nil {
		return nil, fmt.Errorf("--size %s: must be a size such as 20Gi", d.size)
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
	disk.Spec.DataSource, err = d.dataSource()
	return disk, err
}

// dataSource returns the data source; nil for a blank disk.
func (d *diskDraft) dataSource() (*v1.VirtualDiskSource, error) {
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
			return nil, fmt.Errorf("--vm-snapshot %s: must be SNAPSHOT/DISK, such as before-upgrade/web-data", d.vmSnapshot)
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
	bundle, err := d.readBundle()
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

// longestBundle is the maximum size of a file with authorities, in bytes, the same as in the resource.
const longestBundle = 96 << 10

func (d *diskDraft) readBundle() ([]byte, error) {
	if d.authorities == "" {
		return nil, nil
	}
	text, err := readfile.ReadFile(d.authorities, longestBundle)
	if err != nil {
		return nil, fmt.Errorf("read --ca-file: %w", err)
	}
	return text, nil
}
