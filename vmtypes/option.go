package vmtypes

import (
	"fmt"
	"strings"

	"go.starlark.net/starlark"

	"vmop/internal/printable"
	"vmop/internal/spelling"
	"vmop/vmtypes/plan"
)

// optionValue is an immutable option in Starlark, created by option(). It contains its origin.
type optionValue struct{ opt plan.Option }

var _ starlark.HasAttrs = (*optionValue)(nil)

func (o *optionValue) String() string {
	return strings.Join(o.opt.Words(func(name string) string { return "<" + name + ">" }), " ")
}
func (o *optionValue) Type() string          { return "option" }
func (o *optionValue) Freeze()               {}
func (o *optionValue) Truth() starlark.Bool  { return true }
func (o *optionValue) Hash() (uint32, error) { return 0, errUnhashable }

// AttrNames implements starlark.HasAttrs.
func (o *optionValue) AttrNames() []string { return []string{"flag", "props", "value"} }

// Attr implements starlark.HasAttrs.
func (o *optionValue) Attr(name string) (starlark.Value, error) {
	switch name {
	case "flag":
		return starlark.String(o.opt.Flag), nil
	case "value":
		return orNone(o.opt.Value), nil
	case "props":
		d := starlark.NewDict(len(o.opt.Properties))
		for _, p := range o.opt.Properties {
			v := p.Value
			if p.Descriptor != "" {
				v = "<" + p.Descriptor + ">"
			}
			if err := d.SetKey(starlark.String(p.Key), starlark.String(v)); err != nil {
				return nil, err
			}
		}
		d.Freeze()
		return d, nil
	}
	return nil, nil
}

// optionBuiltin implements option(flag, value=None, props=None).
func optionBuiltin(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var flag string
	var value, props starlark.Value = starlark.None, starlark.None
	if !unpackPositional(args, kwargs, &flag, &value, &props) {
		if err := starlark.UnpackArgs(b.Name(), args, kwargs,
			"flag", &flag, "value?", &value, "props?", &props); err != nil {
			return nil, err
		}
	}
	if isUnprintable(flag) {
		return nil, fmt.Errorf("option: flag %q holds a character that is not printable", flag)
	}
	if len(flag) < 2 || flag[0] != '-' {
		return nil, fmt.Errorf("option: flag %q must start with a dash, as in QEMU's manual: %q",
			flag, "-"+strings.TrimLeft(flag, "-"))
	}
	o := &optionValue{plan.Option{Flag: flag, Origin: originOf(thread)}}
	switch v := value.(type) {
	case starlark.NoneType:
	case starlark.String:
		o.opt.Value = string(v)
	case starlark.Int:
		o.opt.Value = v.String()
	case descriptor:
		if props != starlark.None {
			return nil, fmt.Errorf("option: %s: value is %s, which takes no props; give it as a property",
				flag, withArticle(value))
		}
		p, err := descriptorProperty(flag, "", v)
		o.opt.List, o.opt.Properties = true, []plan.Property{p}
		return o, err
	default:
		return nil, fmt.Errorf("option: %s: value must be a string, a number, a tap or a listener, not %s",
			flag, withArticle(value))
	}
	if props == starlark.None {
		return o, nil
	}
	dict, ok := props.(*starlark.Dict)
	if !ok {
		return nil, fmt.Errorf("option: %s: props must be a dict of QEMU's property names, not %s", flag, withArticle(props))
	}
	o.opt.List = true
	var err error
	o.opt.Properties, err = propertiesOf(flag, dict)
	return o, err
}

// unpackPositional unpacks positional arguments, the usual form of a call of option.
func unpackPositional(args starlark.Tuple, kwargs []starlark.Tuple, flag *string, value, props *starlark.Value) bool {
	if len(kwargs) > 0 || len(args) == 0 || len(args) > 3 {
		return false
	}
	s, ok := args[0].(starlark.String)
	*flag = string(s)
	if len(args) > 1 {
		*value = args[1]
	}
	if len(args) > 2 {
		*props = args[2]
	}
	return ok
}

// propertiesOf converts a dict to properties and omits None values.
func propertiesOf(flag string, dict *starlark.Dict) ([]plan.Property, error) {
	list := make([]plan.Property, 0, dict.Len())
	for k, v := range dict.Entries() {
		if v == starlark.None {
			continue
		}
		key, ok := starlark.AsString(k)
		if !ok || key == "" || strings.ContainsAny(key, ",= ") || isUnprintable(key) {
			return nil, fmt.Errorf("option: %s: property name %s is not a valid property name of QEMU", flag, k)
		}
		var err error
		if list, err = appendProperty(list, flag, key, v); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// isUnprintable reports whether a name would break the line that shows it.
func isUnprintable(name string) bool { return printable.Line(name) != name }

// appendProperty adds key=v. A list repeats the property for each element, such as hostfwd in -netdev user.
func appendProperty(list []plan.Property, flag, key string, v starlark.Value) ([]plan.Property, error) {
	p := plan.Property{Key: key}
	switch v := v.(type) {
	case starlark.String:
		p.Value = string(v)
	case starlark.Bool:
		p.Value = onOff(bool(v))
	case starlark.Int:
		p.Value = v.String()
	case descriptor:
		var err error
		if p, err = descriptorProperty(flag, key, v); err != nil {
			return nil, err
		}
	case *starlark.List:
		for i := range v.Len() {
			element := v.Index(i)
			switch element.(type) {
			case starlark.String, starlark.Bool, starlark.Int, descriptor:
			default:
				return nil, fmt.Errorf("option: %s: property %s[%d] must be a string, number, True, False, tap or "+
					"listener, not %s", flag, key, i, withArticle(element))
			}
			var err error
			if list, err = appendProperty(list, flag, key, element); err != nil {
				return nil, err
			}
		}
		return list, nil
	default:
		return nil, fmt.Errorf("option: %s: property %s must be a string, number, True, False, None, tap, "+
			"listener or a list of these, not %s", flag, key, withArticle(v))
	}
	return append(list, p), nil
}

// descriptorProperty returns a property with a descriptor as its value, or with the descriptors of all queues of
// a tap.
func descriptorProperty(flag, key string, v descriptor) (plan.Property, error) {
	name, queues := v.descriptor()
	if queues > 1 && !strings.HasSuffix(key, "fds") {
		return plan.Property{}, fmt.Errorf("option: %s: property %s takes one descriptor, and tap %s has %d queues; use fds",
			flag, key, name, queues)
	}
	return plan.Property{Key: key, Descriptor: name, Queues: queues}, nil
}

// onOff returns QEMU's spelling of a boolean.
func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

// descriptor is a value that becomes the number of a file descriptor when the process starts.
type descriptor interface {
	descriptor() (name string, queues int)
}

// vocabulary is the module with wrappers of option(). Origins omit its calls, because they only contain QEMU's names
// and not the reason for an option.
const vocabulary = "@vmtypes//lib/qemu.star"

// originOf returns the calls that led to the running builtin, innermost first.
func originOf(thread *starlark.Thread) plan.Origin {
	depth := thread.CallStackDepth()
	o := make(plan.Origin, 0, depth)
	for i := 1; i < depth; i++ {
		f := thread.CallFrame(i)
		if file := f.Pos.Filename(); file != vocabulary && f.Name != "<toplevel>" && f.Pos.Line > 0 {
			o = append(o, plan.Frame{File: file, Line: int(f.Pos.Line), Function: f.Name})
		}
	}
	return o
}

// selectsOption reports whether a selector matches the option. "-device sound0" matches an option by id or node-name
// or, without these, by value. A flag alone matches all options with that flag.
func selectsOption(selector string, o *plan.Option) bool {
	flag, name, named := strings.Cut(selector, " ")
	if flag != o.Flag {
		return false
	}
	return !named || name == o.ID() || o.ID() == "" && name == o.Value
}

// didYouMeanOption suggests a selector. Flag and name must each be near: "-device dsk0" does not mean "-device usb".
func didYouMeanOption(selector string, known []string) string {
	flag, name, _ := strings.Cut(selector, " ")
	flags, names := make([]string, len(known)), map[string][]string{}
	for i, one := range known {
		flagOf, nameOf, _ := strings.Cut(one, " ")
		flags[i], names[flagOf] = flagOf, append(names[flagOf], nameOf)
	}
	near := spelling.Nearest(flag, flags)
	switch {
	case near == "":
		return ""
	case name == "" && near != flag:
		return " (did you mean " + near + "?)"
	}
	if found := spelling.Nearest(name, names[near]); found != "" {
		return " (did you mean " + near + " " + found + "?)"
	}
	return ""
}

// selectorOf returns the selector of an option.
func selectorOf(o *plan.Option) string {
	switch {
	case o.ID() != "":
		return o.Flag + " " + o.ID()
	case o.List && o.Value != "" && o.Flag == "-device":
		return o.Flag + " " + o.Value
	}
	return o.Flag
}
