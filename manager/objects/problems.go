package objects

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
	"vmop/logging"
)

// A Problem is something about a VM's objects that its user must know, in terms of the VM.
type Problem struct {
	// Path in the resource: "spec.vm.disks[0].volumeClaimTemplate".
	Path string
	// Message for people.
	Message string
	// Fatal: the VM must not be started.
	Fatal bool
}

// String returns the path and the message.
func (p Problem) String() string { return p.Path + ": " + p.Message }

// LoggingProblems returns what is wrong with the levels that the VM gives its runner.
// Loggers that the runner doesn't have are allowed: files of VM-Operator name them.
func LoggingProblems(vm *v1.VirtualMachine) []Problem {
	var all []Problem
	for _, p := range logging.Check(vm.Spec.LoggingProperties, logging.Runner, logging.Operator) {
		if !p.Foreign {
			message := fmt.Sprintf("line %d: %s", p.Line, p.Message)
			all = append(all, Problem{Path: "spec.loggingProperties", Message: message})
		}
	}
	return all
}

// TightLimit returns the problem of a limit on memory below what the VM may need, which
// stays as the user sets it; nil if there is none.
func TightLimit(vm *v1.VirtualMachine) *Problem {
	if vm.Spec.Resources == nil {
		return nil
	}
	limit, given := vm.Spec.Resources.Limits[corev1.ResourceMemory]
	m, err := size(vm)
	if !given || err != nil {
		return nil
	}
	m = m.WithDefaults()
	need := wholeMebibytes(int64(m.MaximumRAM) + overhead(m))
	if limit.Cmp(need) >= 0 {
		return nil
	}
	return &Problem{Path: "spec.resources.limits.memory", Message: fmt.Sprintf(
		"it is %s, but the VM may need %s, which is maximumRam and QEMU's own memory: the kernel kills it at the limit",
		limit.String(), need.String())}
}
