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

// A DescribedType is a VM type with its documentation.
type DescribedType struct {
	Name   string
	Module Module
	// Options are the declared options.
	Options []vmtypes.Option
}

// A Describer evaluates a type of a source, or a stock type, and returns its description.
type Describer func(ctx context.Context, source vmtypes.Source, name string) (vmtypes.Description, error)

// Described returns a type in the form for pages and schemas.
func Described(d vmtypes.Description) DescribedType {
	t := DescribedType{Name: d.Name, Options: d.Options, Module: Module{Doc: d.Doc}}
	if len(d.Modules) == 0 {
		return t
	}
	for _, described := range d.Modules[0].Functions {
		f := Function{Name: described.Name}
		var args map[string]string
		f.Doc, args = argumentDocs(described.Doc)
		keyword := false
		for _, p := range described.Parameters {
			parameter := Parameter{Name: p.Name, Default: p.Default}
			parameter.Keyword = keyword && !parameter.Rest()
			parameter.Doc = args[parameter.Bare()]
			keyword = keyword || parameter.Rest()
			if parameter.Bare() != "" {
				f.Parameters = append(f.Parameters, parameter)
			}
		}
		t.Module.Functions = append(t.Module.Functions, f)
	}
	return t
}

// DescribeAll returns the descriptions of all types of a source, which are the modules that define launch. The error
// contains all modules that cannot be read or evaluated.
func DescribeAll(ctx context.Context, source vmtypes.Source, describe Describer) ([]DescribedType, error) {
	var types []DescribedType
	var errs []error
	for _, file := range slices.Sorted(maps.Keys(source.Modules)) {
		name := strings.TrimSuffix(file, ".star")
		if strings.HasSuffix(name, "_test") || vmtypes.IsStock(name) || !isType(file, source.Modules[file]) {
			continue
		}
		d, err := describe(ctx, source, name)
		types, errs = append(types, Described(d)), append(errs, err)
	}
	if len(types) == 0 {
		return nil, fmt.Errorf("there is no VM type in %s: no *.star file defines launch(vm, host)", source.Dir)
	}
	return types, errors.Join(errs...)
}

// isType reports whether a module defines launch. It returns true for a module that cannot be parsed.
func isType(file, text string) bool {
	m, err := ReadModule(file, text)
	return err != nil || slices.ContainsFunc(m.Functions, func(f Function) bool { return f.Name == "launch" })
}
