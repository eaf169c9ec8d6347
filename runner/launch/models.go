package launch

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"vmop/internal/spelling"
	"vmop/runner/prepare"
)

// Limits for querying QEMU's models.
const (
	helpTime   = 5 * time.Second
	mostModels = 6 // of the models that are listed
)

// models describes a kind of model that QEMU lists for a flag.
type models struct {
	key  string         // in the configuration, with a colon; "" if unknown
	noun string         // for users
	flag string         // of QEMU, without its dash
	said *regexp.Regexp // QEMU's error for an unknown model; the first group, if any, is its name
	name *regexp.Regexp // matches the name in a line of the list
	part string         // heading of the relevant part of the list; "" for the whole list
}

func modelKinds() []models {
	find := regexp.MustCompile
	return []models{
		{
			"vm.machineType: ", "machine", "machine", find(`unsupported machine type`),
			find(`(?m)^([a-z0-9][\w.-]*) {2,}`), "",
		},
		{
			"vm.cpuModel: ", "CPU", "cpu", find(`unable to find CPU model '([^']*)'`),
			find(`(?m)^(?:x86|  ) ?([\w.-]+)(?: .*)?$`), "",
		},
		{
			"vm.network[].device: ", "network card", "device",
			find(`\bnetdev=[^\n]*'([^']*)' is not a valid device model name`),
			find(`(?m)^name "([^"]+)"`), "Network devices:\n",
		},
		{
			"", "device", "device", find(`'([^']*)' is not a valid device model name`),
			find(`(?m)^name "([^"]+)"`), "",
		},
	}
}

// A lister returns the output of a program for a flag with the value "help".
type lister func(program, flag string) string

// adviceOnModel returns which models QEMU has, if said is an error about an unknown model, and otherwise "".
func adviceOnModel(vm *prepare.VM, said string, list lister) string {
	for _, m := range modelKinds() {
		match := m.said.FindStringSubmatch(said)
		if match == nil {
			continue
		}
		wanted := vm.Plan.MachineType()
		if len(match) > 1 {
			wanted = match[1]
		} else if vm.Pin.HasVersion(wanted) && vm.Spec.MachineType != wanted {
			return fmt.Sprintf("%s: the VM was first started with the machine %s, which this QEMU doesn't have (is it an older "+
				"one?): run the VM with a QEMU that has it, or set updateVmType: true to take this QEMU's newest, which is other "+
				"hardware for the guest", filepath.Join(vm.DataDir, prepare.PinnedMachines), wanted)
		}
		text := fmt.Sprintf("%sthis QEMU has no %s %s", m.key, m.noun, wanted)
		known := m.namesIn(list(vm.Plan.QEMU.Executable, m.flag))
		if near := spelling.Nearest(wanted, known); near != "" && !otherVersion(near, wanted) {
			text += " (did you mean " + near + "?)"
		} else if some := nearestNames(wanted, known); some != nil {
			text += "; it has " + strings.Join(some, ", ")
			if more := len(known) - len(some); more > 0 {
				text += fmt.Sprintf(" and %d more", more)
			}
		}
		return fmt.Sprintf("%s; %q lists all", text, vm.Plan.QEMU.Executable+" -"+m.flag+" help")
	}
	return ""
}

// otherVersion reports whether two names differ only in the version at their ends.
func otherVersion(a, b string) bool {
	version := regexp.MustCompile(`-[\d.]+$`)
	return version.MatchString(b) && version.ReplaceAllString(a, "") == version.ReplaceAllString(b, "")
}

// namesIn returns the names in a list of QEMU, or in part of it. It skips versions of CPU models, and the CPU flags
// that follow the models.
func (m models) namesIn(list string) (names []string) {
	list, _, _ = strings.Cut(list, "\nRecognized CPUID flags:")
	if m.part != "" {
		_, list, _ = strings.Cut(list, m.part)
		list, _, _ = strings.Cut(list, "\n\n")
	}
	version := regexp.MustCompile(`-v\d+$`)
	for _, match := range m.name.FindAllStringSubmatch(list, -1) {
		if !version.MatchString(match[1]) {
			names = append(names, match[1])
		}
	}
	return names
}

// nearestNames returns a few of the names: those with the longest common prefix with word, or the first ones.
func nearestNames(word string, names []string) []string {
	for n := len(word); n > 1; n-- {
		alike := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
			return !strings.HasPrefix(strings.ToLower(name), strings.ToLower(word[:n]))
		})
		if len(alike) > 0 {
			return alike[:min(len(alike), mostModels)]
		}
	}
	return names[:min(len(names), mostModels)]
}

// helpOf returns the output of a QEMU for FLAG help, or "" if it fails. Programs outside of /usr are not run,
// because they could do anything and are not confined here.
func helpOf(ctx context.Context, program, flag string) string {
	if real, err := filepath.EvalSymlinks(program); err != nil || !strings.HasPrefix(real, "/usr/") {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, helpTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-"+flag, "help")
	cmd.Env, cmd.Dir = []string{}, "/"
	text, err := cmd.Output()
	if err != nil {
		return ""
	}
	return string(bytes.ReplaceAll(text, []byte("\r"), nil))
}
