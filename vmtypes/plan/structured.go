package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"vmop/vmtypes/qemuopt"
)

// Structured returns an option of QEMU with one dash and with separate properties, independent of its notation: a
// type may write -drive file=a,if=none as one text, or the properties as JSON. Invalid JSON is returned
// unchanged.
func (o Option) Structured() Option {
	known := qemuopt.Flag(o.Flag)
	if known == nil {
		return o
	}
	o.Flag = known.Flag // with one dash
	if o.List || o.Value == "" || !known.List {
		return o
	}
	if isJSON(&o) {
		return o.fromJSON()
	}
	value, pairs := qemuopt.Parse(o.Value)
	o.List, o.Value, o.Properties = true, value, nil
	for _, p := range pairs {
		o.Properties = append(o.Properties, Property{Key: p.Key, Value: p.Value})
	}
	return o
}

// isJSON reports whether a type wrote the properties of an option as JSON.
func isJSON(o *Option) bool { return !o.List && strings.HasPrefix(o.Value, "{") }

// fromJSON extracts the properties of -device {"driver": …}. Properties of nested objects have names with dots,
// like in QEMU's own lists.
func (o Option) fromJSON() Option {
	var object map[string]any
	if json.Unmarshal([]byte(o.Value), &object) != nil {
		return o
	}
	o.List, o.Value, o.Properties = true, "", nil
	o.flattenObject("", object)
	if o.Flag == "-blockdev" {
		return o // its driver is an ordinary property
	}
	kind := qemuopt.Flag(o.Flag).Implied
	for i, p := range o.Properties {
		if p.Key == kind {
			o.Value = p.Value
			o.Properties = slices.Delete(o.Properties, i, i+1)
			break
		}
	}
	return o
}

func (o *Option) flattenObject(prefix string, object map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		o.addProperty(prefix+key, object[key])
	}
}

func (o *Option) addProperty(key string, value any) {
	switch v := value.(type) {
	case map[string]any:
		o.flattenObject(key+".", v)
	case []any:
		for i, element := range v {
			o.addProperty(key+"."+strconv.Itoa(i), element)
		}
	case string:
		o.Properties = append(o.Properties, Property{Key: key, Value: v})
	case bool:
		o.Properties = append(o.Properties, Property{Key: key, Value: map[bool]string{true: "on", false: "off"}[v]})
	case nil: // treated as missing
	default: // a number
		text, _ := json.Marshal(v) // it has just been decoded
		o.Properties = append(o.Properties, Property{Key: key, Value: string(text)})
	}
}

// expandOptions returns the arguments as structured options.
func (p Process) expandOptions() []Option {
	list := slices.Clone(p.Args)
	for i := range list {
		list[i] = list[i].Structured()
	}
	return list
}

// Backend returns the backend or driver of a structured option: its first value, or the property with the same
// meaning as the first value.
func (o Option) Backend() string {
	known := qemuopt.Flag(o.Flag)
	if o.Value != "" || known == nil || known.Implied == "" {
		return o.Value
	}
	backend, _ := o.Get(known.Implied)
	return backend
}
