package introspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A property is QEMU's description of a property. All fields except Name may be empty.
type property struct {
	Name        string `json:"name"`
	Type        string `json:"type,omitempty"`
	Description string `json:"description,omitempty"`
	Default     string `json:"default,omitempty"`
}

// answeredProperty is a property in the answers of device-list-properties and qom-list-properties.
type answeredProperty struct {
	Name, Type, Description string
	Default                 json.RawMessage `json:"default-value"`
}

func (p answeredProperty) asProperty() property {
	return property{p.Name, p.Type, p.Description, string(bytes.Trim(p.Default, `"`))}
}

func named(names ...string) []property {
	list := make([]property, len(names))
	for i, name := range names {
		list[i].Name = name
	}
	return list
}

// longestHelp is the maximum length of a description, in bytes.
const longestHelp = 4 << 10

// Help returns QEMU's description of an option, of its value or, if key is not empty, of a property of an option
// with this value. The text is Markdown. It is empty without a description.
func (q *QEMU) Help(flag, value, key string) string {
	if key == "" {
		return q.valueHelp(flag, value)
	}
	list := q.propertiesOf(flag, value)
	i := slices.IndexFunc(list, func(p property) bool { return p.Name == key })
	if i < 0 {
		return ""
	}
	p, text := list[i], "```\n"+key
	if p.Type != "" {
		text += ": " + p.Type
	}
	text += "\n```"
	if p.Description != "" {
		text += "\n" + p.Description
	}
	if p.Default != "" {
		text += fmt.Sprintf("\n\nDefault: `%s`.", p.Default)
	}
	return text + "\n\n*" + strings.TrimSpace(flag+" "+value) + ", " + q.Name() + "*"
}

// valueHelp returns the description of an option or, if value is not empty, of its value.
func (q *QEMU) valueHelp(flag, value string) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	if real, ok := q.known.Aliases[flag][value]; ok {
		value = real
	}
	subject := strings.TrimSpace(flag + " " + value)
	text := q.known.Help[subject]
	switch {
	case text == "" && (value == "" || !slices.Contains(q.known.Values[flag], value)):
		return ""
	case text == "":
		text = "```\n" + subject + "\n```"
	}
	return text + "\n\n*" + q.Name() + "*"
}

// parseHelp returns the descriptions in the output of "-help", as code: of each option, "-netdev", and of each value
// that a line begins with, "-netdev user".
func parseHelp(help string) map[string]string {
	blocks := map[string]string{}
	add := func(name, block string) {
		if name != "" && len(blocks[name])+len(block) < longestHelp {
			blocks[name] += block
		}
	}
	block, names := "", []string(nil)
	flush := func() {
		for _, name := range names {
			add(name, block)
		}
		block, names = "", nil
	}
	for line := range strings.Lines(help) {
		switch {
		case strings.HasPrefix(line, "-"):
			flush()
			block, names = line, blockNames(line)
		case strings.TrimSpace(line) == "":
			flush()
		default:
			block += line
		}
	}
	flush()
	for name, text := range blocks {
		blocks[name] = "```\n" + text + "```"
	}
	return blocks
}

// blockNames returns the options that a line of "-help" begins with, and the option with its value.
func blockNames(line string) []string {
	names := parseFlags(line)
	words := strings.Fields(line)
	if len(words) < 2 || len(names) != 1 {
		return names
	}
	value := words[1][:strings.IndexFunc(words[1]+",", func(r rune) bool {
		return r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})]
	if value != "" && words[1] != value { // "-netdev user[,…]", but not "-m size"
		names = append(names, names[0]+" "+value)
	}
	return names
}

// deviceHelp returns the descriptions in the output of "-device help".
func deviceHelp(help string) map[string]string {
	descriptions := map[string]string{}
	for line := range strings.Lines(help) {
		name := quotedAfter(line, "name ")
		if name == "" {
			continue
		}
		text := "```\n-device " + name + "\n```\n" + quotedAfter(line, "desc ")
		if _, bus, ok := strings.Cut(line, ", bus "); ok {
			bus, _, _ = strings.Cut(strings.TrimSpace(bus), ",")
			text += "\n\nBus: " + bus + "."
		}
		descriptions["-device "+name] = text
	}
	return descriptions
}

// machineHelp returns the descriptions in the output of "-machine help". Each line is a name and a description.
func machineHelp(help string) map[string]string {
	descriptions := map[string]string{}
	for line := range strings.Lines(help) {
		name, text, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && !strings.HasSuffix(strings.TrimSpace(line), ":") {
			descriptions["-machine "+name] = "```\n-machine " + name + "\n```\n" + strings.TrimSpace(text)
		}
	}
	return descriptions
}

// schemaTypeName returns a type of the QMP schema for readers: "str", "native|threads".
func schemaTypeName(types map[string]schemaType, name string) string {
	switch t := types[name]; t.MetaType {
	case "enum":
		return strings.Join(t.Values, "|")
	case "array":
		return "list of " + schemaTypeName(types, t.Element)
	case "builtin":
		return name
	default:
		return t.MetaType
	}
}
