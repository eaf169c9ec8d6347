package v1

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
)

// RestartAwaitingChange is a difference between the running VM and its definition.
type RestartAwaitingChange struct {
	// Path of the difference below spec, such as vm.disks[0]. The last one of too many is
	// called "...", and its desiredValue says how many more there are.
	Path string `json:"path"`
	// Operation: add, remove or replace.
	//
	// +kubebuilder:validation:Enum=add;remove;replace
	Operation string `json:"operation"`
	// CurrentValue is what the VM runs with: a number, a text, an object, as in spec. A long
	// one is the beginning of its JSON, as a text. Absent: there is none.
	//
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	CurrentValue *runtime.RawExtension `json:"currentValue,omitempty"`
	// DesiredValue is what it will run with after a restart.
	//
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	DesiredValue *runtime.RawExtension `json:"desiredValue,omitempty"`
}

// Values returns the values of a change as encoding/json decodes them; nil is none.
func (c RestartAwaitingChange) Values() (current, desired any) {
	return decoded(c.CurrentValue), decoded(c.DesiredValue)
}

func decoded(raw *runtime.RawExtension) (value any) {
	if raw == nil || json.Unmarshal(raw.Raw, &value) != nil {
		return nil
	}
	return value
}
