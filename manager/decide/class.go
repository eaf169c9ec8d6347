package decide

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/class"
	"vmop/manager/objects"
)

// Reasons of phases, and of the conditions Reconciled and SizingPolicyMatched.
const (
	ReasonClassMissing     = "ClassMissing"
	ReasonClassNotReady    = "ClassNotReady"
	ReasonClassUnavailable = "ClassesUnavailable"
	ReasonSizing           = "SizingPolicyNotMatched"
	ReasonSizingMatched    = "Matched"
)

// Classes are those that the manager knows, and its pools.
type Classes interface {
	// Class returns a class; nil if there is none of that name.
	Class(name string) *v1.VirtualMachineClass
	// DefaultClass returns that of new VMs; nil if there is none.
	DefaultClass() *v1.VirtualMachineClass
	// ClassesUnavailable says why classes are not known; "" if they are.
	ClassesUnavailable() string
	// LogsIn reports whether a pool logs in the users to whom it assigns VMs.
	LogsIn(pool string) bool
}

// ClassOf is what is known of a VM's class.
type ClassOf struct {
	// Name of the class; "" for a VM without one.
	Name string
	// Taken is what is in force: of a VM that is running, what it took when it started.
	Taken class.Taken
	// Obstacle says why nothing can be taken of the class.
	Obstacle Obstacle
	// Mismatch is how the VM violates the sizing policies; "" if it doesn't.
	Mismatch string
	// Changes would be those of a restart.
	Changes []v1.RestartAwaitingChange

	running bool // the VM keeps what it has taken
}

// Resolve returns a VM, whose definition is the one that its user wrote, with what its class
// gives it and the user whom its pool logs in, and what is known of that class. The pod and the ConfigMap may be nil.
// An error means that the VM and its class together can't be understood.
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

// findClass returns what is known of the class of a VM.
func findClass(vm *v1.VirtualMachine, pod *corev1.Pod, config *objects.Metadata, known Classes) (ClassOf, error) {
	var was class.Taken
	if config != nil {
		was, _ = class.ReadRecord(config.Annotations[objects.AnnotationClass]) // one that isn't ours says nothing
	}
	c := ClassOf{Name: vm.Spec.VirtualMachineClassName, running: config != nil && keepsClass(vm, pod)}
	isNew := config == nil && vm.Status.ObservedGeneration == 0
	switch preset := known.DefaultClass(); {
	case c.Name == "" && was.ByDefault:
		c.Name = was.Class
	case c.Name == "" && isNew && preset != nil:
		c.Name = preset.Name
	}
	next, obstacle := extract(c.Name, vm, known)
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
		c.Mismatch = class.Mismatch(of, vm)
	}
	var err error
	if c.running {
		c.Changes, err = objects.ClassChanges(vm, c.Taken, next)
	}
	return c, err
}

// keepsClass reports whether a VM keeps what it has taken of its class: it is running in its
// pod, or is about to. The next pod is another start.
func keepsClass(vm *v1.VirtualMachine, pod *corev1.Pod) bool {
	return pod != nil && !Terminating(pod) && !Stuck(pod) && OutcomeIn(vm, pod) == nil &&
		pod.Status.Phase != corev1.PodFailed && pod.Status.Phase != corev1.PodSucceeded
}

// extract returns what a VM takes of a class now.
func extract(name string, vm *v1.VirtualMachine, known Classes) (class.Taken, Obstacle) {
	if name == "" {
		return class.Taken{}, nil
	}
	if why := known.ClassesUnavailable(); why != "" {
		return class.Taken{}, Waiting{Reason: ReasonClassUnavailable, Message: fmt.Sprintf(
			"spec.virtualMachineClassName is %s: %s", name, why)}
	}
	of := known.Class(name)
	if of == nil {
		return class.Taken{}, Waiting{Reason: ReasonClassMissing, Message: fmt.Sprintf(
			"spec.virtualMachineClassName: there is no VirtualMachineClass %s (kubectl get vmclass)", name)}
	}
	if why := class.Usable(of); why != "" {
		return class.Taken{}, Waiting{Reason: ReasonClassNotReady, Message: fmt.Sprintf(
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
		did.Stop(Stalled{ReasonSizing, Readable(c.Mismatch)}, nil)
	}
	return did
}

// Follows reports whether the VM's configuration is to be as its definition says. A VM that
// violates the sizing policies stays as it is, and one that isn't running has none yet while
// its class is not known.
func (c ClassOf) Follows() bool { return c.Mismatch == "" && !c.waits() }

// waits reports whether it is not known what the VM gets from its class.
func (c ClassOf) waits() bool { return c.Obstacle != nil && !c.running }

// Frozen reports whether no pod must be started from the VM's definition. Where only the
// manager doesn't know the classes, the pod of a VM that is running may be replaced.
func (c ClassOf) Frozen() bool {
	o, waits := c.Obstacle.(Waiting)
	return c.Mismatch != "" || waits && !(c.running && o.Reason == ReasonClassUnavailable)
}

// inForce returns the name of the class that the VM has taken something of, or will.
func (c ClassOf) inForce() string { return cmp.Or(c.Taken.Class, c.Name) }

// verdict is the condition SizingPolicyMatched; zero for a VM without a class.
func (c ClassOf) verdict() Verdict {
	switch o, waits := c.Obstacle.(Waiting); {
	case c.Name == "":
		return Verdict{}
	case waits:
		return Verdict{metav1.ConditionUnknown, o.Reason, o.Message}
	case c.Mismatch != "":
		return Verdict{metav1.ConditionFalse, ReasonSizing, Readable(c.Mismatch)}
	}
	return Verdict{metav1.ConditionTrue, ReasonSizingMatched, ""}
}
