package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"vmop/vmtypes/qemuopt"
)

// Structured returns an option of QEMU with one dash and its properties one by one,
// however it is spelled: a type may write -drive file=a,if=none as one text, or the
// properties as JSON. Text that is no JSON object is returned as it is.
func (o Option) Structured() Option {
	known := qemuopt.Flag(o.Flag)
	if known == nil {
		return o
	}
	o.Flag = known.Flag // with one dash
	if o.List || o.Value == "" || !known.List {
		return o
	}
	if strings.HasPrefix(o.Value, "{") {
		return o.fromJSON()
	}
	value, pairs := qemuopt.Parse(o.Value)
	o.List, o.Value, o.Properties = true, value, nil
	for _, p := range pairs {
		o.Properties = append(o.Properties, Property{Key: p.Key, Value: p.Value})
	}
	return o
}

// fromJSON takes the properties out of -device {"driver": …}. Objects within are
// spelled with dots, as QEMU's own lists have them.
func (o Option) fromJSON() Option {
	var object map[string]any
	if json.Unmarshal([]byte(o.Value), &object) != nil {
		return o
	}
	o.List, o.Value, o.Properties = true, "", nil
	o.flatten("", object)
	if o.Flag == "-blockdev" {
		return o // its driver is a property as others
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

func (o *Option) flatten(prefix string, object map[string]any) {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		o.add(prefix+key, object[key])
	}
}

func (o *Option) add(key string, value any) {
	switch v := value.(type) {
	case map[string]any:
		o.flatten(key+".", v)
	case []any:
		for i, element := range v {
			o.add(key+"."+strconv.Itoa(i), element)
		}
	case string:
		o.Properties = append(o.Properties, Property{Key: key, Value: v})
	case bool:
		o.Properties = append(o.Properties, Property{Key: key, Value: map[bool]string{true: "on", false: "off"}[v]})
	case nil: // as if it weren't there
	default: // a number
		text, _ := json.Marshal(v) // it has just been read
		o.Properties = append(o.Properties, Property{Key: key, Value: string(text)})
	}
}

// options returns the arguments with their properties one by one.
func (p Process) options() []Option {
	list := slices.Clone(p.Args)
	for i := range list {
		list[i] = list[i].Structured()
	}
	return list
}

// Backend returns the backend or driver that a structured option names: its first
// value, or the property that QEMU takes the first value for.
func (o Option) Backend() string {
	known := qemuopt.Flag(o.Flag)
	if o.Value != "" || known == nil || known.Implied == "" {
		return o.Value
	}
	backend, _ := o.Get(known.Implied)
	return backend
}
