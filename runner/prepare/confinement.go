package prepare

import (
	"fmt"
	"os"
	"strings"

	"vmop/vmtypes/confinement"
)

// Confinement returns what the processes of the VM may use of the host, in the order of
// plan.Processes.
func (vm *VM) Confinement() []confinement.Domain {
	return confinement.Of(vm.Plan, vm.beyondThePlan())
}

// ConfinementOf is the Confinement of the process with a place in plan.Processes.
func (vm *VM) ConfinementOf(place int) confinement.Domain {
	return confinement.OfProcess(vm.Plan, vm.beyondThePlan(), place)
}

// beyondThePlan is what the plan doesn't show.
func (vm *VM) beyondThePlan() confinement.Facts {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // a service has none
	}
	return confinement.Facts{
		Media: vm.media(), Repository: vm.Config.ImageRepository, Home: home, Bases: vm.bases,
	}
}

// denied says of media that a running machine's QEMU may not read why it may not, by
// their index in vm.drives.
func (vm *VM) denied(media map[int]string) map[int]string {
	if vm.Held == nil || vm.Held.Landlock == 0 && !vm.Held.OwnRoot {
		return nil
	}
	machine := vm.ConfinementOf(len(vm.Plan.Helpers))
	reasons := map[int]string{}
	for i, file := range media {
		if strings.HasPrefix(file, "/") && !machine.MayRead(file) {
			reasons[i] = fmt.Sprintf("change the medium to %s: the kernel lets QEMU read only the folders of the media that "+
				"the VM was started with, and %s; restart the VM, or put the file there", file, vm.beyondThePlan().Images())
		}
	}
	return reasons
}
