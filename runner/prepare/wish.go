package prepare

import (
	"slices"

	"vmop/runner/reconcile"
	"vmop/vmspec"
)

// Beginning is what the plan has made of the machine.
func (vm *VM) Beginning() reconcile.Start {
	return reconcile.Start{Media: vm.media(), ResetCounter: vm.Config.ResetCounter}
}

// media are the files of the CD drives, by their index in vm.drives.
func (vm *VM) media() map[int]string {
	files := map[int]string{}
	for i, d := range vm.Spec.Drives {
		if d.Type == vmspec.DriveIDECD {
			files[i] = d.File
		}
	}
	return files
}

// Desired is what the configuration wants of a running machine. Media are
// wished for only while the list of drives has the shape that it has there:
// otherwise an index would mean another drive.
func (vm *VM) Desired(running *VM) reconcile.Desired {
	want := reconcile.Desired{
		CPUs: vm.Spec.CurrentCPUs, RAM: int64(vm.Spec.CurrentRAM),
		Password: vm.Password, ResetCounter: vm.Config.ResetCounter,
	}
	sameDrive := func(a, b vmspec.Drive) bool { return a.Type == b.Type && a.Bus == b.Bus }
	if slices.EqualFunc(vm.Spec.Drives, running.Spec.Drives, sameDrive) {
		want.Media = vm.media()
		want.Denied = running.denied(want.Media)
	}
	return want
}
