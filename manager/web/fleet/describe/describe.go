// Package describe converts the descriptions, plans and errors of VM types, and the answers of runners, to the types of
// package fleet. All kinds of fleets use it.
package describe

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"vmop/internal/yamlfile"
	"vmop/manager/web/fleet"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/policy"
)

// Type converts the description of a VM type.
func Type(d vmtypes.Description) *fleet.VMType {
	first, _, _ := strings.Cut(d.Doc, "\n")
	t := &fleet.VMType{Name: d.Name, Doc: strings.TrimPrefix(first, d.Name+": ")}
	for _, o := range d.Options {
		option := fleet.Option{
			Name: o.Name, Doc: o.Doc, Kind: o.Type, Mandatory: o.Mandatory, Default: o.DefaultText(),
			Label: o.Label, Group: o.Group, DefaultRule: o.DefaultRule, Deprecated: o.Deprecated, Example: o.Like,
		}
		if o.Type == "int" || o.Type == "size" { // the page formats these in the user's language
			option.Minimum, option.Maximum = o.Minimum, o.Maximum
		} else {
			option.Rules = o.Rules()
		}
		if condition := o.Requirement(); condition != "" {
			option.Rules = strings.TrimPrefix(option.Rules+", "+condition, ", ")
		}
		for _, v := range o.Values {
			text := fmt.Sprint(v)
			if n, number := v.(int64); number {
				text = o.Number(n)
			}
			option.Values = append(option.Values, text)
		}
		t.Options = append(t.Options, option)
	}
	least, suggested := d.Sizing.Minimum, d.Sizing.Suggested
	t.CPUs = int64(max(least.CPUs, suggested.CPUs))
	t.RAM, t.Disk = int64(max(least.RAM, suggested.RAM)), int64(max(least.Disk, suggested.Disk))
	t.Drivers = d.Drivers.Option
	var without []string
	for _, name := range slices.Sorted(maps.Keys(d.Drivers.Without)) {
		without = append(without, name+": "+d.Drivers.Without[name])
	}
	t.Without = strings.Join(without, ", ")
	return t
}

// Plan returns QEMU and its helpers with their arguments.
func Plan(p *plan.Plan) []fleet.Argument {
	lines := describeProcess(p.QEMU)
	for _, helper := range p.Helpers {
		lines = append(lines, describeProcess(helper)...)
	}
	return lines
}

// describeProcess returns a process with its arguments.
func describeProcess(p plan.Process) []fleet.Argument {
	lines := []fleet.Argument{{Text: p.Executable}}
	for _, option := range p.Args {
		words := option.Words(func(name string) string { return "<" + name + ">" })
		a := fleet.Argument{Depth: 1, Text: strings.Join(words, " ")}
		for _, frame := range option.Origin {
			a.Origins = append(a.Origins, frame.String())
		}
		lines = append(lines, a)
	}
	return lines
}

// Faults converts an error about a definition; nil if it concerns something else. Paths refer to the runner's
// configuration.
func Faults(err error) fleet.Faults {
	var file yamlfile.Faults
	var options *vmtypes.FieldsError
	var made *vmtypes.FaultsError
	var limits *policy.Error
	var many vmtypes.Errors
	var one *vmtypes.Error
	var list fleet.Faults
	switch {
	case errors.As(err, &file):
		for _, f := range file {
			line := f.Line
			if f.File == yamlfile.SetFile {
				line = 0
			}
			list = append(list, fleet.Fault{Path: f.Path, Line: line, Message: withHint(f.Message, f.Hint)})
		}
	case errors.As(err, &options):
		for _, f := range options.Faults {
			list = append(list, fleet.Fault{Path: f.Path, Message: withHint(f.Message, f.Hint)})
		}
	case errors.As(err, &made):
		for _, f := range made.Faults {
			list = append(list, ofType(f.String()))
		}
	case errors.As(err, &limits):
		for _, v := range limits.Violations {
			list = append(list, fleet.Fault{Message: v.String()})
		}
	case errors.As(err, &many):
		for _, e := range many {
			list = append(list, ofType(e.Message))
		}
	case errors.As(err, &one):
		list = append(list, ofType(one.Message))
	}
	return list
}

func withHint(message, hint string) string {
	if hint != "" {
		message += " (" + hint + ")"
	}
	return message
}

// ofType converts an error message of a VM type. By convention it begins with the field: "fail: vm.display: a machine
// of this type has no screen".
func ofType(message string) fleet.Fault {
	begins := regexp.MustCompile(`^(?:fail: )?(vm\.[A-Za-z0-9_.\[\]]+):? `)
	message = strings.TrimPrefix(message, "fail: ")
	found := begins.FindStringSubmatch(message)
	if found == nil {
		return fleet.Fault{Message: message}
	}
	return fleet.Fault{Path: found[1], Message: message}
}
