package runner

import (
	"slices"
	"time"

	"vmop/runner/machine"
	"vmop/runner/prepare"
	"vmop/runner/reconcile"
	"vmop/vmspec"
)

// wishOf is what the configuration wants of a running machine.
func wishOf(vm, running *prepare.VM) machine.Wish {
	w := machine.Wish{
		Desired: desired(vm, running), Powerdown: time.Duration(*vm.Spec.PowerdownTimeout) * time.Second,
	}
	if vm.Spec.Display != nil {
		w.User = vm.Spec.Display.LoggedInUser
	}
	return w
}

// beginning is what the plan has made of the machine.
func beginning(vm *prepare.VM) reconcile.Start {
	return reconcile.Start{Media: media(vm), ResetCounter: vm.Config.ResetCounter}
}

// media are the files of the CD drives, by their index in vm.drives.
func media(vm *prepare.VM) map[int]string {
	files := map[int]string{}
	for i, d := range vm.Spec.Drives {
		if d.Type == vmspec.DriveIDECD {
			files[i] = d.File
		}
	}
	return files
}

// desired is what the configuration wants of a running machine. Media are
// wished for only while the list of drives has the shape that it has there:
// otherwise an index would mean another drive.
func desired(vm, running *prepare.VM) reconcile.Desired {
	want := reconcile.Desired{
		CPUs: vm.Spec.CurrentCPUs, RAM: int64(vm.Spec.CurrentRAM),
		Password: vm.Password, ResetCounter: vm.Config.ResetCounter,
	}
	sameDrive := func(a, b vmspec.Drive) bool { return a.Type == b.Type && a.Bus == b.Bus }
	if slices.EqualFunc(vm.Spec.Drives, running.Spec.Drives, sameDrive) {
		want.Media = media(vm)
	}
	return want
}
