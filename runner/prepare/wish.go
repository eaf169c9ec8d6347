package prepare

import (
	"cmp"
	"slices"
	"strings"

	"vmop/runner/machine/reconcile"
	"vmop/runner/machine/usernet"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// Beginning returns the machine's state after its start by the plan.
func (vm *VM) Beginning() reconcile.Start {
	return reconcile.Start{
		Cards: len(vm.NICs) > 0, Media: vm.cdFiles(), Ports: vm.userPorts(), ResetCounter: vm.Config.ResetCounter,
	}
}

// cdFiles returns the files of the CD drives, by their index in vm.drives.
func (vm *VM) cdFiles() map[int]string {
	files := map[int]string{}
	for i, d := range vm.Spec.Drives {
		if d.Type == vmspec.DriveIDECD && d.NBD == nil {
			files[i] = d.File
		}
	}
	return files
}

// userPorts returns the port forwards of user networks, by their index in vm.network.
func (vm *VM) userPorts() map[int][]usernet.Forward {
	all := map[int][]usernet.Forward{}
	for i, n := range vm.Spec.Network {
		if n.Type != vmspec.NetworkUser {
			continue
		}
		all[i] = []usernet.Forward{}
		for _, p := range n.Ports {
			address := cmp.Or(p.Address, "127.0.0.1")
			all[i] = append(all[i], usernet.Forward{
				Protocol: p.Protocol, Address: address, Host: p.Host, Guest: p.Guest,
			})
		}
	}
	return all
}

// Desired returns the desired state of a running machine. It includes media only while the list of drives has the
// same shape as in the running machine: otherwise an index would mean another drive. The same holds for ports.
func (vm *VM) Desired(running *VM) reconcile.Desired {
	want := reconcile.Desired{
		CPUs: vm.Spec.CurrentCPUs, RAM: int64(vm.Spec.CurrentRAM),
		Password: vm.Password, ResetCounter: vm.Config.ResetCounter,
	}
	want.Drives, want.DrivesRevision = vm.pluggedDrives(running), vm.Config.DrivesRevision
	sameDrive := func(a, b vmspec.Drive) bool { return a.Type == b.Type && a.Bus == b.Bus }
	started := vm.Spec.WithoutNBD().Drives
	kept := len(started) - len(vm.Attached(running))
	if slices.EqualFunc(started[:kept], running.Spec.WithoutNBD().Drives, sameDrive) {
		want.Media = vm.cdFiles()
		want.Denied = running.deniedMedia(want.Media)
	}
	want.Limits = vm.diskLimits(running)
	if vm.likeNetworks(running) {
		want.Ports = vm.userPorts()
	}
	want.Links = vm.links(running)
	if running.Plan.Rules.Has("nics") {
		want.Cards = append([]reconcile.Card{}, vm.NICs...)
	}
	return want
}

// diskLimits returns the limits of the disks that a running machine was started with, by their index in vm.drives.
func (vm *VM) diskLimits(running *VM) map[int]vmspec.DiskLimits {
	started := running.Spec.WithoutNBD().Drives
	all := map[int]vmspec.DiskLimits{}
	for i, d := range vm.Spec.WithoutNBD().Drives {
		if i < len(started) && d.Type == vmspec.DriveRaw && started[i].Type == d.Type && started[i].Serial == d.Serial {
			all[i] = d.WantedLimits()
		}
	}
	return all
}

// likeNetworks reports whether the list of networks has the same shape as another.
func (vm *VM) likeNetworks(other *VM) bool {
	same := func(a, b vmspec.Network) bool { return a.Type == b.Type }
	return slices.EqualFunc(vm.Spec.Network, other.Spec.Network, same)
}

// pluggedDrives returns the drives that a running machine should have in addition to those that it was started with;
// nil if drives can't be attached. Serial numbers identify the drives. In a cluster, the pod has no volumes for
// more drives, so only drives of NBD servers can be attached.
func (vm *VM) pluggedDrives(running *VM) (list []reconcile.Drive) {
	files := vm.plugsFiles(running)
	if files || running.Plan.Rules.Has("disks") {
		list = []reconcile.Drive{}
	}
	started := running.Spec.WithoutNBD().Drives
	rule, _ := running.Plan.Rules.Disks()
	for i, d := range vm.Spec.Drives {
		was := slices.ContainsFunc(started, func(r vmspec.Drive) bool { return r.Serial == d.Serial })
		w := reconcile.Drive{Index: i, Drive: d}
		if d.RotationRate != 0 {
			w.Denied = "rotationRate: a disk that is attached while the guest runs is a virtio disk and has none; leave it out"
		}
		switch {
		case d.NBD != nil && was:
			w.Denied = "the VM was started with another disk with this serial number, which it keeps until it is restarted"
			list = append(list, w)
		case d.NBD != nil:
			w.Denied = cmp.Or(w.Denied, running.deniedNBD(d))
			list = append(list, servedDrive(w, rule))
		case files && d.Type == vmspec.DriveRaw && !was && d.File+d.Device != "":
			list = append(list, w)
		case files && rule.CDDriver != "" && d.Type == vmspec.DriveIDECD && !was && d.File != "":
			list = append(list, pluggedCD(w))
		}
	}
	return list
}

// servedDrive returns the drive of an NBD server in a form that the machine supports: a CD becomes a read-only
// disk if the machine has no CD drives to attach.
//
// See docs/decisions/0159-images-attached-and-servers-awaited.md.
func servedDrive(w reconcile.Drive, rule plan.Disks) reconcile.Drive {
	if w.Type == vmspec.DriveIDECD {
		w.ReadOnly = true
		if rule.CDDriver == "" {
			w.Type = vmspec.DriveRaw
		}
	}
	return w
}

// pluggedCD returns a CD drive in the form that a running QEMU needs.
func pluggedCD(w reconcile.Drive) reconcile.Drive {
	w.ReadOnly, w.Format = true, "raw"
	switch {
	case strings.Contains(w.File, "://"):
		w.Denied = "a CD drive that is attached while the guest runs cannot have a medium from a server; it is available after a restart of the VM"
	case strings.HasPrefix(w.File, "/dev/") && !strings.HasPrefix(w.File, "/dev/shm/"):
		w.File, w.Device = "", w.File
	}
	return w
}

// plugsFiles reports whether files and devices can be attached to a running machine.
func (vm *VM) plugsFiles(running *VM) bool {
	return running.Plan.Rules.Has("disks") && vm.Config.Resource == ""
}

// Attached returns the paths of the drives that are attached to a running machine: those at the end of the list,
// before the drives of NBD servers.
func (vm *VM) Attached(running *VM) (paths []string) {
	if !vm.plugsFiles(running) {
		return nil
	}
	plugged := vm.pluggedDrives(running)
	for i := len(vm.Spec.WithoutNBD().Drives) - 1; i >= len(running.Spec.WithoutNBD().Drives); i-- {
		if !slices.ContainsFunc(plugged, func(d reconcile.Drive) bool { return d.Index == i }) {
			break
		}
		paths = append(paths, reconcile.Drive{Index: i}.Path())
	}
	return paths
}
