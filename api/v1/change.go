package v1

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
)

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
