package handover

import (
	"fmt"
	"slices"
	"strings"

	"vmop/internal/printable"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// Hardware returns the guest-visible part of a plan, as lines. It contains QEMU's options without host-specific
// parts such as paths, descriptors and displays. An alias of a machine type is replaced by its version, if known.
func Hardware(p *plan.Plan, machines map[string]string) (lines []string) {
	for _, o := range p.QEMU.Args {
		row := qemuopt.Flag(o.Flag)
		if row == nil || hostOnly(row.Guest) || !isFront(row.Makes) {
			continue
		}
		value := o.Value
		if version := machines[value]; version != "" && value == p.MachineType() {
			value = version
		}
		if isPath(row.Text) {
			value = ""
		}
		line := strings.TrimSpace(o.Flag + " " + value)
		own := qemuopt.Find(o.Flag, o.Value)
		if own != nil && hostOnly(own.Guest) {
			continue
		}
		separator := ","
		if o.Value == "" {
			separator = " "
		}
		for _, property := range o.Properties {
			if property.Descriptor != "" || hostOnly(qemuopt.MeaningOf(o.Flag, o.Value, property.Key)) ||
				isPath(own.Property(property.Key).Host) || isPath(row.Property(property.Key).Host) ||
				row.Property(property.Key).Refers == qemuopt.BlockNode && takesMedia(p.Rules, o.ID()) {
				continue
			}
			line += separator + property.Key + "=" + property.Value
			separator = ","
		}
		lines = append(lines, line)
	}
	for _, h := range p.Helpers {
		if h.Role == plan.RoleTPM {
			lines = append(lines, versionOfTPM(h))
		}
	}
	return lines
}

// takesMedia reports whether a device is a drive with a removable medium, so that one of two plans may lack the
// medium.
func takesMedia(rules plan.Rules, device string) bool {
	return slices.ContainsFunc(rules, func(r plan.Rule) bool {
		m, is := r.(plan.Medium)
		return is && m.Device == device
	})
}

// versionOfTPM returns the TPM version that swtpm emulates.
func versionOfTPM(swtpm plan.Process) string {
	if slices.Contains(swtpm.Argv(), "--tpm2") {
		return "TPM 2.0"
	}
	return "TPM 1.2"
}

// isFront reports whether an option creates a guest-visible device, rather than its backend.
func isFront(k qemuopt.Kind) bool { return k == "" || k == qemuopt.DeviceID || k == qemuopt.Object }

func hostOnly(m qemuopt.Meaning) bool {
	switch m {
	case qemuopt.HostOnly, qemuopt.Viewers, qemuopt.Isolation, qemuopt.FailureAction:
		return true
	}
	return false
}

func isPath(e qemuopt.Effect) bool { return e >= qemuopt.Reads }

// mostDifferences is the maximum number of differences in an error, and longestLine the maximum length of each in
// bytes. They limit text from the other side.
const mostDifferences, longestLine = 20, 300

// Differences returns an error that describes how other differs from the guest's own hardware, or nil if they are
// equal.
func Differences(own, other []string) error {
	if slices.Equal(own, other) {
		return nil
	}
	var list []string
	for _, line := range own {
		if !slices.Contains(other, line) {
			list = append(list, "without "+line)
		}
	}
	for _, line := range other {
		if !slices.Contains(own, line) {
			list = append(list, "with "+line)
		}
	}
	if list == nil {
		list = []string{"with its devices in another order"}
	}
	if more := len(list) - mostDifferences; more > 0 {
		list = append(list[:mostDifferences], fmt.Sprintf("and %d more", more))
	}
	for i := range list {
		list[i] = printable.Clip(printable.Line(list[i]), longestLine)
	}
	return fmt.Errorf("the guest would have other hardware: %s", strings.Join(list, "; "))
}
