package introspect

import (
	"slices"
	"strings"
)

// parseFlags returns the options in the output of "-help". A line that begins with a dash contains one or several
// options: "-h or -help" or "-fda/-fdb file".
func parseFlags(help string) []string {
	var list []string
	for line := range strings.Lines(help) {
		words := strings.Fields(line)
		for i, word := range words {
			if i > 0 && (i < 2 || words[i-1] != "or") {
				continue
			}
			for name := range strings.SplitSeq(word, "/") {
				if len(name) > 1 && strings.HasPrefix(name, "-") && strings.HasPrefix(line, "-") &&
					!slices.Contains(list, name) {
					list = append(list, name)
				}
			}
		}
	}
	slices.Sort(list)
	return list
}

// parseDevices returns the names and aliases in the output of "-device help". Its lines contain name "x" and sometimes
// alias "y".
func parseDevices(help string) (list []string, aliases map[string]string) {
	aliases = map[string]string{}
	for line := range strings.Lines(help) {
		name, alias := quotedAfter(line, "name "), quotedAfter(line, "alias ")
		if name == "" {
			continue
		}
		list = append(list, name)
		if alias != "" {
			list = append(list, alias)
			aliases[alias] = name
		}
	}
	slices.Sort(list)
	return list, aliases
}

// quotedAfter returns the quoted text after a word, or "".
func quotedAfter(line, word string) string {
	_, rest, ok := strings.Cut(line, word+"\"")
	if !ok {
		return ""
	}
	text, _, _ := strings.Cut(rest, "\"")
	return text
}

// described maps options to the QMP commands with the same properties, which the QMP schema describes.
var described = map[string]struct{ command, tag string }{
	"-netdev":   {"netdev_add", "type"},
	"-blockdev": {"blockdev-add", "driver"},
}

// schemaType is an entry of query-qmp-schema; see QEMU's qapi/introspect.json.
type schemaType struct {
	Name     string
	ArgType  string `json:"arg-type"`
	MetaType string `json:"meta-type"`
	Element  string `json:"element-type"`
	Values   []string
	Members  []struct{ Name, Type string }
	Variants []struct{ Case, Type string }
}

func (q *QEMU) loadSchema() error {
	var answer []schemaType
	if err := q.runQuery("query-qmp-schema", nil, &answer); err != nil {
		return err
	}
	types := map[string]schemaType{}
	for _, t := range answer {
		types[t.Name] = t
	}
	for flag, d := range described {
		arguments := types[types[d.command].ArgType]
		if len(arguments.Variants) == 0 {
			continue // the schema of this QEMU has another structure
		}
		variants := map[string][]property{}
		for _, v := range arguments.Variants {
			list := []property{}
			for _, m := range append(slices.Clone(arguments.Members), types[v.Type].Members...) {
				list = append(list, property{Name: m.Name, Type: schemaTypeName(types, m.Type)})
			}
			variants[v.Case] = list
			q.known.Values[flag] = append(q.known.Values[flag], v.Case)
		}
		slices.Sort(q.known.Values[flag])
		q.known.Variants[flag] = variants
	}
	return nil
}
