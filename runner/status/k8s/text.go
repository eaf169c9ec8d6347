package k8s

import (
	"encoding/json"
	"fmt"

	"vmop/printable"
)

// Bounds of what is written, so that the resource stays small: much of it is a
// guest's word. The resource itself allows more of everything.
const (
	longestText    = 1024 // characters of a message
	longestValue   = 128  // of a name or a value
	longestJSON    = 512  // bytes of the JSON of a value that has parts
	mostInterfaces = 32
	mostAddresses  = 16 // of one interface
	mostPorts      = 256
	mostPending    = 64
	longestNote    = 250 // of an event; the API server allows 1024 bytes
)

// clean makes a text one that can be shown, of at most so many characters.
func clean(s string, most int) string { return printable.Text(printable.Clip(s, most)) }

// said is clean for a message of the runner's.
func said(s string, most int) string {
	return clean(InResource(printable.Clip(s, most)), most)
}

// inWords returns a value of the configuration as a text.
func inWords(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return clean(v, longestValue)
	case map[string]any, []any:
		if text, err := json.Marshal(v); err == nil {
			return clean(string(text), longestValue)
		}
	}
	return clean(fmt.Sprint(v), longestValue)
}

// bounded returns a value of the configuration as it is written into the resource: what is too
// long is the beginning of its JSON, as a text.
func bounded(v any) any {
	v = cleaned(v)
	text, err := json.Marshal(v)
	switch {
	case err != nil: // a number that JSON does not have
		return clean(fmt.Sprint(v), longestValue)
	case len(text) > longestJSON:
		return clean(string(text), longestValue)
	}
	return v
}

// cleaned returns a value all texts of which can be shown.
func cleaned(v any) any {
	switch v := v.(type) {
	case string:
		return clean(v, longestValue)
	case []any:
		all := make([]any, len(v))
		for i := range v {
			all[i] = cleaned(v[i])
		}
		return all
	case map[string]any:
		all := make(map[string]any, len(v))
		for key, value := range v {
			all[clean(key, longestValue)] = cleaned(value)
		}
		return all
	}
	return v
}

// quantity writes a number of bytes as the API server does (BinarySI of
// k8s.io/apimachinery/pkg/api/resource): "1536Mi".
func quantity(bytes int64) string {
	unit := 0
	for bytes != 0 && bytes%1024 == 0 && unit < len(binaryUnits)-1 {
		bytes, unit = bytes/1024, unit+1
	}
	return fmt.Sprintf("%d%s", bytes, binaryUnits[unit])
}

var binaryUnits = [...]string{"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"}
