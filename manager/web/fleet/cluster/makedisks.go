package cluster

import (
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/manager/disk"
	"vmop/manager/vm/objects"
	"vmop/manager/web/fleet"
)

// diskSources returns the sources for new disks; nil if disks or images are not known.
func (f *Fleet) diskSources() *fleet.Sources {
	v := f.opts.Volumes
	if v.Disks.Listed() != nil || v.Images.Listed() != nil {
		return nil
	}
	all, named := &fleet.Sources{}, f.opts.Store.Devices()
	for _, name := range slices.Sorted(slices.Values(v.Images.Names())) {
		i, err := v.Images.Disk(name)
		if err != nil || i == nil || i.Status.Phase != v1.DiskReady || disk.IsCD(i) || f.isOfCluster(i) {
			continue
		}
		image := volumeOf(v1.KindVirtualImage, i)
		if of := i.Status.Import; of != nil && of.VirtualSize > 0 {
			image.Size = of.VirtualSize
		}
		all.Images = append(all.Images, image)
	}
	all.Images = append(all.Images, f.clusterSources()...)
	for _, name := range slices.Sorted(slices.Values(v.Disks.Names())) {
		d, err := v.Disks.Disk(name)
		if err != nil || d == nil || d.DeletionTimestamp != nil || d.Status.Phase == v1.DiskFailed ||
			disk.Holder(d) != "" || named[objects.DeviceRef{Kind: v1.KindVirtualDisk, Name: name}.String()] != nil {
			continue
		}
		all.Disks = append(all.Disks, volumeOf(v1.KindVirtualDisk, d))
	}
	return all
}

// draftDisks returns the disks of a draft. disks are for vm.disks, with the CD drive; refs are for blockDeviceRefs;
// made is the YAML of the disks to create with the VM, each followed by a document separator.
func (f *Fleet) draftDisks(d *fleet.Draft) (disks, refs []any, made string, err error) {
	for i, one := range d.Disks {
		name := d.DiskName(i)
		switch one.From {
		case fleet.FromVM:
			disks = append(disks, map[string]any{"volumeClaimTemplate": map[string]any{
				"metadata": map[string]any{"name": name}, "spec": templateOf(one),
			}})
			continue
		case fleet.FromDisk:
			name = one.Of
		default:
			text, err := f.draftedDisk(name, one)
			if err != nil {
				return nil, nil, "", err
			}
			made += text + separator + "\n"
		}
		refs = append(refs, map[string]any{"kind": v1.KindVirtualDisk, "name": name})
	}
	if d.CD {
		disks = append(disks, map[string]any{"cdrom": map[string]any{"image": d.Medium}})
	}
	return disks, refs, made, nil
}

// templateOf returns the spec of the claim template for a VM's own disk.
func templateOf(d fleet.Disk) map[string]any {
	spec := map[string]any{"resources": map[string]any{"requests": map[string]any{"storage": formatQuantity(d.Size)}}}
	if d.Class != "" {
		spec["storageClassName"] = d.Class
	}
	return spec
}

// draftedDisk returns the definition of a new VM's new disk.
func (f *Fleet) draftedDisk(name string, d fleet.Disk) (string, error) {
	claim := map[string]any{"size": formatQuantity(d.Size)}
	if d.Class != "" {
		claim["storageClassName"] = d.Class
	}
	spec := map[string]any{"persistentVolumeClaim": claim}
	source, err := sourceOf(d)
	if err != nil {
		path := fleet.PathOfDisk + name + ".spec.dataSource.http.checksum"
		return "", fleet.Faults{{Path: path, Message: err.Error()}}
	}
	if source != nil {
		spec["dataSource"] = source
	}
	text, err := yaml.Marshal(document{
		APIVersion: v1.GroupVersion().String(), Kind: kindOfDisk, Spec: spec,
		Metadata: map[string]any{"name": name, "namespace": f.opts.Namespace},
	})
	return string(text), err
}

// kindOfDisk is the kind of a new VM's new disks.
const kindOfDisk = string(v1.KindVirtualDisk)

// separator is the line between two YAML documents.
const separator = "---"

// splitDocuments splits a text into YAML documents, and omits those with only comments. Each document is preceded by
// empty lines, so that its line numbers match the text.
func splitDocuments(text string) (all []string) {
	document, there := "", false
	end := func(lines int) {
		if there {
			all = append(all, document)
		}
		document, there = strings.Repeat("\n", lines), false
	}
	lines := 0
	for line := range strings.Lines(text) {
		lines++
		bare := strings.TrimSpace(line)
		if strings.TrimRight(line, " \r\n") == separator {
			end(lines)
			continue
		}
		document += line
		there = there || bare != "" && bare[0] != '#'
	}
	end(0)
	return all
}

// checkDisk returns errors in the definition of a new VM's new disk. The disk must not name a Secret: its author
// chooses the server that would receive the Secret, but may lack permission to use it.
func (d *document) checkDisk(namespace string) error {
	name, _ := d.Metadata["name"].(string)
	if name == "" {
		return fleet.Faults{d.faultAt("metadata.name", "must not be empty")}
	}
	if err := d.checkKind(kindOfDisk, name, namespace); err != nil {
		return err
	}
	from, _ := d.Spec["dataSource"].(map[string]any)
	for _, at := range [][2]string{{"http", "secretRef"}, {"containerImage", "imagePullSecret"}} {
		if of, _ := from[at[0]].(map[string]any); of[at[1]] != nil {
			return fleet.Faults{d.faultAt(fmt.Sprintf("spec.dataSource.%s.%s", at[0], at[1]),
				"a disk that is created here can't use a Secret: create it with kubectl, and name it in spec.blockDeviceRefs")}
		}
	}
	return nil
}
