package vmtypes

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"vmop/vmtypes/plan"
)

// partValue is a part in Starlark: the options, processes, files and rules for one concern, such as the TPM. It is
// immutable; combine and replace create new parts.
type partValue struct {
	executable string
	cpus       []int           // CPUs of the host on which QEMU runs
	machine    []plan.Property // in order; the key "type" is the machine type
	machineAt  plan.Origin     // the origin of the first machine property
	options    []*plan.Option
	env        []plan.Variable
	access     []plan.Access
	helpers    []plan.Process
	files      []plan.CopyOnce
	taps       []plan.Tap
	listeners  []plan.Listener
	sockets    []plan.Socket
	stated     []statement
	rules      []madeRule
}

var _ starlark.HasAttrs = (*partValue)(nil)

func (p *partValue) String() string        { return fmt.Sprintf("<part with %d options>", len(p.options)) }
func (p *partValue) Type() string          { return "part" }
func (p *partValue) Freeze()               {}
func (p *partValue) Truth() starlark.Bool  { return true }
func (p *partValue) Hash() (uint32, error) { return 0, errUnhashable }

// AttrNames implements starlark.HasAttrs.
func (p *partValue) AttrNames() []string { return []string{"options"} }

// Attr implements starlark.HasAttrs. A type may look at the options of a part.
func (p *partValue) Attr(name string) (starlark.Value, error) {
	if name != "options" {
		return nil, nil
	}
	list := make(starlark.Tuple, len(p.options))
	for i := range p.options {
		list[i] = &optionValue{*p.options[i]}
	}
	return list, nil
}

// partBuiltin implements part(executable=, machine=, options=, env=, helpers=, files=, taps=, listeners=, sockets=,
// ports=, drives=, hotplug=, access=, cpus=).
func partBuiltin(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	if len(args) > 0 {
		return nil, fmt.Errorf("part: takes keyword arguments only: part(options = [...])")
	}
	p := &partValue{}
	var in struct { // in one variable, which saves allocations
		machine, env, sockets, ports, drives                            *starlark.Dict
		options, helpers, files, taps, listeners, hotplug, access, cpus starlark.Iterable
	}
	err := starlark.UnpackArgs(b.Name(), args, kwargs,
		"executable?", &p.executable, "machine??", &in.machine, "options??", &in.options, "env??", &in.env,
		"helpers??", &in.helpers, "files??", &in.files, "taps??", &in.taps, "listeners??", &in.listeners,
		"sockets??", &in.sockets, "ports??", &in.ports, "drives??", &in.drives, "hotplug??", &in.hotplug,
		"access??", &in.access, "cpus??", &in.cpus)
	if err != nil && strings.HasSuffix(err.Error(), "want iterable") {
		return nil, fmt.Errorf("%w: write a list, [ … ]", err)
	}
	if err != nil {
		return nil, err
	}
	if in.machine != nil {
		if p.machine, err = propertiesOf("-machine", in.machine); err != nil {
			return nil, err
		}
		p.machineAt = originOf(thread)
	}
	for k, v := range dictEntries(in.env) {
		p.env = append(p.env, plan.Variable{Name: k, Value: v})
	}
	for k, v := range dictEntries(in.sockets) {
		p.sockets = append(p.sockets, plan.Socket{Role: k, Path: v})
	}
	if p.stated, err = readStatements(thread, in.ports, in.drives); err != nil {
		return nil, err
	}
	if p.cpus, err = hostCPUs("part: cpus", in.cpus); err != nil {
		return nil, err
	}
	if n := starlark.Len(in.options); n > 0 {
		p.options = make([]*plan.Option, 0, n)
	}
	err = firstError(
		collectElements("options", in.options, func(o *optionValue) { p.options = append(p.options, &o.opt) }),
		collectElements("helpers", in.helpers, func(h *processValue) { p.helpers = append(p.helpers, h.process) }),
		collectElements("files", in.files, func(f *fileValue) { p.files = append(p.files, f.file) }),
		collectElements("taps", in.taps, func(t *tapValue) { p.taps = append(p.taps, t.tap) }),
		collectElements("listeners", in.listeners,
			func(l *listenerValue) { p.listeners = append(p.listeners, l.listener) }),
		collectElements("hotplug", in.hotplug, func(r *ruleValue) { p.rules = append(p.rules, r.made) }),
		collectElements("access", in.access, func(a *accessValue) { p.access = append(p.access, a.access) }),
	)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// dictEntries iterates over a dict of strings. It converts other values with Starlark's str() and skips None.
func dictEntries(d *starlark.Dict) func(yield func(k, v string) bool) {
	return func(yield func(k, v string) bool) {
		if d == nil {
			return
		}
		for k, v := range d.Entries() {
			if v == starlark.None {
				continue
			}
			key, _ := starlark.AsString(k)
			value, ok := starlark.AsString(v)
			if !ok {
				value = v.String()
			}
			if !yield(key, value) {
				return
			}
		}
	}
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// maxDepth is the maximum depth of nested lists. It also catches cyclic lists.
const maxDepth = 16

// collectElements calls add for each element of type T, including elements of nested lists.
func collectElements[T starlark.Value](field string, from starlark.Iterable, add func(T)) error {
	if from == nil {
		return nil
	}
	var want T
	return walkElements(field, from, 0, withArticle(want)+" or None", func(v starlark.Value) bool {
		element, ok := v.(T)
		if ok {
			add(element)
		}
		return ok
	})
}

// walkElements calls take for each element, including elements of nested lists, and skips None. If take returns false,
// walkElements returns an error that contains want.
func walkElements(field string, from starlark.Iterable, depth int, want string, take func(starlark.Value) bool) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: lists nested deeper than %d; does a list contain itself?", field, maxDepth)
	}
	iter := from.Iterate()
	defer iter.Done()
	var v starlark.Value
	for i := 0; iter.Next(&v); i++ {
		if v == starlark.None || take(v) {
			continue
		}
		list, ok := v.(starlark.Sequence)
		if _, dict := v.(*starlark.Dict); !ok || dict {
			return fmt.Errorf("%s[%d] must be %s, not %s", field, i, want, withArticle(v))
		}
		if err := walkElements(fmt.Sprintf("%s[%d]", field, i), list, depth+1, want, take); err != nil {
			return err
		}
	}
	return nil
}

func withArticle(v starlark.Value) string {
	name := v.Type()
	switch name {
	case "NoneType":
		return "None"
	case "builtin_function_or_method":
		return "a builtin function"
	}
	if strings.ContainsRune("aeiou", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}

// combineBuiltin implements combine(*parts), the sum of the parts. It skips None.
func combineBuiltin(
	_ *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	if len(kwargs) > 0 {
		return nil, fmt.Errorf("combine: takes parts, no keyword arguments")
	}
	sum := &partValue{options: make([]*plan.Option, 0, countOptions(args))}
	var conflict error
	err := collectElements("combine: argument", args, func(p *partValue) {
		if conflict == nil {
			conflict = sum.addPart(p)
		}
	})
	if err = firstError(err, conflict); err != nil {
		return nil, err
	}
	return sum, nil
}

// countOptions returns the number of options in the parts, without parts in nested lists. The caller only uses it as a
// capacity.
func countOptions(parts starlark.Tuple) int {
	n := 0
	for _, v := range parts {
		if p, ok := v.(*partValue); ok {
			n += len(p.options)
		}
	}
	return n
}

func (p *partValue) addPart(q *partValue) error {
	if q.executable != "" {
		if p.executable != "" && p.executable != q.executable {
			return fmt.Errorf("combine: two parts name different executables, %s and %s; use replace",
				p.executable, q.executable)
		}
		p.executable = q.executable
	}
	if q.cpus != nil {
		if p.cpus != nil && !slices.Equal(p.cpus, q.cpus) {
			return fmt.Errorf("combine: two parts have QEMU run on different CPUs, %s and %s",
				plan.CPUList(p.cpus), plan.CPUList(q.cpus))
		}
		p.cpus = q.cpus
	}
	if p.machineAt == nil {
		p.machineAt = q.machineAt
	}
	for _, m := range q.machine {
		i := slices.IndexFunc(p.machine, func(have plan.Property) bool { return have.Key == m.Key })
		if i >= 0 && p.machine[i] != m {
			return fmt.Errorf("combine: two parts set machine property %s, to %s and %s; use replace",
				m.Key, p.machine[i].Value, m.Value)
		}
		if i < 0 {
			p.machine = append(p.machine, m)
		}
	}
	p.options = append(p.options, q.options...)
	p.env = append(p.env, q.env...)
	p.access = append(p.access, q.access...)
	p.helpers = append(p.helpers, q.helpers...)
	p.files = append(p.files, q.files...)
	p.taps = append(p.taps, q.taps...)
	p.listeners = append(p.listeners, q.listeners...)
	p.sockets = append(p.sockets, q.sockets...)
	p.stated = append(p.stated, q.stated...)
	p.rules = append(p.rules, q.rules...)
	return nil
}

// replaceBuiltin implements replace(part, *options, machine=, executable=, remove=).
func replaceBuiltin(
	thread *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("replace: give a part and its new options")
	}
	old, ok := args[0].(*partValue)
	if !ok {
		return nil, fmt.Errorf("replace: the first argument must be a part, not %s", withArticle(args[0]))
	}
	var machine *starlark.Dict
	var executable string
	var remove starlark.Iterable
	if err := starlark.UnpackArgs(b.Name(), nil, kwargs,
		"machine??", &machine, "executable?", &executable, "remove??", &remove); err != nil {
		return nil, err
	}
	p := &partValue{}
	if err := p.addPart(old); err != nil {
		return nil, err
	}
	if executable != "" {
		p.executable = executable
	}
	err := firstError(
		p.removeAll(remove),
		p.replaceMachine(thread, machine),
	)
	if err != nil {
		return nil, err
	}
	var missing error
	err = collectElements("replace: argument", args[1:], func(o *optionValue) {
		if missing == nil {
			missing = p.replaceOption(&o.opt)
		}
	})
	if err = firstError(err, missing); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *partValue) replaceMachine(thread *starlark.Thread, machine *starlark.Dict) error {
	if machine == nil {
		return nil
	}
	for k := range machine.Entries() {
		key, _ := starlark.AsString(k)
		p.machine = slices.DeleteFunc(slices.Clone(p.machine), func(m plan.Property) bool { return m.Key == key })
	}
	props, err := propertiesOf("-machine", machine)
	p.machine = append(p.machine, props...)
	p.machineAt = p.machineAt.Change(originOf(thread))
	return err
}

// replaceOption replaces the option that has the same selector as o.
func (p *partValue) replaceOption(o *plan.Option) error {
	sel, at := selectorOf(o), -1
	for i := range p.options {
		if !selectsOption(sel, p.options[i]) {
			continue
		}
		if at >= 0 {
			return fmt.Errorf("replace: several options are %q; give each of them an id", sel)
		}
		at = i
	}
	if at < 0 {
		return fmt.Errorf("replace: no option is %q, so there is nothing to replace; add it with combine(…, "+
			"part(options = […]))%s", sel, didYouMeanOption(sel, p.optionSelectors()))
	}
	placed := *o
	placed.Origin = o.Origin.Replace(p.options[at].Origin)
	p.options = slices.Clone(p.options)
	p.options[at] = &placed
	return nil
}

func (p *partValue) optionSelectors() []string {
	list := make([]string, len(p.options))
	for i := range p.options {
		list[i] = selectorOf(p.options[i])
	}
	return list
}

// asPlan returns a plan for the VM type with this name, without the checks and additions of finishPlan.
func (p *partValue) asPlan(name string) *plan.Plan {
	machine := plan.Option{Flag: "-machine", List: true, Origin: p.machineAt}
	for _, m := range p.machine {
		if m.Key == "type" {
			machine.Value = m.Value
			continue
		}
		machine.Properties = append(machine.Properties, m)
	}
	args := make([]plan.Option, 0, len(p.options)+1)
	if machine.Value != "" || len(machine.Properties) > 0 {
		args = append(args, machine)
	}
	for _, o := range p.options {
		args = append(args, *o)
	}
	made := &plan.Plan{
		Type: name,
		QEMU: plan.Process{
			Name: "qemu", Executable: p.executable, Args: args, Env: p.env, Access: p.access, CPUs: p.cpus,
		},
		Helpers: p.helpers, Files: p.files, Taps: p.taps, Listeners: p.listeners, Sockets: p.sockets,
	}
	for _, r := range p.rules {
		made.Rules, made.RuleOrigins = append(made.Rules, r.rule), append(made.RuleOrigins, r.at)
	}
	return made
}
