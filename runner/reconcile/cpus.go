package reconcile

import (
	"encoding/json"
	"fmt"
	"strings"

	"vmop/runner/qmp"
	"vmop/vmtypes/plan"
)

// peripheral is where QEMU keeps devices that have an id.
const peripheral = "/machine/peripheral/"

// cpus plugs CPUs until want of them are there.
//
// The driver and the properties are taken verbatim from QEMU's answer: QEMU 7.2
// and 10.0 crash when a CPU of another model is plugged into a running machine.
// QEMU lists the highest slot first; slots are filled from the lowest, so that
// the guest's CPUs have contiguous numbers.
func cpus(r plan.CPUs, want int, have []CPU) ([]qmp.Command, error) {
	used := map[string]bool{}
	var free []CPU
	for i := len(have) - 1; i >= 0; i-- {
		if have[i].Path == "" {
			free = append(free, have[i])
			continue
		}
		used[strings.TrimPrefix(have[i].Path, peripheral)] = true
	}
	missing := want - (len(have) - len(free))
	if missing > len(free) {
		return nil, fmt.Errorf("%d CPUs are wanted, QEMU has slots for %d", want, len(have))
	}
	var commands []qmp.Command
	for number := 1; len(commands) < missing; number++ {
		id := fmt.Sprintf(r.ID, number)
		if used[id] {
			continue
		}
		args, err := deviceArguments(free[len(commands)], id)
		if err != nil {
			return nil, err
		}
		commands = append(commands, qmp.Command{Execute: "device_add", Arguments: args})
	}
	return commands, nil
}

// deviceArguments returns the arguments of device_add for a free slot.
func deviceArguments(slot CPU, id string) (map[string]any, error) {
	args := map[string]any{}
	if err := json.Unmarshal(slot.Props, &args); err != nil {
		return nil, fmt.Errorf("properties of a CPU slot, %s: %w", slot.Props, err)
	}
	args["driver"], args["id"] = slot.Type, id
	return args, nil
}
