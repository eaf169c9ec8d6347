package reference

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"vmop/vmtypes"
)

// A DescribedType is a VM type with what it says of itself.
type DescribedType struct {
	Name   string
	Module Module
	// Options are those that it declares.
	Options []vmtypes.Option
}

// An Evaluator returns the options that a type of a source declares.
type Evaluator func(ctx context.Context, source vmtypes.Source, name string) ([]vmtypes.Option, error)

// Describe returns the description of one type: of the source, or a stock type.
func Describe(ctx context.Context, source vmtypes.Source, name string, options Evaluator) (DescribedType, error) {
	t := DescribedType{Name: name}
	var err error
	if t.Options, err = options(ctx, source, name); err != nil {
		return t, err
	}
	file, text := name+".star", source.Modules[name+".star"]
	if vmtypes.IsStock(name) {
		file = vmtypes.StockPrefix + file
		if text, err = vmtypes.StockModule(file); err != nil {
			return t, err
		}
	}
	t.Module, err = ReadModule(file, text)
	return t, err
}

// DescribeAll returns the descriptions of all types of a source: of the modules
// that define launch. What can't be read or evaluated is an error that tells of
// all of it.
func DescribeAll(ctx context.Context, source vmtypes.Source, options Evaluator) ([]DescribedType, error) {
	var types []DescribedType
	var errs []error
	for _, file := range slices.Sorted(maps.Keys(source.Modules)) {
		name := strings.TrimSuffix(file, ".star")
		if strings.HasSuffix(name, "_test") || vmtypes.IsStock(name) || !isType(file, source.Modules[file]) {
			continue
		}
		t, err := Describe(ctx, source, name, options)
		types, errs = append(types, t), append(errs, err)
	}
	if len(types) == 0 {
		return nil, fmt.Errorf("there is no VM type in %s: no file *.star that defines launch(vm, host)", source.Dir)
	}
	return types, errors.Join(errs...)
}

// isType tells whether a module defines launch, or is so wrong that nobody knows.
func isType(file, text string) bool {
	m, err := ReadModule(file, text)
	return err != nil || slices.ContainsFunc(m.Functions, func(f Function) bool { return f.Name == "launch" })
}
