// Package influence finds the fields of the vm section that an argument of a plan depends on. It changes each field
// separately and computes the plan again.
//
// The result is valid for this VM. The package does not find a field that matters only in combination with another
// field. It reports a field as doubtful if no variant of the field has a plan.
package influence

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"vmop/vmspec"
	"vmop/vmtypes"
)

// A Field is a value of a vm section, with variants to try.
type Field struct {
	// Path is the path in the configuration: "vm.drives[0].file".
	Path string
	// Value is the printable value; "" if the field is not set.
	Value string
	// Variants are copies of the vm section with other values of the field.
	Variants []vmspec.Spec
}

// A Finding is a field on which an argument depends.
type Finding struct {
	// Path and Value describe the field.
	Path, Value string
	// Doubtful means that no variant has a plan.
	Doubtful bool
}

// Try returns the plans for vm sections as texts. A text is "" if there is no plan.
type Try func(specs []vmspec.Spec) ([]string, error)

// A Result contains the effect of each field on a plan.
type Result struct {
	fields []Field
	lines  [][]map[string]int // for each variant of a field; nil if there is no plan
}

// Study changes each field of a VM separately, including the options that the type declares.
func Study(spec vmspec.Spec, options []vmtypes.Option, try Try) (*Result, error) {
	r := &Result{fields: Fields(spec, options)}
	var all []vmspec.Spec
	for _, f := range r.fields {
		all = append(all, f.Variants...)
	}
	plans, err := try(all)
	if err != nil {
		return nil, err
	}
	if len(plans) != len(all) {
		return nil, fmt.Errorf("change fields of the VM: %d plans for %d variants", len(plans), len(all))
	}
	for _, f := range r.fields {
		var lines []map[string]int
		for range f.Variants {
			lines = append(lines, countLines(plans[0]))
			plans = plans[1:]
		}
		r.lines = append(r.lines, lines)
	}
	return r, nil
}

// Of returns the fields that a line of the plan depends on: with another value of the field, the plan contains the line
// less often. text is the whole plan.
func (r *Result) Of(line, text string) []Finding {
	line = strings.TrimSpace(line)
	times := countLines(text)[line]
	var found []Finding
	for i, f := range r.fields {
		tried := false
		for _, lines := range r.lines[i] {
			if lines == nil {
				continue
			}
			tried = true
			if lines[line] < times {
				found = append(found, Finding{Path: f.Path, Value: f.Value})
				break
			}
		}
		if !tried {
			found = append(found, Finding{Path: f.Path, Value: f.Value, Doubtful: true})
		}
	}
	return found
}

// countLines counts the lines of a plan, without indentation; nil for no plan.
func countLines(text string) map[string]int {
	if text == "" {
		return nil
	}
	lines := map[string]int{}
	for line := range strings.Lines(text) {
		lines[strings.TrimSpace(line)]++
	}
	return lines
}

// Fields returns all fields of a vm section, and the options of its type.
func Fields(spec vmspec.Spec, options []vmtypes.Option) []Field {
	w := &walker{spec: spec}
	w.walkValue("vm", nil, reflect.ValueOf(spec))
	names := slices.Collect(maps.Keys(spec.Options))
	values := map[string][]any{}
	for _, o := range options {
		names = append(names, o.Name)
		values[o.Name] = o.Values
		for _, limit := range []*int64{o.Minimum, o.Maximum} {
			if limit != nil {
				values[o.Name] = append(slices.Clip(values[o.Name]), *limit)
			}
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		w.tryOption(name, spec.Options[name], values[name])
	}
	return w.fields
}

// walker visits the values of a spec. Steps from the root lead to a value: indexes of struct fields and of list items.
type walker struct {
	spec   vmspec.Spec
	fields []Field
}

func (w *walker) walkValue(path string, steps []int, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			w.tryAbsent(path, steps, v.Type().Elem())
			return
		}
		w.walkValue(path, steps, v.Elem())
	case reflect.Struct:
		if len(steps) > 0 && fieldAt(&w.spec, steps).Kind() == reflect.Pointer {
			w.addTrial(path, "given", func(at reflect.Value) { at.SetZero() }, steps)
		}
		for i := range v.NumField() {
			w.walkValue(path+"."+v.Type().Field(i).Tag.Get("yaml"), append(slices.Clip(steps), i), v.Field(i))
		}
	case reflect.Slice:
		w.tryItems(path, steps, v)
		for i := range v.Len() {
			w.walkValue(fmt.Sprintf("%s[%d]", path, i), append(slices.Clip(steps), i), v.Index(i))
		}
	case reflect.Map: // Fields adds the options
	default:
		w.tryScalar(path, steps, v)
	}
}

// tryItems tries a list without its last item, and with its last item repeated. For an empty list, it tries one item.
func (w *walker) tryItems(path string, steps []int, v reflect.Value) {
	n := v.Len()
	if n == 0 {
		w.addTrial(path, "no items", func(at reflect.Value) {
			at.Set(reflect.Append(at.Slice(0, 0), reflect.New(v.Type().Elem()).Elem()))
		}, steps)
		return
	}
	value := "1 item"
	if n > 1 {
		value = strconv.Itoa(n) + " items"
	}
	w.addAll(path, value, []func(reflect.Value){
		func(at reflect.Value) { at.Set(at.Slice(0, n-1)) },
		func(at reflect.Value) { at.Set(reflect.Append(at.Slice(0, n), at.Index(n-1))) },
	}, steps)
}

// tryAbsent tries a value for a section or a number that is not set.
func (w *walker) tryAbsent(path string, steps []int, t reflect.Type) {
	w.addTrial(path, "", func(at reflect.Value) {
		value := reflect.New(t)
		if t.Kind() != reflect.Struct {
			changeValue(value.Elem())
		}
		at.Set(value)
	}, steps)
}

// tryScalar tries other values of a field that is set.
func (w *walker) tryScalar(path string, steps []int, v reflect.Value) {
	value := fmt.Sprint(v.Interface())
	if v.IsZero() && v.Kind() == reflect.String {
		value = ""
	}
	if others := alternativesOf(path); others != nil {
		var changes []func(reflect.Value)
		for _, other := range others {
			if other != v.String() {
				changes = append(changes, func(at reflect.Value) { at.SetString(other) })
			}
		}
		w.addAll(path, value, changes, steps)
		return
	}
	changes := []func(reflect.Value){changeValue}
	if !v.IsZero() {
		changes = append(changes, func(at reflect.Value) { at.SetZero() })
	}
	w.addAll(path, value, changes, steps)
}

// alternativesOf returns the other values of a text field with a fixed set of values.
func alternativesOf(path string) []string {
	switch key := path[strings.LastIndexByte(path, '.')+1:]; {
	case path == "vm.machineType":
		return []string{"pc-q35-7.2", "q35", "pc-i440fx-7.2", "pc", "microvm", "virt"}
	case path == "vm.firmware":
		return []string{"bios", "uefi-4m", "secure-4m", "uefi", "secure"}
	case path == "vm.accelerator":
		return []string{"tcg", "kvm", "none"}
	case key == "type" && strings.HasPrefix(path, "vm.network"):
		return []string{"user", "tap", "passt", "masquerade"}
	case key == "type" && strings.HasPrefix(path, "vm.drives"):
		return []string{"raw", "ide-cd"}
	case key == "format":
		return []string{"raw", "qcow2"}
	case key == "bus":
		return []string{"ide", "scsi"}
	case key == "streamingVideo":
		return []string{"off", "all", "filter"}
	case key == "protocol":
		return []string{"tcp", "udp"}
	}
	return nil
}

// changeValue returns a different number, string or bool.
func changeValue(at reflect.Value) {
	switch at.Kind() {
	case reflect.Pointer:
		changeValue(at.Elem())
	case reflect.Bool:
		at.SetBool(!at.Bool())
	case reflect.String:
		at.SetString(at.String() + "x")
	case reflect.Float64:
		at.SetFloat(at.Float() + 1)
	default: // whole numbers; the smallest unit of sizes is MiB
		step := int64(1)
		if at.Type() == reflect.TypeFor[vmspec.Bytes]() {
			step = int64(vmspec.MiB) * 2
		}
		at.SetInt(at.Int() + step)
	}
}

// valueText returns a value in the notation of a configuration, on one line.
func valueText(value any) string {
	switch value.(type) {
	case []any, map[string]any:
		if text, err := json.Marshal(value); err == nil {
			return string(text)
		}
	}
	return fmt.Sprint(value)
}

// tryOption tries other values of vm.options.NAME: the values that the type declares, and some values of each kind. A
// value that the type rejects has no plan.
func (w *walker) tryOption(name string, value any, declared []any) {
	f := Field{Path: "vm.options." + name}
	if value != nil {
		f.Value = valueText(value)
	}
	others := append(slices.Clip(declared), nil, true, false, int64(1), int64(2), "x", []any{"x"}, []any{},
		map[string]any{})
	switch v := value.(type) {
	case string:
		others = append([]any{v + "x"}, others...)
	case int64:
		others = append([]any{v + 1, v - 1}, others...)
	}
	for _, other := range others {
		if reflect.DeepEqual(other, value) {
			continue
		}
		variant := w.copySpec()
		if other == nil {
			delete(variant.Options, name)
		} else {
			variant.Options[name] = other
		}
		f.Variants = append(f.Variants, variant)
	}
	w.fields = append(w.fields, f)
}

func (w *walker) addTrial(path, value string, change func(reflect.Value), steps []int) {
	w.addAll(path, value, []func(reflect.Value){change}, steps)
}

func (w *walker) addAll(path, value string, changes []func(reflect.Value), steps []int) {
	f := Field{Path: path, Value: value}
	for _, change := range changes {
		variant := w.copySpec()
		at := fieldAt(&variant, steps)
		change(at)
		f.Variants = append(f.Variants, variant.WithDefaults()) // apply the defaults to added sections
	}
	w.fields = append(w.fields, f)
}

// copySpec returns a deep copy of the VM, to be changed.
func (w *walker) copySpec() vmspec.Spec {
	c := deepCopy(reflect.ValueOf(w.spec)).Interface().(vmspec.Spec)
	if c.Options == nil {
		c.Options = map[string]any{}
	}
	return c
}

// fieldAt returns the value at the end of the steps. If it is a pointer, fieldAt returns the pointer itself.
func fieldAt(spec *vmspec.Spec, steps []int) reflect.Value {
	v := reflect.ValueOf(spec).Elem()
	for _, step := range steps {
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.Kind() == reflect.Slice {
			v = v.Index(step)
		} else {
			v = v.Field(step)
		}
	}
	return v
}

// deepCopy copies everything behind pointers and slices. It shares options, because they are only replaced as a whole.
func deepCopy(v reflect.Value) reflect.Value {
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	switch {
	case v.Kind() == reflect.Pointer && !v.IsNil():
		c.Set(reflect.New(v.Type().Elem()))
		c.Elem().Set(deepCopy(v.Elem()))
	case v.Kind() == reflect.Slice && !v.IsNil():
		c.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			c.Index(i).Set(deepCopy(v.Index(i)))
		}
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			c.Field(i).Set(deepCopy(v.Field(i)))
		}
	case v.Kind() == reflect.Map && !v.IsNil():
		c.Set(reflect.MakeMap(v.Type()))
		for _, key := range v.MapKeys() {
			c.SetMapIndex(key, v.MapIndex(key))
		}
	}
	return c
}
