package vmtypes

import (
	"fmt"

	"go.starlark.net/starlark"

	"vmop/vmspec"
)

// Globals with sizes of new VMs.
const (
	minimumGlobal   = "minimum_sizes"
	suggestedGlobal = "suggested_sizes"
)

// Sizing contains the sizes that suit new VMs of a type. They have no effect on existing VMs.
type Sizing struct {
	// Minimum are the smallest sizes for the type's guests. Suggested are for most guests.
	Minimum   NewSizes `json:"minimum,omitzero"`
	Suggested NewSizes `json:"suggested,omitzero"`
}

// NewSizes are sizes of a new VM. A zero field is absent.
type NewSizes struct {
	CPUs int          `json:"cpus,omitempty"`
	RAM  vmspec.Bytes `json:"ram,omitempty"`
	Disk vmspec.Bytes `json:"disk,omitempty"`
}

// readSizing reads the globals with sizes of new VMs.
func readSizing(globals starlark.StringDict) (s Sizing, err error) {
	if s.Minimum, err = readNewSizes(globals, minimumGlobal); err != nil {
		return s, err
	}
	s.Suggested, err = readNewSizes(globals, suggestedGlobal)
	return s, err
}

func readNewSizes(globals starlark.StringDict, global string) (sizes NewSizes, err error) {
	v := globals[global]
	if v == nil {
		return sizes, nil
	}
	dict, ok := v.(*starlark.Dict)
	if !ok {
		return sizes, fmt.Errorf("%s must be a dict such as {\"cpus\": 4, \"ram\": \"8 GiB\"}, not %s", global,
			withArticle(v))
	}
	names := []string{"cpus", "ram", "disk"}
	for key, v := range dict.Entries() {
		name, _ := starlark.AsString(key)
		var number int64
		var message string
		switch name {
		case "cpus":
			number, message = sizeOf(sizes.CPUs, v)
			sizes.CPUs = int(number)
		case "ram":
			number, message = sizeOf(sizes.RAM, v)
			sizes.RAM = vmspec.Bytes(number)
		case "disk":
			number, message = sizeOf(sizes.Disk, v)
			sizes.Disk = vmspec.Bytes(number)
		default:
			return sizes, fmt.Errorf("%s has the key %s, but the keys are cpus, ram and disk%s", global, key,
				didYouMean(name, names))
		}
		if message != "" {
			return sizes, fmt.Errorf("%s: %s %s", global, name, message)
		}
	}
	return sizes, nil
}
