package vmtypestest

import (
	"fmt"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"vmop/vmtypes/plan"
)

// planValue returns a plan in the form for tests.
func planValue(p *plan.Plan) starlark.Value {
	files := map[string]string{}
	for _, l := range p.Listeners {
		files[l.Name] = l.Path
	}
	sockets := map[string]string{}
	for _, s := range p.Sockets {
		sockets[s.Role] = s.Path
	}
	fields := starlark.StringDict{
		"executable": starlark.String(p.QEMU.Executable),
		"argv":       textValues(p.QEMU.Argv()),
		"text":       starlark.String(p.Text()),
		"machine":    starlark.NewDict(0),
		"option":     starlark.NewBuiltin("plan.option", oneOption(p)),
		"options":    starlark.NewBuiltin("plan.options", allOptions(p)),
		"helpers":    listValue(p.Helpers, helperValue),
		"files":      listValue(p.Files, fileValue),
		"taps":       listValue(p.Taps, tapValue),
		"rules":      listValue(p.Rules, func(r plan.Rule) starlark.Value { return starlark.String(r.String()) }),
		"listeners":  dictValue(files),
		"sockets":    dictValue(sockets),
	}
	if m := p.Machine(); m != nil {
		fields["machine"] = optionProperties(plan.Option{Properties: append([]plan.Property{{
			Key:   "type",
			Value: m.Value,
		}},
			m.Properties...)})
	}
	return starlarkstruct.FromStringDict(starlark.String("plan"), fields)
}

// allOptions implements plan.options(flag), which returns all options with this flag.
func allOptions(
	p *plan.Plan,
) func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
	return func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value,
		error,
	) {
		var flag string
		if err := starlark.UnpackArgs(b.Name(), args, kwargs, "flag", &flag); err != nil {
			return nil, err
		}
		var found []plan.Option
		for _, o := range p.QEMU.Args {
			if o.Flag == flag {
				found = append(found, o)
			}
		}
		return listValue(found, optionValue), nil
	}
}

// oneOption implements plan.option(flag, id=None), which returns the option with this flag and id, or None.
func oneOption(
	p *plan.Plan,
) func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
	return func(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value,
		error,
	) {
		var flag, id string
		if err := starlark.UnpackArgs(b.Name(), args, kwargs, "flag", &flag, "id?", &id); err != nil {
			return nil, err
		}
		var found []plan.Option
		for _, o := range p.QEMU.Args {
			if o.Flag == flag && (id == "" || o.ID() == id) {
				found = append(found, o)
			}
		}
		switch len(found) {
		case 0:
			return starlark.None, nil
		case 1:
			return optionValue(found[0]), nil
		}
		return nil, fmt.Errorf("%s: there are %d options %s; give the id, or use plan.options",
			b.Name(), len(found), flag)
	}
}

func optionValue(o plan.Option) starlark.Value {
	return recordValue("option", starlark.StringDict{
		"flag": starlark.String(o.Flag), "value": textValue(o.Value), "props": optionProperties(o),
		"text": starlark.String(optionWords(o)),
	})
}

// optionProperties returns the properties as spelled on the command line. A repeated property has a list as its value.
func optionProperties(o plan.Option) *starlark.Dict {
	values := map[string][]starlark.Value{}
	var keys []string
	for _, p := range o.Properties {
		if len(values[p.Key]) == 0 {
			keys = append(keys, p.Key)
		}
		value := p.Value
		if p.Descriptor != "" {
			value = descriptorName(p.Descriptor)
		}
		values[p.Key] = append(values[p.Key], starlark.String(value))
	}
	d := starlark.NewDict(len(keys))
	for _, key := range keys {
		var value starlark.Value = values[key][0]
		if len(values[key]) > 1 {
			value = starlark.NewList(values[key])
		}
		setItem(d, key, value)
	}
	return d
}

func optionWords(o plan.Option) string {
	text := ""
	for i, w := range o.Words(descriptorName) {
		if i > 0 {
			text += " "
		}
		text += w
	}
	return text
}

func descriptorName(descriptor string) string { return "<" + descriptor + ">" }

func helperValue(p plan.Process) starlark.Value {
	var argv []string
	for _, o := range p.Args {
		argv = append(argv, o.Words(descriptorName)...)
	}
	return recordValue("process", starlark.StringDict{
		"name": textValue(p.Name), "executable": textValue(p.Executable), "dir": textValue(p.Dir),
		"argv":  textValues(argv),
		"ready": textValue(p.Ready),
	})
}

func fileValue(f plan.CopyOnce) starlark.Value {
	return recordValue("file", starlark.StringDict{
		"source": textValue(f.From), "to": textValue(f.To), "kind": textValue(f.Kind),
		"same_size": starlark.Bool(f.SameSize),
	})
}

func tapValue(t plan.Tap) starlark.Value {
	forward := func(f plan.Forward) starlark.Value {
		return starlark.String(fmt.Sprintf("%s:%s:%d-%d", f.Protocol, f.Address, f.Host, f.Guest))
	}
	return recordValue("tap", starlark.StringDict{
		"name": textValue(t.Name), "bridge": textValue(t.Bridge), "subnet": textValue(t.Subnet),
		"mac":      textValue(t.MAC),
		"hostname": textValue(t.Hostname), "ports": listValue(t.Forwards, forward), "all_ports_but": keptPorts(t),
		"lease": leaseValue(t.Lease), "filter": starlark.Bool(t.Filter),
	})
}

// leaseValue returns the lease, or None if the runner assigns no address to the guest.
func leaseValue(l *plan.Lease) starlark.Value {
	if l == nil {
		return starlark.None
	}
	route := func(r plan.Route) starlark.Value { return starlark.String(r.To + "-" + r.Via) }
	word := func(s string) starlark.Value { return starlark.String(s) }
	return recordValue("lease", starlark.StringDict{
		"address": textValue(l.Address), "gateway": textValue(l.Gateway), "nameservers": listValue(l.Nameservers, word),
		"search": listValue(l.Search, word), "routes": listValue(l.Routes, route),
	})
}

// keptPorts returns the ports that are not forwarded, or None if the tap does not forward all ports.
func keptPorts(t plan.Tap) starlark.Value {
	if t.AllPorts == nil {
		return starlark.None
	}
	return listValue(t.AllPorts.Keep, func(port int) starlark.Value { return starlark.MakeInt(port) })
}

func recordValue(name string, fields starlark.StringDict) starlark.Value {
	return starlarkstruct.FromStringDict(starlark.String(name), fields)
}

// textValue returns a string, or None if the text is empty.
func textValue(s string) starlark.Value {
	if s == "" {
		return starlark.None
	}
	return starlark.String(s)
}

func textValues(words []string) starlark.Value {
	return listValue(words, func(w string) starlark.Value { return starlark.String(w) })
}

func listValue[T any](from []T, convert func(T) starlark.Value) starlark.Value {
	values := make([]starlark.Value, len(from))
	for i, v := range from {
		values[i] = convert(v)
	}
	return starlark.NewList(values)
}

func dictValue(from map[string]string) starlark.Value {
	d := starlark.NewDict(len(from))
	for key, value := range from {
		setItem(d, key, starlark.String(value))
	}
	return d
}

// setItem sets an item of a new dict. It cannot fail, because strings are hashable.
func setItem(d *starlark.Dict, key string, value starlark.Value) {
	if err := d.SetKey(starlark.String(key), value); err != nil {
		panic(err)
	}
}
