package vmtypes

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"vmop/vmspec"
)

// machineRecord is the vm section. In addition to its fields it has the method replace.
type machineRecord struct{ record }

// Attr implements starlark.HasAttrs.
func (m *machineRecord) Attr(name string) (starlark.Value, error) {
	if name == "replace" {
		return starlark.NewBuiltin("vm.replace", replaceFields).BindReceiver(m), nil
	}
	return m.record.Attr(name)
}

// replaceFields implements vm.replace(name = value, …). It returns a copy of the vm section with other values. It
// checks their names and types.
func replaceFields(
	_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	m := b.Receiver().(*machineRecord)
	if len(args) > 0 {
		return nil, errors.New("vm.replace: name the fields, as in vm.replace(firmware = \"bios\")")
	}
	copied := &machineRecord{record{name: m.name, names: m.names, values: slices.Clone(m.values)}}
	for _, pair := range kwargs {
		name := string(pair[0].(starlark.String))
		at, known := slices.BinarySearch(m.names, name)
		switch {
		case !known:
			return nil, fmt.Errorf("vm.replace: vm has no field %s%s", clipWord(name), didYouMean(name, m.names))
		case slices.Contains(sizeNames(), name):
			return nil, fmt.Errorf("vm.replace: %s belongs to the VM's size, which the runner and the cluster need, "+
				"too; define defaults(vm), which returns sizes: {%q: …}", name, name)
		}
		if must, not := typeFault(name, pair[1]); must != "" {
			return nil, fmt.Errorf("vm.replace: %s must be %s, not %s", name, must, withArticle(not))
		}
		copied.values[at] = pair[1]
	}
	return copied, nil
}

// typeFault returns what a field of the vm section must be, and the value of another type. must is "" if v is correct.
func typeFault(name string, v starlark.Value) (must string, not starlark.Value) {
	if name == optionsGlobal {
		switch v.(type) {
		case *optionsRecord, *starlarkstruct.Struct:
			return "", nil
		}
		return "vm.options or a struct", v
	}
	field, _ := reflect.TypeFor[vmspec.Spec]().FieldByNameFunc(func(f string) bool {
		of, _ := reflect.TypeFor[vmspec.Spec]().FieldByName(f)
		return attrName(of) == name
	})
	if field.Type.Kind() == reflect.Slice {
		return itemsFault("vm."+name, v)
	}
	return typeFaultOf("vm."+name, field.Type, v), v
}

func typeFaultOf(path string, t reflect.Type, v starlark.Value) (must string) {
	switch t.Kind() {
	case reflect.Bool:
		return unlessType[starlark.Bool](v, "True or False")
	case reflect.String:
		words := vmspec.Choices(path)
		if text, ok := v.(starlark.String); ok && words != nil && !slices.Contains(words, string(text)) {
			return "one of " + strings.Join(words, ", ")
		}
		return unlessType[starlark.String](v, "a string")
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return unlessType[starlark.Int](v, "a whole number")
	case reflect.Pointer:
		if v == starlark.None {
			return ""
		}
		return typeFaultOf(path, t.Elem(), v)
	}
	if r, ok := v.(configured); ok && r.path() == path {
		return ""
	}
	return "vm's own " + strings.TrimPrefix(path, "vm.") + ", or None"
}

// itemsFault is typeFault for a list of sections.
func itemsFault(path string, v starlark.Value) (must string, not starlark.Value) {
	list, ok := v.(starlark.Sequence)
	if !ok {
		return "a list of items of " + path, v
	}
	for item := range starlark.Elements(list) {
		if r, ok := item.(configured); !ok || r.Type() != path || r.path() == path {
			return "a list of items of " + path, item
		}
	}
	return "", nil
}

func unlessType[T starlark.Value](v starlark.Value, must string) string {
	if _, ok := v.(T); ok {
		return ""
	}
	return must
}
