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
