package convert

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"vmop/vmspec"
)

// NextSteps returns what the first start of the configuration still needs, in order, as sentences for people. It
// returns nil if a part blocks. unusable returns the reason why the user can't use a file or device, or "".
func (r *Result) NextSteps(unusable func(file string, write bool) string) (steps []string) {
	if r.Config == nil {
		return nil
	}
	if r.stop != "" {
		steps = append(steps, r.stop+". Two programs must never use a disk at the same time")
	}
	for i, d := range r.vm.Drives {
		file := d.File + d.Device             // only one is given
		made := d.Size != 0 || d.Source != "" // by the runner
		if file == "" || made || strings.Contains(file, "://") {
			continue
		}
		if reason := unusable(file, d.Type != vmspec.DriveIDECD && !d.ReadOnly); reason != "" {
			steps = append(steps, fmt.Sprintf("make vm.drives[%d] usable for you: %s", i, reason))
		}
	}
	if r.hasState() {
		steps = append(steps, "copy the state of the firmware and the TPM, otherwise the guest begins without it: "+
			"docs/vm-types/from-libvirt.md#state")
	}
	for i, n := range r.vm.Network {
		switch n.Type {
		case vmspec.NetworkTap, "":
			steps = append(steps, fmt.Sprintf("vm.network[%d] needs the bridge %s and the right to create taps: "+
				"docs/reference/networking.md#tap", i, cmp.Or(n.Bridge, vmspec.DefaultBridge)))
		case vmspec.NetworkMasquerade:
			steps = append(steps, fmt.Sprintf("vm.network[%d] needs the rights of a masquerade network: "+
				"docs/reference/networking.md#masquerade", i))
		}
	}
	return steps
}

// hasState reports whether the other program keeps state outside of the disks.
func (r *Result) hasState() bool {
	return r.stop != "" && slices.ContainsFunc(r.Findings, func(f Finding) bool {
		return strings.Contains(f.Hint, "#state") || strings.Contains(f.Hint, "tpm2-00.permall")
	})
}

// stopCommand returns how to keep the other program from running the VM. It returns "" for a template, which is no VM.
func (c *conversion) stopCommand() string {
	name := c.config.VM.Name
	switch c.options.Format {
	case Libvirt:
		return fmt.Sprintf("stop the domain, and keep it off: virsh shutdown %s; virsh autostart --disable %[1]s", name)
	case Incus:
		return fmt.Sprintf("stop the instance, and keep it off: incus stop %s; incus config set %[1]s "+
			"boot.autostart=false", name)
	case Lima:
		if filepath.Base(c.file) == limaInstance {
			return "stop the instance: limactl stop " + name
		}
		return ""
	}
	return "power the guest off, and don't start it with quickemu again"
}
