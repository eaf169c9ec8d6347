package vmtypes

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"vmop/vmtypes/plan"
)

// value is the common part of values that a type only passes on.
type value struct{ kind, text string }

func (v *value) String() string        { return "<" + v.kind + " " + v.text + ">" }
func (v *value) Type() string          { return v.kind }
func (v *value) Freeze()               {}
func (v *value) Truth() starlark.Bool  { return true }
func (v *value) Hash() (uint32, error) { return 0, errUnhashable }

type (
	processValue struct {
		value
		process plan.Process
	}
	fileValue struct {
		value
		file plan.CopyOnce
	}
	tapValue struct {
		value
		tap plan.Tap
	}
	listenerValue struct {
		value
		listener plan.Listener
	}
	accessValue struct {
		value
		access plan.Access
	}
	ruleValue struct {
		value
		made madeRule
	}
)

// A madeRule is a rule with its origin.
type madeRule struct {
	rule plan.Rule
	at   plan.Origin
}

// Type must also work for a nil pointer: messages name the expected kind.
func (*processValue) Type() string  { return "process" }
func (*fileValue) Type() string     { return "file" }
func (*tapValue) Type() string      { return "tap" }
func (*listenerValue) Type() string { return "listener" }
func (*accessValue) Type() string   { return "access" }
func (*ruleValue) Type() string     { return "hotplug rule" }

func (t *tapValue) descriptor() (name string, queues int)      { return t.tap.Name, t.tap.Queues }
func (l *listenerValue) descriptor() (name string, queues int) { return l.listener.Name, 0 }

// AttrNames implements starlark.HasAttrs.
func (l *listenerValue) AttrNames() []string { return []string{"client"} }

// Attr implements starlark.HasAttrs.
func (l *listenerValue) Attr(name string) (starlark.Value, error) {
	if name != "client" {
		return nil, nil
	}
	return &clientValue{value{"client", l.text}, l.listener.Name}, nil
}

// clientValue is a connection to a listener.
type clientValue struct {
	value
	listener string
}

func (c *clientValue) descriptor() (name string, queues int) { return plan.Client(c.listener), 0 }

// processBuiltin implements process(name, executable, args, env=, dir=, ready=, role=, access=, confined=, cpus=).
func processBuiltin(
	_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	p := &processValue{value: value{kind: "process"}}
	var words, files, cpus starlark.Iterable
	var env *starlark.Dict
	confined := true
	err := starlark.UnpackArgs(b.Name(), args, kwargs,
		"name", &p.process.Name, "executable", &p.process.Executable, "args", &words,
		"env??", &env, "dir?", &p.process.Dir, "ready?", &p.process.Ready, "role?", &p.process.Role,
		"access??", &files, "confined?", &confined, "cpus??", &cpus)
	if err == nil {
		p.process.CPUs, err = hostCPUs("process: cpus", cpus)
	}
	if err == nil {
		err = collectElements("process: access", files, func(a *accessValue) {
			p.process.Access = append(p.process.Access, a.access)
		})
	}
	if err != nil {
		return nil, err
	}
	if role := p.process.Role; role != "" && !slices.Contains(plan.Roles(), role) {
		return nil, fmt.Errorf("process: role = %q, but must be one of %s%s",
			role, strings.Join(plan.Roles(), ", "), didYouMean(role, plan.Roles()))
	}
	p.text, p.process.Exempt = p.process.Name, !confined
	for k, v := range dictEntries(env) {
		p.process.Env = append(p.process.Env, plan.Variable{Name: k, Value: v})
	}
	return p, walkElements("process: args", words, 0, "a string, a number, an option or a list of these", p.addArg)
}

// addArg adds a word or an option to the arguments. It returns false for other values.
func (p *processValue) addArg(v starlark.Value) bool {
	switch v := v.(type) {
	case starlark.String:
		p.process.Args = append(p.process.Args, plan.Option{Flag: string(v)})
	case starlark.Int:
		p.process.Args = append(p.process.Args, plan.Option{Flag: v.String()})
	case *optionValue:
		p.process.Args = append(p.process.Args, v.opt)
	default:
		return false
	}
	return true
}

// copyOnce implements copy_once(source, to, kind="", same_size=False).
func copyOnce(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	f := &fileValue{value: value{kind: "file"}}
	if err := starlark.UnpackArgs(b.Name(), args, kwargs,
		"source", &f.file.From, "to", &f.file.To, "kind?", &f.file.Kind, "same_size?", &f.file.SameSize); err != nil {
		return nil, err
	}
	f.text, f.file.Origin = f.file.To, originOf(thread)
	return f, nil
}

// accessBuiltin implements access(path, mode="read").
func accessBuiltin(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	a := &accessValue{value: value{kind: "access"}, access: plan.Access{Mode: plan.AccessRead}}
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "path", &a.access.Path, "mode?", &a.access.Mode); err != nil {
		return nil, err
	}
	if modes := []string{plan.AccessRead, plan.AccessWrite}; !slices.Contains(modes, a.access.Mode) {
		return nil, fmt.Errorf("access: mode = %q, but must be one of %s%s", a.access.Mode, strings.Join(modes, ", "),
			didYouMean(a.access.Mode, modes))
	}
	a.text, a.access.Origin = a.access.Path, originOf(thread)
	return a, nil
}

// tapBuiltin implements tap(name, bridge=, lease=, filter=, mac=, hostname=, queues=) and tap(name, subnet=, mac=,
// hostname=, ports=, all_ports_but=, queues=).
func tapBuiltin(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	t := &tapValue{value: value{kind: "tap"}}
	var bridge, subnet, mac, hostname starlark.Value = starlark.None, starlark.None, starlark.None, starlark.None
	var lease, filter starlark.Value
	var ports, kept starlark.Iterable
	queues := 1
	err := starlark.UnpackArgs(b.Name(), args, kwargs,
		"name", &t.tap.Name, "bridge?", &bridge, "subnet?", &subnet, "mac?", &mac, "hostname?", &hostname,
		"ports??", &ports, "all_ports_but??", &kept, "queues?", &queues,
		"lease??", &lease, "filter??", &filter)
	if err != nil {
		return nil, err
	}
	if queues != 1 { // the plan's check reports a wrong number
		t.tap.Queues = queues
	}
	t.tap.Bridge, _ = starlark.AsString(bridge)
	t.tap.Subnet, _ = starlark.AsString(subnet)
	t.tap.MAC, _ = starlark.AsString(mac)
	t.tap.Hostname, _ = starlark.AsString(hostname)
	if (t.tap.Bridge == "") == (t.tap.Subnet == "") {
		return nil, fmt.Errorf("tap: %s: give either bridge, to join a bridge, or subnet, for a separate private network",
			t.tap.Name)
	}
	if t.tap.Lease, err = leaseOf(t.tap, lease); err != nil {
		return nil, err
	}
	if t.tap.Filter = filter == starlark.True; t.tap.Filter && t.tap.Lease == nil {
		return nil, fmt.Errorf("tap: %s: filter without a lease: it keeps the guest to the lease's address", t.tap.Name)
	}
	if t.tap.Forwards, err = forwardsOf(ports); err != nil {
		return nil, err
	}
	if t.tap.AllPorts, err = allPorts(kept); err != nil {
		return nil, err
	}
	t.text, t.tap.Origin = t.tap.Name, originOf(thread)
	return t, nil
}

// allPorts reads the ports to exclude from forwarding all ports. It returns nil without such a list; then only
// the ports in Forwards are forwarded.
func allPorts(kept starlark.Iterable) (*plan.AllPorts, error) {
	if kept == nil {
		return nil, nil
	}
	all := &plan.AllPorts{}
	iter := kept.Iterate()
	defer iter.Done()
	var v starlark.Value
	for i := 0; iter.Next(&v); i++ {
		var port int
		if err := starlark.AsInt(v, &port); err != nil || port < 1 || port > 65535 {
			return nil, fmt.Errorf("tap: all_ports_but[%d] must be a port, 1 to 65535, not %s", i, v)
		}
		if !slices.Contains(all.Keep, port) {
			all.Keep = append(all.Keep, port)
		}
	}
	return all, nil
}

// forwardsOf reads values with the attributes of vm.network[].ports[].
func forwardsOf(ports starlark.Iterable) ([]plan.Forward, error) {
	if ports == nil {
		return nil, nil
	}
	var list []plan.Forward
	iter := ports.Iterate()
	defer iter.Done()
	var v starlark.Value
	for i := 0; iter.Next(&v); i++ {
		attrs, ok := v.(starlark.HasAttrs)
		if !ok {
			return nil, fmt.Errorf("tap: ports[%d] must be a struct with protocol, address, host and guest, not %s",
				i, withArticle(v))
		}
		var f plan.Forward
		for name, to := range map[string]*string{"protocol": &f.Protocol, "address": &f.Address} {
			s, err := attrs.Attr(name)
			if err != nil {
				return nil, fmt.Errorf("tap: ports[%d]: %w", i, err)
			}
			*to, _ = starlark.AsString(s)
		}
		for name, to := range map[string]*int{"host": &f.Host, "guest": &f.Guest} {
			n, err := attrs.Attr(name)
			if err != nil || n == nil {
				return nil, fmt.Errorf("tap: ports[%d] has no %s", i, name)
			}
			if err := starlark.AsInt(n, to); err != nil {
				return nil, fmt.Errorf("tap: ports[%d].%s: %w", i, name, err)
			}
		}
		list = append(list, f)
	}
	return list, nil
}

// listenBuiltin implements listen(name, path).
func listenBuiltin(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	l := &listenerValue{value: value{kind: "listener"}}
	if err := starlark.UnpackArgs(b.Name(), args, kwargs,
		"name", &l.listener.Name, "path", &l.listener.Path); err != nil {
		return nil, err
	}
	l.text, l.listener.Origin = l.listener.Path, originOf(thread)
	return l, nil
}
