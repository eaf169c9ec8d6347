package prepare

import (
	"path/filepath"

	"vmop/vmspec"
	"vmop/vmtypes"
)

// An Input is what a VM type computes the plan of a VM from, for those who try
// types without running anything.
type Input struct {
	// VMType is the name of the type.
	VMType string
	// Spec is the vm section with defaults, absolute paths and uuid.
	Spec vmspec.Spec
	// Host is this computer.
	Host vmtypes.Host
	// Warnings about the configuration, for people.
	Warnings []string
	// Locate returns an error of the type that is about the configuration with its
	// place there, any other as it is.
	Locate func(error) error
}

// ReadInput reads a configuration as Plan does, with settings that change it
// (see config.Load). What was pinned when the VM was run is not looked at.
func ReadInput(file string, settings ...string) (*Input, error) {
	vm, err := Open(file, settings...)
	if err != nil {
		return nil, err
	}
	if err := vm.resolve(vm.DataDir, false); err != nil {
		return nil, err
	}
	if err := vm.readSecrets(vm.folder(), ""); err != nil {
		return nil, err
	}
	return &Input{VMType: vm.Config.VMType, Spec: vm.Spec, Host: vm.Host(), Warnings: vm.Warnings, Locate: vm.Locate},
		nil
}

// OptionFiles are what vm.options may name.
func (vm *VM) OptionFiles() vmtypes.Files {
	if repository := vm.Config.ImageRepository; repository != "" {
		return vmtypes.Files{Folder: vmspec.Within(vm.folder(), repository), Only: true}
	}
	return vmtypes.Files{Folder: vm.folder()}
}

// Host is what the VM's type may know of this computer.
func (vm *VM) Host() vmtypes.Host {
	host := vm.Facts.host(vm.DataDir, vm.RuntimeDir)
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
