package objects

import (
	"encoding/json"
	"fmt"

	v1 "vmop/api/v1"
	"vmop/manager/class"
)

// classPath is how the paths of changes of a class begin: below it, they are paths in its spec.
const classPath = "virtualMachineClass."

// ClassChanges returns what a VM would get at its next start because its class has changed, or
// because it names another one: was is what the VM has taken, next what it would take now.
// What the VM says itself is no change.
func ClassChanges(vm *v1.VirtualMachine, was, next class.Taken) ([]v1.RestartAwaitingChange, error) {
	before, err := fromClass(vm, was)
	if err != nil {
		return nil, err
	}
	after, err := fromClass(vm, next)
	if err != nil {
		return nil, err
	}
	return differences(before, after), nil
}

// fromClass returns what a class can decide of a VM, by the path in the class.
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
		text, err := bounded(value)
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", path, err)
		}
		if text != nil {
			texts[path] = text
		}
	}
	return texts, nil
}
