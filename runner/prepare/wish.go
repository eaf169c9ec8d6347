package prepare

import (
	"cmp"
	"slices"
	"strings"

	"vmop/runner/reconcile"
	"vmop/runner/usernet"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// Beginning is what the plan has made of the machine.
func (vm *VM) Beginning() reconcile.Start {
	return reconcile.Start{Media: vm.media(), Ports: vm.ports(), ResetCounter: vm.Config.ResetCounter}
}

// media are the files of the CD drives, by their index in vm.drives.
func (vm *VM) media() map[int]string {
	files := map[int]string{}
	for i, d := range vm.Spec.Drives {
		if d.Type == vmspec.DriveIDECD && d.NBD == nil {
			files[i] = d.File
		}
	}
	return files
}

// ports are those that user networks forward, by their index in vm.network.
func (vm *VM) ports() map[int][]usernet.Forward {
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

// Desired is what the configuration wants of a running machine. Media are
// wished for only while the list of drives has the shape that it has there:
// otherwise an index would mean another drive. So are ports.
func (vm *VM) Desired(running *VM) reconcile.Desired {
	want := reconcile.Desired{
		CPUs: vm.Spec.CurrentCPUs, RAM: int64(vm.Spec.CurrentRAM),
		Password: vm.Password, ResetCounter: vm.Config.ResetCounter,
	}
	want.Drives, want.DrivesRevision = vm.plugged(running), vm.Config.DrivesRevision
	sameDrive := func(a, b vmspec.Drive) bool { return a.Type == b.Type && a.Bus == b.Bus }
	started := vm.Spec.WithoutNBD().Drives
	kept := len(started) - len(vm.Attached(running))
	if slices.EqualFunc(started[:kept], running.Spec.WithoutNBD().Drives, sameDrive) {
		want.Media = vm.media()
		want.Denied = running.denied(want.Media)
	}
	if vm.likeNetworks(running) {
		want.Ports = vm.ports()
	}
	return want
}

// likeNetworks reports whether the list of networks has the shape that another has.
func (vm *VM) likeNetworks(other *VM) bool {
	same := func(a, b vmspec.Network) bool { return a.Type == b.Type }
	return slices.EqualFunc(vm.Spec.Network, other.Spec.Network, same)
}

// plugged are the drives that a running machine is to have besides those that it was
// started with; nil if none were possible. They are known by their serial numbers. In a cluster the pod has no volume
// for more, but NBD servers have.
func (vm *VM) plugged(running *VM) (list []reconcile.Drive) {
	files := vm.plugsFiles(running)
	if files || running.Plan.Rules.Has("disks") {
		list = []reconcile.Drive{}
	}
	started := running.Spec.WithoutNBD().Drives
	rule, _ := running.Plan.Rules.Disks()
	for i, d := range vm.Spec.Drives {
		was := slices.ContainsFunc(started, func(r vmspec.Drive) bool { return r.Serial == d.Serial })
		w := reconcile.Drive{Index: i, Drive: d}
		switch {
		case d.NBD != nil && was:
			w.Denied = "the VM was started with another disk of this serial number, which it has until it is restarted"
			list = append(list, w)
		case d.NBD != nil:
			w.Denied = running.deniedNBD(d)
			list = append(list, servedDrive(w, rule))
		case files && d.Type == vmspec.DriveRaw && !was && d.File+d.Device != "":
			list = append(list, w)
		case files && rule.CDDriver != "" && d.Type == vmspec.DriveIDECD && !was && d.File != "":
			list = append(list, pluggedCD(w))
		}
	}
	return list
}

// servedDrive returns the drive of an NBD server as the machine can have it: a CD, for which it has no drives, is a
// disk that can't be written.
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

// pluggedCD returns a CD drive as QEMU is given it while it runs.
func pluggedCD(w reconcile.Drive) reconcile.Drive {
	w.ReadOnly, w.Format = true, "raw"
	switch {
	case strings.Contains(w.File, "://"):
		w.Denied = "a CD drive that is attached while the guest runs has no medium of a server; it is there after a restart of the VM"
	case strings.HasPrefix(w.File, "/dev/") && !strings.HasPrefix(w.File, "/dev/shm/"):
		w.File, w.Device = "", w.File
	}
	return w
}

// plugsFiles reports whether files and devices can be attached to a running machine.
func (vm *VM) plugsFiles(running *VM) bool {
	return running.Plan.Rules.Has("disks") && vm.Config.Resource == ""
}

// Attached are the paths of the drives at the end of the list, before those of NBD servers, that a running machine
// gets while it runs.
func (vm *VM) Attached(running *VM) (paths []string) {
	if !vm.plugsFiles(running) {
		return nil
	}
	plugged := vm.plugged(running)
	for i := len(vm.Spec.WithoutNBD().Drives) - 1; i >= len(running.Spec.WithoutNBD().Drives); i-- {
		if !slices.ContainsFunc(plugged, func(d reconcile.Drive) bool { return d.Index == i }) {
			break
		}
		paths = append(paths, reconcile.Drive{Index: i}.Path())
	}
	return paths
}
