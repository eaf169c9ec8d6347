package k8s

import (
	"encoding/json"
	"fmt"

	"vmop/internal/printable"
)

// Limits that keep the resource small, because the guest controls much of it. The resource's own limits are
// wider.
const (
	longestText    = 1024 // characters of a message
	longestValue   = 128  // of a name or a value
	longestJSON    = 512  // bytes of the JSON of a structured value
	mostInterfaces = 32
	mostAddresses  = 16 // of one interface
	mostPorts      = 256
	mostPending    = 64
	longestNote    = 250 // of an event; the API server allows 1024 bytes
)

// cleanText returns a printable text of at most this many characters.
func cleanText(s string, most int) string { return printable.Text(printable.Clip(s, most)) }

// cleanMessage cleans a message of the runner, with paths of the resource.
func cleanMessage(s string, most int) string {
	return cleanText(InResource(printable.Clip(s, most)), most)
}

// inWords returns a value of the configuration as a text.
func inWords(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return cleanText(v, longestValue)
	case map[string]any, []any:
		if text, err := json.Marshal(v); err == nil {
			return cleanText(string(text), longestValue)
		}
	}
	return cleanText(fmt.Sprint(v), longestValue)
}

// boundValue returns a value of the configuration in the form of the resource. A value that is too long becomes a
// text with the beginning of its JSON.
func boundValue(v any) any {
	v = cleanValue(v)
	text, err := json.Marshal(v)
	switch {
	case err != nil: // a number that JSON lacks
		return cleanText(fmt.Sprint(v), longestValue)
	case len(text) > longestJSON:
		return cleanText(string(text), longestValue)
	}
	return v
}

// cleanValue returns a value with only printable texts.
func cleanValue(v any) any {
	switch v := v.(type) {
	case string:
		return cleanText(v, longestValue)
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = cleanValue(v[i])
		}
		return all
	case map[string]any:
		all := make(map[string]any, len(v))
		for key, value := range v {
			all[cleanText(key, longestValue)] = cleanValue(value)
		}
		return all
	}
	return v
}

// formatQuantity formats a number of bytes like the API server (BinarySI of k8s.io/apimachinery/pkg/api/resource):
// "1536Mi".
func formatQuantity(bytes int64) string {
	unit := 0
	for bytes != 0 && bytes%1024 == 0 && unit < len(binaryUnits)-1 {
		bytes, unit = bytes/1024, unit+1
	}
	return fmt.Sprintf("%d%s", bytes, binaryUnits[unit])
}

var binaryUnits = [...]string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
