package class

import (
	"encoding/json"
	"fmt"

	v1 "vmop/api/v1"
)

// Taken contains what a VM takes from its class: the class's settings for VMs of this size. The zero Taken belongs
// to a VM without a class.
type Taken struct {
	// Class is the name of the class; "" without a class.
	Class string `json:"class,omitempty"`
	// ByDefault is set if the VM names no class.
	ByDefault bool `json:"byDefault,omitempty"`
	// CPUModel is the value of QEMU's option -cpu.
	CPUModel string `json:"cpuModel,omitempty"`
	// CoreFraction is the default fraction for VMs.
	CoreFraction v1.CoreFraction `json:"coreFraction,omitempty"`
	// VMType, NodeSelector, Tolerations and Defaults come from the class. NodeSelector also contains the node labels
	// for the CPU's features.
	VMType       *v1.VMType        `json:"vmType,omitempty"`
	NodeSelector *v1.NodeLabels    `json:"nodeSelector,omitempty"`
	Tolerations  []v1.Toleration   `json:"tolerations,omitempty"`
	Defaults     *v1.ClassDefaults `json:"defaults,omitempty"`
}

// Extract returns what a VM takes from a class. The class must be Usable.
func Extract(c *v1.VirtualMachineClass, vm *v1.VirtualMachine) Taken {
	s := &c.Spec
	t := Taken{
		Class: c.Name, ByDefault: vm.Spec.VirtualMachineClassName == "", CPUModel: cpuModel(c),
		VMType: s.VMType, NodeSelector: withFeatures(c), Tolerations: s.Tolerations, Defaults: s.Defaults,
	}
	if p := policyFor(s.SizingPolicies, limitsOf(vm).cores); p != nil {
		t.CoreFraction = defaultFraction(p)
	}
	return t
}

// Record returns the taken values as the text of an annotation, or "" without a class.
func (t Taken) Record() (string, error) {
	if t.Class == "" {
		return "", nil
	}
	text, err := json.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("write what was taken of class %s: %w", t.Class, err)
	}
	return string(text), nil
}

// ReadRecord is the inverse of Record. It returns an error if the text is not a record.
func ReadRecord(text string) (t Taken, err error) {
	if text == "" {
		return t, nil
	}
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return Taken{}, fmt.Errorf("read what was taken of a class: %w", err)
	}
	return t, nil
}

// Usable returns why VMs can't start with a class yet, or "" if they can.
func Usable(c *v1.VirtualMachineClass) string {
	if c.Spec.CPU.Type == v1.CPUDiscovery && (c.Status.CPUFeatures == nil || c.Status.ObservedGeneration == 0) {
		return "the features that its nodes have in common are not known: " + readyMessage(c)
	}
	return ""
}

// readyMessage returns why a class is not Ready, according to its status.
func readyMessage(c *v1.VirtualMachineClass) string {
	for _, condition := range c.Status.Conditions {
		if condition.Type == v1.ConditionReady && condition.Message != "" {
			return condition.Message
		}
	}
	return "no manager has looked for them yet"
}
