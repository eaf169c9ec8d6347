package prepare

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"vmop/runner/config"
	"vmop/vmspec"
	"vmop/vmtypes/confinement"
)

// Confinement returns what the processes of the VM may use of the host, in the order of plan.Processes.
func (vm *VM) Confinement() []confinement.Domain {
	list := confinement.Of(vm.Plan, vm.beyondThePlan())
	list[len(vm.Plan.Helpers)] = vm.ConfinementOf(len(vm.Plan.Helpers))
	return list
}

// ConfinementOf returns the Confinement of the process at an index of plan.Processes.
func (vm *VM) ConfinementOf(place int) confinement.Domain {
	if vm.whole != nil && place == len(vm.Plan.Helpers) {
		return confinement.OfProcess(vm.whole, vm.beyondThePlan(), len(vm.whole.Helpers))
	}
	return confinement.OfProcess(vm.Plan, vm.beyondThePlan(), place)
}

// beyondThePlan returns the facts that the plan doesn't contain.
func (vm *VM) beyondThePlan() confinement.Facts {
	home, err := os.UserHomeDir()
	if err != nil {
		home = "" // a service has no home
	}
	return confinement.Facts{
		Media: vm.cdFiles(), Repository: vm.Config.ImageRepository, Home: home, Bases: vm.basesOf, NBD: vm.nbdNeeds(),
		Uploads:      config.UploadsDirectory(vm.DataDir),
		Copies:       filepath.Dir(vm.CopySocket()),
		HostLoopback: vm.WholeSpec().ReachesLoopback(vmspec.NetworkUser), Pod: vm.Config.Resource != "",
	}
}

// nbdNeeds returns what QEMU needs of the host for drives of NBD servers: for the drives that the VM was started with,
// and for future drives that use its certificates.
func (vm *VM) nbdNeeds() confinement.NBD {
	var use confinement.NBD
	for _, d := range vm.Spec.Drives {
		if d.NBD == nil {
			continue
		}
		use.Ports = append(use.Ports, uint16(d.NBD.Port))
		if d.NBD.TLS != "" {
			use.Folders = append(use.Folders, d.NBD.TLS)
		}
	}
	if folder := vm.NBDCertificates(); folder != "" {
		use.Folders, use.AnyPort = append(use.Folders, folder), true
	}
	return use
}

// NBDCertificates returns the absolute path of the folder for drives that are attached later; "" without a
// folder.
func (vm *VM) NBDCertificates() string {
	return vmspec.Within(vm.configDir(), vm.Config.NBDCertificates)
}

// deniedNBD returns the reason why a running machine's QEMU can't use a drive of an NBD server; "" if it can.
func (vm *VM) deniedNBD(d vmspec.Drive) string {
	if vm.Held == nil || vm.Held.Landlock == 0 && !vm.Held.OwnRoot {
		return ""
	}
	const then = "; restart the VM, which is then started for this drive, or set nbdCertificates before its next start"
	machine := vm.ConfinementOf(len(vm.Plan.Helpers))
	switch {
	case d.NBD.TLS != "" && !machine.MayRead(d.NBD.TLS):
		return "the kernel lets QEMU read only the certificates that the VM was started with, and not " + d.NBD.TLS + then
	case vm.Held.Landlock >= firstPorts && !machine.MayConnect(uint16(d.NBD.Port)):
		return fmt.Sprintf("the kernel lets QEMU connect only to the TCP ports that the VM was started with, and not to %d%s",
			d.NBD.Port, then)
	}
	return ""
}

// firstPorts is the first version of Landlock with support for TCP ports.
const firstPorts = 4

// deniedMedia returns the reasons why a running machine's QEMU can't read media, by their index in vm.drives.
func (vm *VM) deniedMedia(media map[int]string) map[int]string {
	if vm.Held == nil || vm.Held.Landlock == 0 && !vm.Held.OwnRoot {
		return nil
	}
	machine := vm.ConfinementOf(len(vm.Plan.Helpers))
	facts := vm.beyondThePlan()
	reasons := map[int]string{}
	for i, file := range media {
		if strings.HasPrefix(file, "/") && !machine.MayRead(file) {
			reasons[i] = fmt.Sprintf("change the medium to %s: the kernel lets QEMU read only the folders of the media that "+
				"the VM was started with, and %s; restart the VM, or put the file there", file,
				cmp.Or(facts.Uploads, facts.Images()))
		}
	}
	return reasons
}
