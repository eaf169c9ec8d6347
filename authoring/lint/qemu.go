package lint

import (
	"slices"
	"strings"

	"vmop/internal/spelling"
	"vmop/vmtypes/qemuopt"
)

// A QEMU is an installed QEMU that can be queried. Methods return nil for unavailable information.
type QEMU interface {
	// Name returns the name and version for messages: "QEMU 7.2.22".
	Name() string
	// Flags returns all options, with one dash.
	Flags() []string
	// Values returns the allowed first values of an option. For -device, these are the drivers.
	Values(flag string) []string
	// Properties returns the properties that an option with this value accepts.
	Properties(flag, value string) []string
}

// The rules that query QEMU.
const (
	unknownFlag     = "qemu-option"
	unknownValue    = "qemu-device"
	unknownProperty = "qemu-property"
)

// A complaint is a part of an option that the QEMU does not support. meant is the probable name, or "".
type complaint struct {
	rule, word, message, meant string
}

// complaintsOf returns the parts of an option that the QEMU does not support. The caller passes "" for an unknown
// value, and omits unknown keys.
func complaintsOf(qemu QEMU, flag, value string, keys []string) []complaint {
	if flags := qemu.Flags(); flags != nil && !slices.Contains(flags, "-"+strings.TrimLeft(flag, "-")) {
		return []complaint{{
			unknownFlag, flag, qemu.Name() + " has no option " + flag + didYouMean(flag, flags),
			spelling.Nearest(flag, flags),
		}}
	}
	if known := qemuopt.Exactly(flag, value); known != nil && known.OfHost {
		return nil
	}
	if values := qemu.Values(flag); value != "" && values != nil && !slices.Contains(values, value) {
		what := ""
		if known := qemuopt.Flag(flag); known != nil {
			what = known.Noun
		}
		return []complaint{{
			unknownValue, value,
			qemu.Name() + " has no " + what + " " + value + didYouMean(value, values),
			spelling.Nearest(value, values),
		}}
	}
	properties := qemu.Properties(flag, value)
	if properties == nil {
		return nil
	}
	var list []complaint
	for _, key := range keys {
		if !hasProperty(properties, flag, key) {
			list = append(list, complaint{
				unknownProperty, key,
				strings.TrimSpace(flag+" "+value) + " has no property " + key + " in " + qemu.Name() +
					didYouMean(key, properties),
				spelling.Nearest(key, properties),
			})
		}
	}
	return list
}

// hasProperty reports whether a key is a known property, or a part of a known property, such as "file.filename".
// Properties of -machine may be spelled with underscores.
func hasProperty(properties []string, flag, key string) bool {
	first, _, _ := strings.Cut(key, ".")
	return slices.ContainsFunc(properties, func(known string) bool {
		if flag == "-machine" {
			known, key, first = strings.ReplaceAll(known, "_", "-"), strings.ReplaceAll(key, "_", "-"),
				strings.ReplaceAll(first, "_", "-")
		}
		return known == key || known == first
	})
}

// unknownToQEMU finds parts of literal options that the QEMU does not support. It serves three rules, and only adds the
// findings of the current rule.
func unknownToQEMU(m *module) {
	if m.around.QEMU == nil || m.isTest() {
		return
	}
	for _, o := range m.optionCalls() {
		if o.flag == "" {
			continue
		}
		value, values := "", o.valueNode
		if values != nil {
			value, _ = literalText(values)
		}
		if o.flag == "-cpu" || o.flag == "-global" || o.props == nil && strings.Contains(value, ",") {
			continue // another notation or rule
		}
		var names []string
		for _, key := range literalKeys(o.props) {
			if name, ok := literalText(key); ok {
				names = append(names, name)
			}
		}
		if value == "" && values != nil && unlessNone(values) != nil {
			names = nil // the value is computed, so its properties are unknown
		}
		if o.flag == "-blockdev" && value == "" {
			continue
		}
		for _, c := range complaintsOf(m.around.QEMU, o.flag, value, names) {
			if c.rule != m.rule {
				continue
			}
			switch c.rule {
			case unknownFlag:
				if o.flagNode == nil { // a function of the vocabulary
					m.addFinding(o.call, c.message)
					continue
				}
				m.addRepairable(o.flagNode, c.message, replaceText(o.flagNode, c.meant))
			case unknownValue:
				m.addRepairable(o.valueNode, c.message, replaceText(o.valueNode, c.meant))
			case unknownProperty:
				for _, key := range literalKeys(o.props) {
					if name, _ := literalText(key); name == c.word {
						m.addRepairable(key, c.message, replaceText(key, c.meant))
					}
				}
			}
		}
	}
}
