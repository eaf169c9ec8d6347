package launch

import (
	"bytes"
	"os"
	"slices"
	"strings"

	"vmop/confine"
	"vmop/regular"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// recordHeld adds to what is known of the VM what the kernel holds one of its processes to.
// Kernel and user are the same for all that are not exempt.
func (l *Launch) recordHeld(p plan.Process, held confine.Held) {
	if l.vm.Held == nil {
		l.vm.Held = &status.Confinement{}
	}
	known := l.vm.Held
	if p.Exempt {
		known.Exempt = append(known.Exempt, p.Name)
		asked := l.vm.Spec.ReachesLoopback(vmspec.NetworkPasst)
		if p.Role == plan.RoleNetwork && !asked && !dropsLoopback(p.Executable) {
			known.Loopback = p.Executable + " doesn't drop packets to them; install a newer passt, or use a user network"
		}
		return
	}
	known.Landlock, known.OwnRoot, known.Lacks = held.Landlock, held.Root, held.Lacks
	if held.Loopback != "" {
		known.Loopback = held.Loopback
	}
	known.NoLoopback = known.NoLoopback || held.NoLoopback
}

// saysLoopback is what a passt that drops packets to loopback addresses can say. Its version isn't enough:
// distributions replace it.
const saysLoopback = "Loopback address on tap interface"

// largestPasst bounds what is read of a program.
const largestPasst = 16 << 20

// dropsLoopback reports whether a program is a passt that drops the guest's packets to loopback addresses.
func dropsLoopback(program string) bool {
	text, err := regular.ReadFile(program, largestPasst)
	return err == nil && bytes.Contains(text, []byte(saysLoopback))
}

// inheritedNames are the variables that a process of a plan gets of the runner's
// environment, which may have what is meant for the runner alone. Those that end with _
// are the beginnings of names.
const inheritedNames = "PATH LANG LANGUAGE LC_ TZ TMPDIR LD_LIBRARY_PATH GLIBC_TUNABLES MALLOC_ QEMU_ G_ SPICE_"

// environment returns the environment of a process of a plan.
func environment(own []plan.Variable) []string {
	known := strings.Fields(inheritedNames)
	list := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return !slices.ContainsFunc(known, func(k string) bool {
			return name == k || strings.HasSuffix(k, "_") && strings.HasPrefix(name, k)
		})
	})
	for _, v := range own {
		list = append(list, v.Name+"="+v.Value)
	}
	return list
}
