package class

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	v1 "vmop/api/v1"
)

// LockedFault describes how a VM sets options that its class locks. It returns "" if the VM complies.
func LockedFault(c *v1.VirtualMachineClass, vm *v1.VirtualMachine) string {
	own := optionsIn(vm.Spec.VM.Options)
	given := optionsIn(valueOf(c.Spec.Defaults).Options)
	var wrong []string
	for _, name := range c.Spec.LockedOptions {
		value, set := own[string(name)]
		fixed, inClass := given[string(name)]
		switch {
		case !set || inClass && reflect.DeepEqual(value, fixed):
		case inClass:
			wrong = append(wrong, fmt.Sprintf("spec.vm.options.%s is %s: class %s locks it to %s; remove it from the VM",
				name, shownValue(value), c.Name, shownValue(fixed)))
		default:
			wrong = append(wrong, fmt.Sprintf("spec.vm.options.%s is %s: class %s locks it to the default of the VM type; "+
				"remove it from the VM", name, shownValue(value), c.Name))
		}
	}
	return strings.Join(wrong, "; ")
}

// optionsIn returns options by name. The resource's schema ensures that they are an object.
func optionsIn(raw *runtime.RawExtension) (options map[string]any) {
	if raw != nil {
		_ = json.Unmarshal(raw.Raw, &options)
	}
	return options
}

// shownValue returns the value of an option for messages.
func shownValue(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v) // cannot happen: it came from JSON
	}
	return string(text)
}
