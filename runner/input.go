package runner

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

// ReadInput reads a configuration as Prepare does, with settings that change it
// (see config.Load). What was pinned when the VM was run is not looked at.
func ReadInput(file string, settings ...string) (*Input, error) {
	vm, err := open(file, settings...)
	if err != nil {
		return nil, err
	}
	if err := vm.resolve(vm.DataDir, false); err != nil {
		return nil, err
	}
	if err := vm.readSecrets(vm.folder, ""); err != nil {
		return nil, err
	}
	return &Input{VMType: vm.Config.VMType, Spec: vm.Spec, Host: vm.host(), Warnings: vm.Warnings, Locate: vm.locate},
		nil
}

// host is what the VM's type may know of this computer.
func (vm *VM) host() vmtypes.Host {
	host := vm.facts.host(vm.DataDir, vm.RuntimeDir)
	host.HasDisplayPassword = vm.protected
	if vm.pin != nil {
		host.Machines = vm.pin.machines
	}
	if vm.seed != nil {
		host.CloudInitImage = filepath.Join(vm.RuntimeDir, cloudInitImage)
	}
	return host
}
