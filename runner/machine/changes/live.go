package changes

import (
	"fmt"
	"slices"

	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// Live returns the function live for Pending. It reports whether a change takes effect while the VM runs, which
// requires a rule in the running plan and a wanted value within the rule's bounds. Values without an effect on a
// plan, such as vm.powerdownTimeout, need no rule. attached are the paths of the drives that are attached to the
// machine.
func Live(rules plan.Rules, wanted vmspec.Spec, attached ...string) func(path string) bool {
	live := setOf(attached...)
	var sections []string // with all values below
	for _, r := range rules {
		switch r := r.(type) {
		case plan.CPUs:
			live["vm.currentCpus"] = wanted.CurrentCPUs <= r.Maximum
		case plan.Balloon:
			live["vm.currentRam"] = int64(wanted.CurrentRAM) <= r.Maximum
		case plan.Memory:
			live["vm.currentRam"] = int64(wanted.CurrentRAM) <= r.Maximum
		case plan.Medium:
			isDrive := r.Drive >= 0 && r.Drive < len(wanted.Drives) && wanted.Drives[r.Drive].Type == vmspec.DriveIDECD
			live[fmt.Sprintf("vm.drives[%d].file", r.Drive)] = isDrive
		case plan.Ports:
			n := r.Network
			if n >= 0 && n < len(wanted.Network) && wanted.Network[n].Type == vmspec.NetworkUser {
				sections = append(sections, fmt.Sprintf("vm.network[%d].ports", r.Network))
			}
		case plan.Limits:
			if r.Drive >= 0 && r.Drive < len(wanted.Drives) && wanted.Drives[r.Drive].Type == vmspec.DriveRaw {
				sections = append(sections, fmt.Sprintf("vm.drives[%d].limits", r.Drive))
			}
		case plan.Link:
			live[fmt.Sprintf("vm.network[%d].link", r.Network)] = r.Network < len(wanted.Network)
		case plan.Disk, plan.Disks, plan.NICs, plan.Password, plan.Affinity: // not about the vm section
		}
	}
	return func(path string) bool {
		return live[path] || slices.ContainsFunc(sections, func(of string) bool { return isWithin(path, of) })
	}
}
