package inventory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"vmop/runner/config"
	"vmop/runner/prepare/images"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
)

// Sizes of a new VM if its type declares none.
const (
	usualCPUs = 4
	usualRAM  = 4 * vmspec.GiB
	usualDisk = 20 * vmspec.GiB
	// ramParts is the part of the computer's RAM that a new VM gets at most, a quarter. A type that asks for more
	// gets up to half.
	ramParts, ramPartsOfType = 4, 2
	// mostPluggable limits the CPUs that a guest can get while it is running: BIOS supports at most 255.
	mostPluggable = 240
)

// NoDisk is the disk of a draft for a VM without disks.
const NoDisk = "none"

// SuggestSizes returns the sizes that suit a new VM of a type on this computer. CPUs and RAM are zero if the type
// decides them.
func (inv *Inventory) SuggestSizes(ctx context.Context, vmType string) (vmtypes.NewSizes, error) {
	found, err := evaluate.Find(inv.opts.Prepare.VMTypes, cmp.Or(vmType, config.DefaultVMType))
	if err != nil {
		return vmtypes.NewSizes{}, err
	}
	about, err := found.Describe(ctx)
	if err != nil {
		return vmtypes.NewSizes{}, err
	}
	sizes := suggestSizes(about.Sizing, runtime.NumCPU(), totalRAM())
	if found.MayDecideSizes() {
		sizes.CPUs, sizes.RAM = 0, 0
	}
	return sizes, nil
}

// suggestSizes returns the sizes of a new VM on a computer with CPUs and RAM.
func suggestSizes(of vmtypes.Sizing, cpus int, ram vmspec.Bytes) vmtypes.NewSizes {
	parts := vmspec.Bytes(ramParts)
	if of.Suggested.RAM != 0 {
		parts = ramPartsOfType
	}
	available := max(vmspec.GiB, ram/parts/vmspec.GiB*vmspec.GiB) // in whole GiB
	return vmtypes.NewSizes{
		CPUs: max(of.Minimum.CPUs, min(cmp.Or(of.Suggested.CPUs, usualCPUs), cpus)),
		RAM:  max(of.Minimum.RAM, min(cmp.Or(of.Suggested.RAM, usualRAM), available)),
		Disk: max(of.Minimum.Disk, cmp.Or(of.Suggested.Disk, usualDisk)),
	}
}

// totalRAM returns this computer's RAM, or 0 if it is unknown.
func totalRAM() vmspec.Bytes {
	var have unix.Sysinfo_t
	if err := unix.Sysinfo(&have); err != nil {
		return 0
	}
	return vmspec.Bytes(uint64(have.Totalram) * uint64(have.Unit))
}

// Suggest completes a draft with the sizes of SuggestSizes. It leaves CPUs to settings that mention them, and the
// size of the first disk to a larger image.
func (inv *Inventory) Suggest(ctx context.Context, d *Draft) error {
	sizes, err := inv.SuggestSizes(ctx, d.Type)
	if err != nil {
		return err
	}
	if d.CPUs == 0 && !d.setsAny("vm.maximumCpus", "vm.currentCpus", "vm.sockets", "vm.diesPerSocket",
		"vm.coresPerDie", "vm.threadsPerCore") {
		d.CPUs = sizes.CPUs
	}
	if d.RAM == "" && !d.setsAny("vm.maximumRam", "vm.currentRam") && sizes.RAM != 0 {
		d.RAM = sizes.RAM.String()
	}
	if d.Disks != nil || d.setsAny("vm.drives") {
		return nil
	}
	if d.Image != "" {
		place, err := inv.Place(d.System)
		if err != nil {
			return err
		}
		cache, err := images.NewCache(place.Env)
		if err != nil {
			return err
		}
		if vmspec.Bytes(cache.SizeOf(images.Source{Text: d.Image})) > sizes.Disk {
			return nil
		}
	}
	d.Disks = []string{sizes.Disk.String()}
	return nil
}

// SuggestDrivers completes a draft for an installation from a CD, if the type declares that the setup lacks drivers:
// with the CD d.Drivers, or with options for devices that the setup supports. It leaves options to settings
// that mention them. It returns the options that it has set for a VM without the CD, as name=value.
func (inv *Inventory) SuggestDrivers(ctx context.Context, d *Draft) (without []string, err error) {
	installs := d.CD != "" && d.Image == "" && (len(d.Disks) == 0 || !filepath.IsAbs(d.Disks[0]))
	if !installs && d.Drivers == "" {
		return nil, nil
	}
	about, err := inv.DescribeType(ctx, cmp.Or(d.Type, config.DefaultVMType))
	if err != nil {
		return nil, err
	}
	const options = "vm.options."
	switch option := about.Drivers.Option; {
	case option == "" && d.Drivers != "":
		return nil, fmt.Errorf("guests of the type %s need no CD with drivers", about.Name)
	case option == "" || d.setsAny(options+option):
		return nil, nil
	case d.Drivers != "":
		d.Settings = slices.Insert(d.Settings, 0, options+option+"="+quoteYAML(d.Drivers))
		return nil, nil
	}
	missing := about.Drivers.Missing(func(name string) bool { return d.setsAny(options + name) })
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		without = append(without, name+"="+missing[name])
		d.Settings = slices.Insert(d.Settings, 0, options+name+"="+quoteYAML(missing[name]))
	}
	return without, nil
}

// setsAny reports whether a setting sets one of the paths, or a part of it.
func (d *Draft) setsAny(paths ...string) bool {
	return slices.ContainsFunc(d.Settings, func(setting string) bool {
		return slices.ContainsFunc(paths, func(path string) bool { return strings.HasPrefix(setting, path) })
	})
}

// warnOfSizes returns warnings about sizes below the minimum of the VM's type.
func (inv *Inventory) warnOfSizes(ctx context.Context, cfg *config.Config) (warnings []string) {
	found, err := evaluate.Find(inv.opts.Prepare.VMTypes, cmp.Or(cfg.VMType, config.DefaultVMType))
	if err != nil {
		return nil // the check of the configuration reports it
	}
	about, err := found.Describe(ctx)
	if err != nil {
		return nil
	}
	least := about.Sizing.Minimum
	if found.MayDecideSizes() {
		least.CPUs, least.RAM = 0, 0
	}
	spec := cfg.VM.WithDefaults()
	if spec.MaximumCPUs < least.CPUs {
		warnings = append(warnings, fmt.Sprintf("vm.maximumCpus is %d, but guests of the type %s need at least %d",
			spec.MaximumCPUs, about.Name, least.CPUs))
	}
	if spec.MaximumRAM < least.RAM {
		warnings = append(warnings, fmt.Sprintf("vm.maximumRam is %s, but guests of the type %s need at least %s",
			spec.MaximumRAM, about.Name, least.RAM))
	}
	for i, drive := range spec.Drives {
		if drive.Type == vmspec.DriveRaw && drive.Size != 0 {
			if drive.Size < least.Disk {
				warnings = append(warnings, fmt.Sprintf("vm.drives[%d].size is %s, but guests of the type %s need at least %s",
					i, drive.Size, about.Name, least.Disk))
			}
			break // further disks contain data
		}
	}
	return warnings
}
