package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
)

// clonePlan describes a VM that is created from a snapshot of another VM.
type clonePlan struct {
	// snapshot must be created first; nil if it exists.
	snapshot *v1.VirtualMachineSnapshot

	vm    *v1.VirtualMachine
	disks []*v1.VirtualDisk // replace the disks in the snapshot
	notes []string          // differences from the original VM, for the user
}

// planClone returns the plan for a VM from a snapshot, with a new name and UUID. It omits settings that two VMs
// can't share. sizes are the sizes of VirtualDisks, for snapshots that do not record them.
//
// See docs/decisions/0133-clones.md.
func planClone(
	from *v1.VirtualMachineSnapshot, name, uuid string, start bool, sizes map[string]resource.Quantity,
) (*clonePlan, error) {
	definition := from.Status.Definition
	if definition == nil {
		return nil, fmt.Errorf("the snapshot %s has no definition of its VM", from.Name)
	}
	p := &clonePlan{vm: withKind(&v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: name}})}
	spec := json.NewDecoder(bytes.NewReader(definition.Spec.Raw))
	spec.DisallowUnknownFields()
	if err := spec.Decode(&p.vm.Spec); err != nil {
		return nil, fmt.Errorf("read the definition in the snapshot %s (status.definition.spec), "+
			"which a newer kubectl vmop may understand: %w", from.Name, err)
	}
	p.vm.Spec.ClaimNameSuffix = ""
	p.vm.Spec.DataSource = &v1.VirtualMachineDataSource{Kind: v1.KindVMSnapshot, Name: from.Name}
	p.vm.Spec.VM.MachineUUID = uuid
	if len(definition.Labels)+len(definition.Annotations) > 0 {
		p.leaveOut("metadata.labels, annotations", "Services and programs find the first VM by them")
	}
	if err := p.setState(start); err != nil {
		return nil, err
	}
	p.clearAddresses()
	if err := p.clearCloudInit(); err != nil {
		return nil, err
	}
	p.clearVolumes()
	return p, p.replaceDisks(from, sizes, func(disk string) string { return name + "-" + disk })
}

// leaveOut informs the user that a field is omitted, and why.
func (p *clonePlan) leaveOut(path, why string) {
	p.notes = append(p.notes, path+" is left out: "+why)
}

func (p *clonePlan) setState(start bool) error {
	spec := &p.vm.Spec
	spec.VM.State = v1.Stopped
	switch {
	case start && spec.RunPolicy == v1.AlwaysOff:
		return errors.New("--start contradicts the run policy AlwaysOff of the VM: leave it out")
	case start:
		spec.VM.State = v1.Running
	case spec.RunPolicy == v1.AlwaysOn:
		spec.RunPolicy = v1.AlwaysOnUnlessStoppedManually
		p.notes = append(p.notes, "spec.runPolicy is AlwaysOnUnlessStoppedManually, as a VM that is AlwaysOn can't be "+
			"stopped; --start leaves it as it was")
	}
	return nil
}

// clearAddresses omits the addresses of the original VM.
func (p *clonePlan) clearAddresses() {
	spec := &p.vm.Spec
	onBridge := slices.ContainsFunc(spec.VM.Networks, func(n v1.Network) bool { return n.Tap != nil })
	for i, n := range spec.VM.Networks {
		path := fmt.Sprintf("spec.vm.networks[%d].", i)
		if n.Tap != nil && n.Tap.MAC != "" {
			n.Tap.MAC = ""
			p.leaveOut(path+"tap.mac", "the hardware address is computed from the new machineUuid")
		}
		if onBridge && n.User != nil && len(n.User.Ports) > 0 {
			n.User.Ports = nil
			p.leaveOut(path+"user.ports", "with a tap they are ports of the node, which two VMs can't share")
		}
	}
	if spec.VirtualMachineIPAddressName != "" {
		spec.VirtualMachineIPAddressName = ""
		p.leaveOut("spec.virtualMachineIPAddressName", "an address belongs to one VM; the manager gives the new VM another address")
	}
	if own := spec.LoadBalancerService; own != nil && len(own.Annotations) > 0 {
		spec.LoadBalancerService = nil
		p.leaveOut("spec.loadBalancerService", "its annotations may ask for the address that the first VM has")
	}
}

// clearCloudInit omits the identity that cloud-init uses for the original VM, and its addresses.
func (p *clonePlan) clearCloudInit() error {
	c := p.vm.Spec.CloudInit
	if c == nil {
		return nil
	}
	for _, key := range []string{"instance-id", "local-hostname"} {
		if _, given := c.MetaData[key]; given {
			delete(c.MetaData, key)
			p.leaveOut("spec.cloudInit.metaData."+key, "it is of the first VM; the new VM gets its own")
		}
	}
	if c.NetworkDataFrom != nil {
		c.NetworkDataFrom = nil
		p.leaveOut("spec.cloudInit.networkDataFrom", "the Secret may have addresses of the first VM; the guest uses DHCP")
	}
	if c.NetworkConfig == nil {
		return nil
	}
	var config any
	if err := json.Unmarshal(c.NetworkConfig.Raw, &config); err != nil {
		return fmt.Errorf("read spec.cloudInit.networkConfig of the VM: %w", err)
	}
	if hasAddress(config) {
		c.NetworkConfig = nil
		p.leaveOut("spec.cloudInit.networkConfig", "it has addresses of the first VM; the guest uses DHCP")
	}
	return nil
}

// hasAddress reports whether a network configuration of cloud-init, of version 1 or 2, contains an address of the
// machine.
func hasAddress(config any) bool {
	switch c := config.(type) {
	case []any:
		return slices.ContainsFunc(c, hasAddress)
	case map[string]any:
		for key, value := range c {
			switch strings.ToLower(key) {
			case "address", "addresses", "macaddress", "mac_address":
				return true
			case "nameservers": // their addresses belong to other machines
				continue
			}
			if hasAddress(value) {
				return true
			}
		}
	}
	return false
}

// clearVolumes omits the references of the original VM's claims to volumes.
func (p *clonePlan) clearVolumes() {
	for i, d := range p.vm.Spec.VM.Disks {
		if t := d.VolumeClaimTemplate; t != nil && (t.Spec.VolumeName != "" || t.Spec.Selector != nil) {
			t.Spec.VolumeName, t.Spec.Selector = "", nil
			p.leaveOut(fmt.Sprintf("spec.vm.disks[%d].volumeClaimTemplate.spec.volumeName, selector", i),
				"the volume is new, from the snapshot")
		}
	}
}

// replaceDisks replaces the VM's disks by disks created from the snapshot. nameOf returns the name of the new
// disk for a disk in the snapshot.
func (p *clonePlan) replaceDisks(
	from *v1.VirtualMachineSnapshot, sizes map[string]resource.Quantity, nameOf func(disk string) string,
) error {
	named, names := diskNames(p.vm), map[string]string{}
	for _, volume := range from.Status.Volumes {
		of := volume.VirtualDiskName
		if !slices.ContainsFunc(named, func(name *string) bool { return *name == of }) {
			if of != "" {
				p.notes = append(p.notes, fmt.Sprintf("the disk %s was attached while the VM was running, and stays in the snapshot: create a disk "+
					"from it with: kubectl vmop disk create NAME --size SIZE --vm-snapshot %s/%[1]s", of, from.Name))
			}
			continue
		}
		size, err := resource.ParseQuantity(volume.RestoreSize)
		if err != nil || size.Sign() <= 0 {
			var known bool
			if size, known = sizes[of]; !known {
				return fmt.Errorf("the snapshot %s does not contain the size of the missing disk %s: create it with: kubectl vmop "+
					"disk create NAME --size SIZE --vm-snapshot %[1]s/%[2]s", from.Name, of)
			}
		}
		names[of] = nameOf(of)
		d := typedDisk(&v1.VirtualDisk{ObjectMeta: metav1.ObjectMeta{Name: names[of]}})
		d.Spec.PersistentVolumeClaim = v1.VirtualDiskClaim{
			Size: size, VolumeMode: volume.VolumeMode, AccessMode: volume.AccessMode,
		}
		if volume.StorageClassName != "" {
			d.Spec.PersistentVolumeClaim.StorageClassName = &volume.StorageClassName
		}
		d.Spec.DataSource = ofObject(v1.KindVMSnapshot, from.Name)
		d.Spec.DataSource.ObjectRef.VirtualDiskName = of
		p.disks = append(p.disks, d)
		p.notes = append(p.notes, fmt.Sprintf("the disk %s is %s, created from the snapshot", of, d.Name))
	}
	var err error
	for _, name := range named {
		if names[*name] == "" {
			err = errors.Join(err, fmt.Errorf("the snapshot %s doesn't have the VirtualDisk %s of its VM", from.Name,
				*name))
			continue
		}
		*name = names[*name]
	}
	return err
}

// diskNames returns pointers to the names of VirtualDisks in a VM.
func diskNames(vm *v1.VirtualMachine) []*string {
	var names []*string
	for i := range vm.Spec.VM.Disks {
		if d := vm.Spec.VM.Disks[i].VirtualDisk; d != nil {
			names = append(names, &d.Name)
		}
	}
	for i := range vm.Spec.BlockDeviceRefs {
		if ref := &vm.Spec.BlockDeviceRefs[i]; ref.Kind == v1.KindVirtualDisk {
			names = append(names, &ref.Name)
		}
	}
	return names
}
