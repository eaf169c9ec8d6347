package objects

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	v1 "vmop/api/v1"
	"vmop/internal/javalogging"
	"vmop/manager/vm/class"
)

// Problem is something about a VM's objects that its user must know, in terms of the VM.
type Problem struct {
	// Path in the resource: "spec.vm.disks[0].volumeClaimTemplate".
	Path string
	// Message for users.
	Message string
	// Fatal is set if the VM must not start.
	Fatal bool
}

// String returns the path and the message.
func (p Problem) String() string { return p.Path + ": " + p.Message }

// LoggingProblems returns errors in the log levels that the VM sets for its runner. Unknown loggers are allowed,
// since files for VM-Operator contain them.
func LoggingProblems(vm *v1.VirtualMachine) []Problem {
	var all []Problem
	for _, p := range javalogging.Check(vm.Spec.LoggingProperties, javalogging.Runner, javalogging.Operator) {
		if !p.Foreign {
			message := fmt.Sprintf("line %d: %s", p.Line, p.Message)
			all = append(all, Problem{Path: "spec.loggingProperties", Message: message})
		}
	}
	return all
}

// TightLimit returns the problem of a memory limit that is lower than what the VM may need, or nil without a
// problem. The limit stays as the user sets it.
func TightLimit(vm *v1.VirtualMachine) *Problem {
	if vm.Spec.Resources == nil {
		return nil
	}
	limit, given := vm.Spec.Resources.Limits[corev1.ResourceMemory]
	m, err := class.SizeOf(vm)
	if !given || err != nil {
		return nil
	}
	m = m.WithSize()
	need := wholeMebibytes(int64(m.MaximumRAM) + overheadBytes(m))
	if limit.Cmp(need) >= 0 {
		return nil
	}
	return &Problem{Path: "spec.resources.limits.memory", Message: fmt.Sprintf(
		"it is %s, but the VM may need %s, which is maximumRam and QEMU's own memory: the kernel kills it at the limit",
		limit.String(), need.String())}
}
