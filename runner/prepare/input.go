package prepare

import (
	"path/filepath"

	"vmop/vmspec"
	"vmop/vmtypes"
)

// An Input is the input of a VM type for the plan of a VM. Use it to try types without running a VM.
type Input struct {
	// VMType is the name of the type.
	VMType string
	// Spec is the vm section with defaults, absolute paths and uuid.
	Spec vmspec.Spec
	// Host is this computer.
	Host vmtypes.Host
	// Warnings about the configuration, for people.
	Warnings []string
	// Locate adds the place in the configuration to an error of the type about the configuration. It returns
	// other errors unchanged.
	Locate func(error) error
}

// ReadInput reads a configuration like Plan, with settings that change it (see config.Load). It ignores what was
// pinned when the VM was run.
func ReadInput(file string, settings ...string) (*Input, error) {
	vm, err := Open(file, settings...)
	if err != nil {
		return nil, err
	}
	if err := vm.resolveSpec(vm.DataDir, false); err != nil {
		return nil, err
	}
	if err := vm.readSecrets(vm.configDir(), ""); err != nil {
		return nil, err
	}
	return &Input{VMType: vm.Config.VMType, Spec: vm.Spec, Host: vm.Host(), Warnings: vm.Warnings, Locate: vm.Locate},
		nil
}

// OptionFiles returns the files that vm.options may name.
func (vm *VM) OptionFiles() vmtypes.Files {
	if repository := vm.Config.ImageRepository; repository != "" {
		return vmtypes.Files{Folder: vmspec.Within(vm.configDir(), repository), Only: true}
	}
	return vmtypes.Files{Folder: vm.configDir()}
}

// Host returns what the VM's type may know about this computer.
func (vm *VM) Host() vmtypes.Host {
	host := vm.Facts.hostFor(vm.DataDir, vm.RuntimeDir)
	host.HasDisplayPassword, host.Files = vm.Protected, vm.OptionFiles()
	if vm.Pin != nil {
		host.Machines = vm.Pin.Machines
	}
	if vm.Seed != nil {
		host.CloudInitImage = filepath.Join(vm.RuntimeDir, CloudInitImage)
	}
	if vm.Config.Sysprep != nil {
		host.SysprepImage = filepath.Join(vm.RuntimeDir, SysprepImage)
	}
	return host
}
