package decide

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/vm/class"
	"vmop/manager/vm/objects"
	"vmop/vmspec"
)

// Reasons of phases, and of the conditions Reconciled and SizingPolicyMatched.
const (
	ReasonClassMissing     = "ClassMissing"
	reasonClassNotReady    = "ClassNotReady"
	reasonClassUnavailable = "ClassesUnavailable"
	reasonSizing           = "SizingPolicyNotMatched"
	reasonOptionLocked     = "OptionLocked"
	reasonSizingMatched    = "Matched"
)

// Classes looks up the classes and pools that the manager knows.
type Classes interface {
	// Class returns the class with this name, or nil if it doesn't exist.
	Class(name string) *v1.VirtualMachineClass
	// DefaultClass returns the class of new VMs, or nil if there is no default.
	DefaultClass() *v1.VirtualMachineClass
	// ClassesUnavailable returns the reason why the classes are unknown, or "" if they are known.
	ClassesUnavailable() string
	// LogsIn reports whether a pool logs in the users to whom it assigns VMs.
	LogsIn(pool string) bool
}

// ClassOf describes the class of a VM.
type ClassOf struct {
	// Name of the class; "" for a VM without a class.
	Name string
	// Taken contains the active settings of the class. A running VM keeps the settings from its start.
	Taken class.Taken
	// Obstacle is the reason why the class can't be used now.
	Obstacle Obstacle
	// Mismatch describes how the VM violates the sizing policies; "" if it complies.
	Mismatch string
	// Locked describes how the VM sets options that the class locks; "" if it doesn't set them.
	Locked string
	// Changes are the class changes that a restart would apply.
	Changes []v1.RestartAwaitingChange

	running bool // the VM keeps what it took from its class
}

// Resolve completes a VM's definition as its user wrote it: it adds what the class provides, and the user whom the
// VM's pool logs in. It also returns a description of the class. The pod and the ConfigMap may be nil. An error
// means that the VM and its class are invalid together.
//
// See docs/decisions/0090-classes.md.
func Resolve(vm *v1.VirtualMachine, pod *corev1.Pod, config *objects.Metadata, known Classes) (
	*v1.VirtualMachine, ClassOf, error,
) {
	c, err := findClass(vm, pod, config, known)
	if err != nil {
		return nil, c, err
	}
	resolved, err := class.Resolve(vm, c.Taken)
	if a := vm.Status.Assignment; err == nil && a != nil && known.LogsIn(a.Pool) {
		display := *resolved.Spec.VM.Display
		display.LoggedInUser = a.User
		resolved.Spec.VM.Display = &display
	}
	return resolved, c, err
}

// findClass returns the description of a VM's class.
func findClass(vm *v1.VirtualMachine, pod *corev1.Pod, config *objects.Metadata, known Classes) (ClassOf, error) {
	var was class.Taken
	if config != nil {
		was, _ = class.ReadRecord(config.Annotations[objects.AnnotationClass]) // an unreadable record is ignored
	}
	c := ClassOf{Name: vm.Spec.VirtualMachineClassName, running: config != nil && keepsClass(vm, pod)}
	isNew := config == nil && vm.Status.ObservedGeneration == 0
	switch preset := known.DefaultClass(); {
	case c.Name == "" && was.ByDefault:
		c.Name = was.Class
	case c.Name == "" && isNew && preset != nil:
		c.Name = preset.Name
	}
	next, obstacle := takeFromClass(c.Name, vm, known)
	switch c.Obstacle = obstacle; {
	case c.running, obstacle != nil && was.Class == c.Name:
		c.Taken = was
	default:
		c.Taken = next
	}
	if obstacle != nil {
		return c, nil
	}
	if of := known.Class(c.Name); c.Name != "" && of != nil {
		c.Mismatch, c.Locked = class.Mismatch(of, vm), class.LockedFault(of, vm)
	}
	var err error
	if c.running {
		c.Changes, err = objects.ClassChanges(vm, c.Taken, next)
	}
	return c, err
}

// keepsClass reports whether a VM keeps what it took from its class: it is running in its pod, or about to run. The
// next pod is another start.
func keepsClass(vm *v1.VirtualMachine, pod *corev1.Pod) bool {
	return pod != nil && !Terminating(pod) && !Stuck(pod) && OutcomeIn(vm, pod) == nil &&
		pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded
}

// takeFromClass returns what a VM takes from a class now.
func takeFromClass(name string, vm *v1.VirtualMachine, known Classes) (class.Taken, Obstacle) {
	if name == "" {
		return class.Taken{}, nil
	}
	if why := known.ClassesUnavailable(); why != "" {
		return class.Taken{}, Waiting{Reason: reasonClassUnavailable, Message: fmt.Sprintf(
			"spec.virtualMachineClassName is %s: %s", name, why)}
	}
	of := known.Class(name)
	if of == nil {
		return class.Taken{}, Waiting{Reason: ReasonClassMissing, Message: fmt.Sprintf(
			"spec.virtualMachineClassName: there is no VirtualMachineClass %s (kubectl get vmclass)", name)}
	}
	if why := class.Usable(of); why != "" {
		return class.Taken{}, Waiting{Reason: reasonClassNotReady, Message: fmt.Sprintf(
			"VirtualMachineClass %s is not ready: %s", name, why)}
	}
	return class.Extract(of, vm), nil
}

// Check reports what keeps the VM from starting because of its class.
func (c ClassOf) Check() (did Report) {
	switch {
	case c.Obstacle != nil:
		did.Stop(c.Obstacle, nil)
	case c.Mismatch != "":
		did.Stop(Stalled{reasonSizing, Readable(c.Mismatch)}, nil)
	case c.Locked != "":
		did.Stop(Stalled{reasonOptionLocked, Readable(c.Locked)}, nil)
	}
	return did
}

// Follows reports whether the VM's configuration must match its definition. A VM that violates the sizing policies or
// sets a locked option keeps its configuration. A VM that isn't running gets no configuration until its class is known.
func (c ClassOf) Follows() bool { return !c.violated() && !c.waitsForClass() }

// violated reports whether the class forbids the VM's definition.
func (c ClassOf) violated() bool { return c.Mismatch != "" || c.Locked != "" }

// waitsForClass reports whether the class of a VM that isn't running can't be used yet.
func (c ClassOf) waitsForClass() bool { return c.Obstacle != nil && !c.running }

// Frozen reports whether the VM's definition must not be used to start a pod. If the manager doesn't know the
// classes, but the VM is running, its pod may still be replaced.
func (c ClassOf) Frozen() bool {
	o, waits := c.Obstacle.(Waiting)
	return c.violated() || waits && !(c.running && o.Reason == reasonClassUnavailable)
}

// inForce returns the name of the class that the VM uses or will use.
func (c ClassOf) inForce() string { return cmp.Or(c.Taken.Class, c.Name) }

// classVerdict returns the condition SizingPolicyMatched; zero for a VM without a class.
func (c ClassOf) classVerdict() Verdict {
	switch o, waits := c.Obstacle.(Waiting); {
	case c.Name == "":
		return Verdict{}
	case waits:
		return Verdict{metav1.ConditionUnknown, o.Reason, o.Message}
	case c.Mismatch != "":
		return Verdict{metav1.ConditionFalse, reasonSizing, Readable(c.Mismatch)}
	}
	return Verdict{metav1.ConditionTrue, reasonSizingMatched, ""}
}

// TypeSizes returns the active sizes of the VM's type. decided are the sizes that the type decides now. Like the
// settings of its class, a running VM keeps the active sizes until its definition changes.
func (s *Snapshot) TypeSizes(decided vmspec.Sizes) *v1.TypeSizes {
	if s.Class.running && s.VM.Status.ObservedGeneration == s.VM.Generation {
		return s.VM.Status.TypeSizes
	}
	return class.TypeSizes(decided)
}
