package objects

import (
	"encoding/json"
	"fmt"

	v1 "vmop/api/v1"
	"vmop/manager/vm/class"
)

// classPath is the prefix of paths of class changes. The rest is a path in the class's spec.
const classPath = "virtualMachineClass."

// ClassChanges returns the changes that a VM would receive at its next start because its class has changed or it
// names another class. was is what the VM has taken from its class, and next is what it would take now. Fields that
// the VM itself sets are excluded.
func ClassChanges(vm *v1.VirtualMachine, was, next class.Taken) ([]v1.RestartAwaitingChange, error) {
	before, err := fromClass(vm, was)
	if err != nil {
		return nil, err
	}
	after, err := fromClass(vm, next)
	if err != nil {
		return nil, err
	}
	return definitionChanges(before, after), nil
}

// fromClass returns the VM's values that a class can determine, by path in the class.
func fromClass(vm *v1.VirtualMachine, taken class.Taken) (map[string]json.RawMessage, error) {
	resolved, err := class.Resolve(vm, taken)
	if err != nil {
		return nil, fmt.Errorf("compare what is taken of class %s: %w", taken.Class, err)
	}
	s, m := &resolved.Spec, &resolved.Spec.VM
	texts := map[string]json.RawMessage{}
	for path, value := range map[string]any{
		"virtualMachineClassName":               taken.Class,
		classPath + "cpu":                       m.CPUModel,
		classPath + "defaults.accelerator":      m.Accelerator,
		classPath + "defaults.bootMenu":         m.BootMenu,
		classPath + "defaults.display":          m.Display,
		classPath + "defaults.firmware":         m.Firmware,
		classPath + "defaults.networks":         m.Networks,
		classPath + "defaults.options":          m.Options,
		classPath + "defaults.powerdownTimeout": m.PowerdownTimeout,
		classPath + "defaults.rtcBase":          m.RTCBase,
		classPath + "defaults.rtcClock":         m.RTCClock,
		classPath + "defaults.useTpm":           m.UseTPM,
		classPath + "nodeSelector":              s.Affinity,
		classPath + "sizingPolicies":            s.CPU,
		classPath + "tolerations":               s.Tolerations,
		classPath + "vmType":                    s.VMType,
	} {
		text, err := boundedJSON(value)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", path, err)
		}
		if text != nil {
			texts[path] = text
		}
	}
	return texts, nil
}
