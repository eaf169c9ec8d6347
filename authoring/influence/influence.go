// Package influence finds the fields of the vm section that an argument of a plan depends
// on, by trial: each field is changed on its own, and the plan computed again.
//
// The result holds for this VM: a field that matters only in combination with another is not
// found. A field with which no plan could be made is reported as doubtful.
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

// A Field is one value of a vm section, and variants to try.
type Field struct {
	// Path as in the configuration: "vm.drives[0].file".
	Path string
	// Value for people; "" if there is none.
	Value string
	// Variants are copies of the vm section with another value.
	Variants []vmspec.Spec
}

// A Finding is a field on which an argument depends.
type Finding struct {
	// Path and Value of the field.
	Path, Value string
	// Doubtful says that no variant has a plan.
	Doubtful bool
}

// Try returns the plans of vm sections as texts; "" where there is none.
type Try func(specs []vmspec.Spec) ([]string, error)

// A Result has the effect of each field on a plan.
type Result struct {
	fields []Field
	lines  [][]map[string]int // of each field's variants; nil: no plan
}

// Study changes each field of a VM by itself, the options that the type declares
// included.
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

// Of returns the fields on which a line of the plan depends, of which text is the
// whole: with another value it would not be there, or not so often.
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

// walker visits the values of a spec. A value is reached by steps from the root:
// numbers of struct fields and of items.
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
	case reflect.Map: // the options, for which see Fields
	default:
		w.tryScalar(path, steps, v)
	}
}

// tryItems tries a list with one item less, with the last one twice, or with one.
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

// tryAbsent tries a section or a number that is not set.
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

// alternativesOf are the other values of texts that are a choice.
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
	default: // whole numbers; sizes are in MiB at the least
		step := int64(1)
		if at.Type() == reflect.TypeFor[vmspec.Bytes]() {
			step = int64(vmspec.MiB) * 2
		}
		at.SetInt(at.Int() + step)
	}
}

// valueText is a value as a configuration would have it, on one line.
func valueText(value any) string {
	switch value.(type) {
	case []any, map[string]any:
		if text, err := json.Marshal(value); err == nil {
			return string(text)
		}
	}
	return fmt.Sprint(value)
}

// tryOption tries other values of vm.options.NAME: those that the type declares, and
// some of each kind. A value that the type doesn't take makes no plan.
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
		f.Variants = append(f.Variants, variant.WithDefaults()) // what was added has its defaults
	}
	w.fields = append(w.fields, f)
}

// copySpec returns the VM for changing it: nothing in it is shared.
func (w *walker) copySpec() vmspec.Spec {
	c := deepCopy(reflect.ValueOf(w.spec)).Interface().(vmspec.Spec)
	if c.Options == nil {
		c.Options = map[string]any{}
	}
	return c
}

// fieldAt returns the value that steps lead to; a pointer itself if they end there.
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

// deepCopy copies what pointers and slices lead to; options are replaced as a
// whole where they change.
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
