package prepare

import (
	"context"
	"path/filepath"

	"vmop/internal/readfile"
	"vmop/runner/config"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
)

// An Input is the input of a VM type for the plan of a VM. Use it to try types without running a VM.
type Input struct {
	// VMType is the name of the type.
	VMType string
	// Spec is the vm section with absolute paths, uuid, and all defaults except sizes, which the type may decide.
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
	spec := vm.Spec.ReplaceSizes(vm.Config.VM.Sizes())
	return &Input{VMType: vm.Config.VMType, Spec: spec, Host: vm.Host(), Warnings: vm.Warnings, Locate: vm.Locate},
		nil
}

// Sizes returns the sizes that the type of a VM decides for a configuration, whether or not the VM was run. It is zero
// if the type fails, which the VM's start reports.
func Sizes(ctx context.Context, cfg *config.Config, file, vmTypes string) vmspec.Sizes {
	if cfg.VM.Sizes().AreComplete() || vmtypes.IsStock(cfg.VMType) {
		return vmspec.Sizes{}
	}
	vm, err := New(cfg, file)
	if err != nil || !vm.mayDecideSizes(vmTypes) {
		return vmspec.Sizes{}
	}
	types := evaluate.NewGroup(ctx)
	defer types.Close()
	vmType, err := vm.openType(types, vmTypes)
	if err != nil || vm.decideSizes(ctx, vmType) != nil {
		return vmspec.Sizes{}
	}
	return vm.sizes
}

// mayDecideSizes reports whether the VM's type can define defaults. Most types don't, and this needs no process.
func (vm *VM) mayDecideSizes(vmTypes string) bool {
	pinned, err := readfile.ReadFile(filepath.Join(vm.DataDir, pinnedType), LargestRecord)
	if err == nil && !vm.Config.UpdateVMType {
		return vmtypes.MayDecideSizes(string(pinned))
	}
	found, err := evaluate.Find(vmTypes, vm.Config.VMType)
	return err == nil && found.MayDecideSizes()
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
