package v1

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
)

// RestartAwaitingChange is a difference between the running VM and its definition.
type RestartAwaitingChange struct {
	// Path of the changed field below spec, such as vm.disks[0]. If the list is cut off, the path
	// of its last entry is "..." and its desiredValue is the number of omitted changes.
	Path string `json:"path"`
	// Kind of change: add, remove or replace.
	//
	// +kubebuilder:validation:Enum=add;remove;replace
	Operation string `json:"operation"`
	// Value that the VM is running with: a number, a string or an object, as in spec. A long value
	// is shown as a string with the beginning of its JSON. Unset if the field has no value.
	//
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	CurrentValue *runtime.RawExtension `json:"currentValue,omitempty"`
	// Value that the VM will run with after a restart. Unset if the restart removes the value.
	//
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	DesiredValue *runtime.RawExtension `json:"desiredValue,omitempty"`
}

// Values returns the values of a change as encoding/json decodes them; nil means no value.
func (c RestartAwaitingChange) Values() (current, desired any) {
	return decodeRaw(c.CurrentValue), decodeRaw(c.DesiredValue)
}

func decodeRaw(raw *runtime.RawExtension) (value any) {
	if raw == nil || json.Unmarshal(raw.Raw, &value) != nil {
		return nil
	}
	return value
}
