package vmtypes

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"

	"go.starlark.net/starlark"

	"vmop/vmspec"
)

// defaultsGlobal is the name of a type's function that decides sizes.
const defaultsGlobal = "defaults"

// sizeNames returns the names of the fields of vmspec.Sizes.
func sizeNames() []string {
	var list []string
	for i := range reflect.TypeFor[vmspec.Sizes]().NumField() {
		list = append(list, attrName(reflect.TypeFor[vmspec.Sizes]().Field(i)))
	}
	return list
}

// MayDecideSizes reports whether a module or an archive with this text can define defaults. It does not parse the text.
func MayDecideSizes(text string) bool {
	return regexp.MustCompile(`(?m)^(def ` + defaultsGlobal + `\b|` + defaultsGlobal + `\s*=)`).MatchString(text)
}

// Sizes returns the sizes that the type decides in its function defaults(vm), for a vm section as the user wrote it.
// The result is zero without such a function, or if the section contains all sizes. If the type rejects fields, the
// error is a *FieldsError.
//
// The function returns a dict such as {"maximumRam": 8 << 30}. It does not know the host, because the manager reserves
// in the cluster what a runner starts on any node. See docs/decisions/0191-types-decide-sizes.md.
func (t *Type) Sizes(ctx context.Context, spec vmspec.Spec, files Files) (vmspec.Sizes, error) {
	if t.defaults == nil || spec.Sizes().AreComplete() {
		return vmspec.Sizes{}, nil
	}
	options, err := t.options.readOptions(limitedCaller(ctx), t.records, t.name, spec.Options, files)
	if err != nil {
		return vmspec.Sizes{}, err
	}
	return t.sizesWith(ctx, spec, options.value)
}

// sizesWith implements Sizes for the value of vm.options.
func (t *Type) sizesWith(ctx context.Context, spec vmspec.Spec, options starlark.Value) (vmspec.Sizes, error) {
	return t.decideSizes(spec, options, func(fn starlark.Callable, args ...starlark.Value) (starlark.Value, error) {
		return t.callFunction(ctx, fn, args...)
	})
}

// decideSizes calls defaults, if necessary. call calls a function of the type.
func (t *Type) decideSizes(spec vmspec.Spec, options starlark.Value,
	call func(fn starlark.Callable, args ...starlark.Value) (starlark.Value, error),
) (vmspec.Sizes, error) {
	if t.defaults == nil || spec.Sizes().AreComplete() {
		return vmspec.Sizes{}, nil
	}
	vm := t.records.vmRecord(t.withClock(spec.WithOtherDefaults()), options)
	vm.clearSizes(spec.Sizes())
	result, err := call(t.defaults, vm)
	if err != nil {
		return vmspec.Sizes{}, err
	}
	sizes, message := sizesOf(result)
	if message != "" {
		err = fmt.Errorf("VM type %s: %w", t.name, errorAt(t.defaults.Position(), message, nil, nil, t.sourceOf))
	}
	return sizes, err
}

// clearSizes sets absent sizes to None.
func (m *machineRecord) clearSizes(given vmspec.Sizes) {
	for i, name := range sizeNames() {
		if reflect.ValueOf(given).Field(i).IsZero() {
			at, _ := slices.BinarySearch(m.names, name)
			m.values[at] = starlark.None
		}
	}
}

// sizesOf reads the result of defaults. message is "" if it is correct.
func sizesOf(result starlark.Value) (sizes vmspec.Sizes, message string) {
	dict, ok := result.(*starlark.Dict)
	if !ok {
		return sizes, "defaults must return a dict such as {\"maximumRam\": 8 << 30}, not " + withArticle(result)
	}
	names := sizeNames()
	for key, v := range dict.Entries() {
		name, _ := starlark.AsString(key)
		at := slices.Index(names, name)
		if at < 0 {
			return sizes, fmt.Sprintf("defaults returns %s, but must return sizes only%s", key, didYouMean(name, names))
		}
		field := reflect.ValueOf(&sizes).Elem().Field(at)
		number, message := sizeOf(field.Interface(), v)
		if message != "" {
			return sizes, "defaults: " + name + " " + message
		}
		field.SetInt(number)
	}
	switch {
	case sizes.MaximumCPUs != 0 && sizes.CurrentCPUs > sizes.MaximumCPUs:
		return sizes, fmt.Sprintf("defaults: currentCpus is %d, more than maximumCpus, %d", sizes.CurrentCPUs,
			sizes.MaximumCPUs)
	case sizes.MaximumRAM != 0 && sizes.CurrentRAM > sizes.MaximumRAM:
		return sizes, fmt.Sprintf("defaults: currentRam is %s, more than maximumRam, %s", sizes.CurrentRAM,
			sizes.MaximumRAM)
	}
	return sizes, ""
}

// sizeOf reads a number of CPUs, or an amount of memory: a number of bytes or a text such as "8 GiB". None means 0.
func sizeOf(field any, v starlark.Value) (number int64, message string) {
	var given any
	switch v := v.(type) {
	case starlark.NoneType:
		return 0, ""
	case starlark.String:
		given = string(v)
	case starlark.Int:
		given, _ = v.Int64()
	default:
		return 0, "must be a number, not " + withArticle(v)
	}
	read := readWhole
	_, memory := field.(vmspec.Bytes)
	if memory {
		read = readSize
	}
	value, message, hint := read(given)
	if message != "" {
		if hint != "" {
			message += " (" + hint + ")"
		}
		return 0, message
	}
	number = value.(int64)
	switch bytes := vmspec.Bytes(number); {
	case number < 1:
		return 0, "must be at least 1, not " + strconv.FormatInt(number, 10)
	case memory && bytes != bytes.WholeMiB():
		return 0, "must be whole MiB, not " + strconv.FormatInt(number, 10) + " bytes"
	}
	return number, ""
}
