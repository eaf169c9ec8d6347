package compare

import (
	"strconv"
	"strings"

	"vmop/vmtypes/plan"
)

// This file compares the parts of a plan other than QEMU's options.

// compareKeyed compares two lists of items by their keys. It calls gone, added or both for each item.
func compareKeyed[T any](before, after []T, key func(T) string, gone, added func(T), both func(T, T)) {
	later := map[string]T{}
	for _, item := range after {
		later[key(item)] = item
	}
	known := map[string]bool{}
	for _, item := range before {
		known[key(item)] = true
		if other, ok := later[key(item)]; ok {
			both(item, other)
		} else {
			gone(item)
		}
	}
	for _, item := range after {
		if !known[key(item)] {
			added(item)
		}
	}
}

// compareEnvironment compares the variables of a process, and the CPUs of the host that it may use.
func (c *comparison) compareEnvironment(subject string, before, after plan.Process) {
	change := func(v plan.Variable, old, now string) {
		c.addChange(Change{Subject: subject, Property: "env " + v.Name, Old: old, New: now, Meaning: Unknown})
	}
	if a, b := plan.CPUList(before.CPUs), plan.CPUList(after.CPUs); a != b {
		c.addChange(Change{Subject: subject, Property: "cpus", Old: a, New: b, Meaning: HostOnly})
	}
	compareKeyed(before.Env, after.Env, func(v plan.Variable) string { return v.Name },
		func(v plan.Variable) { change(v, v.Value, "") },
		func(v plan.Variable) { change(v, "", v.Value) },
		func(a, b plan.Variable) {
			if a.Value != b.Value {
				change(a, a.Value, b.Value)
			}
		})
}

// helperMeaning returns the meaning of a change of a helper process.
func helperMeaning(p plan.Process) Meaning {
	if p.Role == plan.RoleTPM || strings.Contains(p.Name, "tpm") {
		return TPM
	}
	return Unknown
}

func (c *comparison) compareHelpers(before, after []plan.Process) {
	command := func(p plan.Process) string { return strings.Join(append([]string{p.Executable}, p.Argv()...), " ") }
	compareKeyed(before, after, func(p plan.Process) string { return p.Name },
		func(p plan.Process) {
			c.addChange(Change{Subject: "helper " + p.Name, Old: command(p), Meaning: helperMeaning(p)})
		},
		func(p plan.Process) {
			c.addChange(Change{Subject: "helper " + p.Name, New: command(p), Meaning: helperMeaning(p)})
		},
		func(a, b plan.Process) {
			c.compareExecutable(a, b, "helper "+a.Name, HostOnly)
			c.compareEnvironment("helper "+a.Name, a, b)
			c.helperArguments(a, b)
			for _, field := range [][3]string{
				{"dir", a.Dir, b.Dir},
				{"ready", a.Ready, b.Ready},
				{"role", a.Role, b.Role},
			} {
				if field[1] != field[2] {
					meaning := HostOnly
					switch field[0] {
					case "dir":
						meaning = helperMeaning(a) // it contains swtpm's state
					case "role":
						meaning = FailureAction // the reaction when it ends
					}
					c.addChange(Change{
						Subject: "helper " + a.Name, Property: field[0], Old: field[1], New: field[2],
						Meaning: meaning,
					})
				}
			}
		})
}

// helperArguments compares the arguments of a helper as text.
func (c *comparison) helperArguments(before, after plan.Process) {
	text := func(p plan.Process) string {
		var words []string
		for _, o := range p.Args {
			words = append(words, o.Words(descriptorName)...)
		}
		return strings.Join(words, " ")
	}
	if a, b := text(before), text(after); a != b {
		c.addChange(Change{
			Subject: "helper " + before.Name, Property: "arguments", Old: a, New: b,
			Meaning: helperMeaning(before),
		})
	}
}

func (c *comparison) compareCopies(before, after []plan.CopyOnce) {
	compareKeyed(before, after, func(f plan.CopyOnce) string { return f.To },
		func(f plan.CopyOnce) {
			c.addChange(Change{
				Subject: "file " + f.To, Old: f.From, Meaning: HostOnly, Note: "the copy stays where it is",
				Place: describeOrigin(f.Origin),
			})
		},
		func(f plan.CopyOnce) {
			c.addChange(Change{
				Subject: "file " + f.To, New: f.From, Meaning: HostOnly,
				Note: "it is created if it does not exist", Place: describeOrigin(f.Origin),
			})
		},
		func(a, b plan.CopyOnce) {
			if a.Kind != b.Kind {
				c.addChange(Change{
					Subject: "file " + a.To, Property: "kind", Old: a.Kind, New: b.Kind, Meaning: Variables,
					Note:  "the copy is put aside as " + a.To + "." + a.Kind + " and created again",
					Place: describeOrigin(b.Origin),
				})
			} else if a.From != b.From {
				c.addChange(Change{
					Subject: "file " + a.To, Property: "source", Old: a.From, New: b.From, Meaning: HostOnly,
					Note: "VMs that have their copy keep it", Place: describeOrigin(b.Origin),
				})
			}
			if a.SameSize != b.SameSize {
				c.addChange(Change{
					Subject: "file " + a.To, Property: "same_size", Old: strconv.FormatBool(a.SameSize),
					New: strconv.FormatBool(b.SameSize), Meaning: HostOnly,
					Note: "whether a copy of another size keeps the VM from starting", Place: describeOrigin(b.Origin),
				})
			}
		})
}

func (c *comparison) compareTaps(before, after []plan.Tap) {
	text := func(t plan.Tap) string { return strings.TrimPrefix(t.String(), t.Name+" ") }
	compareKeyed(before, after, func(t plan.Tap) string { return t.Name },
		func(t plan.Tap) {
			c.addChange(Change{
				Subject: "tap " + t.Name, Old: text(t), Meaning: Network,
				Place: describeOrigin(t.Origin),
			})
		},
		func(t plan.Tap) {
			c.addChange(Change{
				Subject: "tap " + t.Name, New: text(t), Meaning: Network,
				Place: describeOrigin(t.Origin),
			})
		},
		func(a, b plan.Tap) {
			if text(a) != text(b) {
				c.addChange(Change{
					Subject: "tap " + a.Name, Old: text(a), New: text(b), Meaning: Network,
					Place: describeOrigin(b.Origin),
				})
			}
		})
}

func (c *comparison) compareSockets(before, after *plan.Plan) {
	change := func(subject, old, now string) {
		if old != now {
			c.addChange(Change{
				Subject: subject, Old: old, New: now, Meaning: HostOnly,
				Note: "what connects to it must know",
			})
		}
	}
	compareKeyed(before.Listeners, after.Listeners, func(l plan.Listener) string { return l.Name },
		func(l plan.Listener) { change("listen "+l.Name, l.Path, "") },
		func(l plan.Listener) { change("listen "+l.Name, "", l.Path) },
		func(a, b plan.Listener) { change("listen "+a.Name, a.Path, b.Path) })
	compareKeyed(before.Sockets, after.Sockets, func(s plan.Socket) string { return s.Role },
		func(s plan.Socket) { change("socket "+s.Role, s.Path, "") },
		func(s plan.Socket) { change("socket "+s.Role, "", s.Path) },
		func(a, b plan.Socket) {
			change("socket "+a.Role, a.Path, b.Path)
			if a.Port != b.Port {
				c.addChange(Change{
					Subject: "socket " + a.Role, Property: "port", Old: a.Port, New: b.Port, Meaning: HostOnly,
					Note: "QEMU's own name of it",
				})
			}
		})
}

func (c *comparison) compareRules(before, after plan.Rules) {
	subject := func(r plan.Rule) string { return strings.TrimSpace("rule " + r.Kind() + " " + plan.Device(r)) }
	text := func(r plan.Rule) string { return strings.TrimPrefix(r.String(), r.Kind()+" ") }
	key := func(r plan.Rule) string {
		if p, ok := r.(plan.Password); ok {
			return subject(r) + " " + p.Protocol + " " + p.Display
		}
		return subject(r)
	}
	compareKeyed(before, after, key,
		func(r plan.Rule) { c.addChange(Change{Subject: subject(r), Old: text(r), Meaning: RuleRemoved}) },
		func(r plan.Rule) { c.addChange(Change{Subject: subject(r), New: text(r), Meaning: RuleAdded}) },
		func(a, b plan.Rule) {
			if a.String() != b.String() {
				c.addChange(Change{Subject: subject(b), Old: text(a), New: text(b), Meaning: RuleChanged})
			}
		})
}
