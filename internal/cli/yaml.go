package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// toYAML converts a JSON document to YAML 1.2, with the members in the same order.
func toYAML(text []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	w := &yamlWriter{in: dec}
	if err := w.writeValue("", ""); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("write YAML: more than one JSON document")
	}
	return w.out.Bytes(), nil
}

type yamlWriter struct {
	in  *json.Decoder
	out bytes.Buffer
}

// writeValue writes the next value. lead separates it from the preceding text on the same line: it is "" at the
// beginning of a line or in a list, and " " after the name of a member. Further lines of the value begin with indent.
func (w *yamlWriter) writeValue(lead, indent string) error {
	token, err := w.in.Token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case json.Delim:
		if !w.in.More() {
			w.out.WriteString(lead + map[json.Delim]string{'{': "{}", '[': "[]"}[t] + "\n")
		} else if err := w.writeMembers(t, lead, indent); err != nil {
			return err
		}
		_, err := w.in.Token() // the closing delimiter
		return err
	case string:
		w.out.WriteString(lead + yamlScalar(t) + "\n")
	case nil:
		w.out.WriteString(lead + "null\n")
	default: // bool and json.Number
		fmt.Fprintf(&w.out, "%s%v\n", lead, t)
	}
	return nil
}

// writeMembers writes the members of an object or list that isn't empty.
func (w *yamlWriter) writeMembers(kind json.Delim, lead, indent string) error {
	first := lead == "" // the first member begins on the current line
	if !first {
		w.out.WriteString("\n")
	}
	for w.in.More() {
		if !first {
			w.out.WriteString(indent)
		}
		first = false
		if kind == '[' {
			w.out.WriteString("- ")
			if err := w.writeValue("", indent+"  "); err != nil {
				return err
			}
			continue
		}
		key, err := w.in.Token()
		if err != nil {
			return err
		}
		w.out.WriteString(yamlScalar(key.(string)) + ":")
		if err := w.writeValue(" ", indent+"  "); err != nil {
			return err
		}
	}
	return nil
}

// yamlScalar returns a string as YAML: plain if that is unambiguous, otherwise in the quotes of JSON, which are valid
// YAML.
func yamlScalar(s string) string {
	if plainScalar(s) {
		return s
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // strings have a JSON form
	}
	var b strings.Builder
	for _, r := range string(text) {
		if r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&b, "\\u%04x", r) // YAML allows these only in escapes
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

func plainScalar(s string) bool {
	switch strings.ToLower(s) {
	case "", "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return false
	}
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || r == '/'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789.-", r)) {
			return false
		}
	}
	return true
}
