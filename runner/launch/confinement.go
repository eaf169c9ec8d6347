package launch

import (
	"bytes"
	"os"
	"slices"
	"strings"

	"vmop/internal/confine"
	"vmop/internal/readfile"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// recordHeld adds a process's confinement by the kernel to the VM's status. Kernel and user are the same for all
// processes that are not exempt.
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

// saysLoopback is a message in each passt that can drop packets to loopback addresses. The version is not a
// reliable indicator, because distributions change it.
const saysLoopback = "Loopback address on tap interface"

// largestPasst is the maximum number of bytes that are read of a program.
const largestPasst = 16 << 20

// dropsLoopback reports whether a program is a passt that drops the guest's packets to loopback addresses.
func dropsLoopback(program string) bool {
	text, err := readfile.ReadFile(program, largestPasst)
	return err == nil && bytes.Contains(text, []byte(saysLoopback))
}

// inheritedNames are the environment variables that processes of a plan inherit. Other variables may be meant for
// the runner alone. Names that end with _ are prefixes.
const inheritedNames = "PATH LANG LANGUAGE LC_ TZ TMPDIR LD_LIBRARY_PATH GLIBC_TUNABLES MALLOC_ QEMU_ G_ SPICE_"

// environmentOf returns the environment of a process of a plan.
func environmentOf(own []plan.Variable) []string {
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
