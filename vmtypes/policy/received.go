package policy

import (
	"encoding/json"
	"slices"
	"strings"

	"vmop/vmtypes/plan"
)

// receivedLimits is what denies things to a type that another runner has sent, as messages name it.
const receivedLimits = "the limits for a VM type that came from another runner (docs/migration.md)"

// CheckReceived judges a plan that was made by a VM type which another runner has sent. own is the plan that this
// side's type makes for the same VM, on the same host. The received type may have QEMU create other hardware, as stock
// types do. On the host it uses what the own plan uses, and firmware. Its QEMU is the same program, in the same
// sandbox, with the same networks and displays. The error is an *Error.
//
// See docs/decisions/0171-received-types.md.
func CheckReceived(made, own *plan.Plan, s Subject) error {
	s.Sample, s.Options, s.Images = true, nil, nil
	used := usesOf(own, s)
	c := &checker{policy: &Policy{}, subject: s, own: used, rule: &Rule{
		Types: []string{Stock}, Flags: []string{Stock}, Devices: []string{Stock}, Backends: []string{Stock},
		Read: []string{Stock}, Helpers: []Helper{{Program: Stock}},
		Unsandboxed: !slices.ContainsFunc(own.QEMU.Args, func(o plan.Option) bool { return o.Flag == sandboxFlag }),
	}}
	rest := *made
	rest.QEMU.Env = without(made.QEMU.Env, own.QEMU.Env)
	rest.Helpers = without(made.Helpers, own.Helpers)
	c.selfConfined(rest.Helpers, own.Helpers)
	c.ownOnly(made.QEMU.Args)
	c.ownTaps(without(made.Taps, own.Taps))
	rest.Taps = nil
	c.plan(&rest)
	c.hotplug(made.Rules)
	if len(c.violations) == 0 {
		return nil
	}
	return &Error{Type: made.Type, Violations: c.violations, Received: true}
}

const sandboxFlag = "-sandbox"

// hostSide are the options that say what a guest reaches, and who reaches the guest.
func hostSide() []string { return []string{"-netdev", "-vnc", "-spice", sandboxFlag} }

// ownOnly wants the options of the host's side to be those of the own plan.
func (c *checker) ownOnly(args []plan.Option) {
	for i := range args {
		o := &args[i]
		if slices.Contains(hostSide(), "-"+strings.TrimLeft(o.Flag, "-")) && !c.own.has(o) {
			c.at = o
			c.deny("this side's own type has no such option, which decides what the guest reaches, or who reaches it")
		}
	}
	c.at = nil
}

// ownTaps denies taps that are not in the own plan.
func (c *checker) ownTaps(others []plan.Tap) {
	for _, t := range others {
		c.at, c.what = &plan.Option{Origin: t.Origin}, "the tap "+t.Name
		c.deny("this side's own type has no such tap")
	}
	c.at = nil
}

// selfConfined denies helpers that confine themselves, unless the own plan has the same program do so.
func (c *checker) selfConfined(helpers, own []plan.Process) {
	for _, h := range helpers {
		if h.Exempt && !slices.ContainsFunc(own, func(p plan.Process) bool {
			return p.Exempt && p.Executable == h.Executable
		}) {
			c.what = "the helper " + h.Name
			c.deny("confined = False of " + h.Executable + " is not accepted from another runner")
		}
	}
}

// hotplug judges the drivers of devices that are attached later.
func (c *checker) hotplug(rules plan.Rules) {
	c.what = "disks that are attached while the VM runs"
	for _, r := range rules {
		disks, is := r.(plan.Disks)
		for _, driver := range []string{disks.Driver, disks.CDDriver, disks.CDHolder} {
			if is && driver != "" {
				c.driver(driver)
			}
		}
	}
}

// uses are what a plan uses: whole options, and words of the lists of a rule.
type uses struct {
	options, words map[string]bool
	learning       bool // what is asked for is noted, and allowed
}

// usesOf returns what a plan uses.
func usesOf(own *plan.Plan, s Subject) *uses {
	u := &uses{options: map[string]bool{}, words: map[string]bool{}, learning: true}
	c := &checker{policy: &Policy{}, subject: s, own: u, rule: &Rule{Helpers: []Helper{{Program: Stock}}}}
	c.plan(own)
	c.hotplug(own.Rules)
	u.learning = false
	for i := range own.QEMU.Args {
		u.options[textOf(&own.QEMU.Args[i])] = true
	}
	return u
}

// has reports whether a whole option is in the plan.
func (u *uses) has(o *plan.Option) bool { return u != nil && u.options[textOf(o)] }

// allows reports whether the plan uses a word of a list.
func (u *uses) allows(list, word string) bool {
	if u == nil || list == "environment" { // of a variable the value counts
		return false
	}
	if u.learning {
		u.words[list+" "+word] = true
	}
	return u.words[list+" "+word]
}

// textOf is an option as the words of a command line.
func textOf(o *plan.Option) string {
	return strings.Join(o.Words(func(name string) string { return "<" + name + ">" }), "\x00")
}

// without returns the things of a plan that are not among others, wherever in a VM type they were made.
func without[T any](list, others []T) (rest []T) {
	known := map[string]bool{}
	for _, o := range others {
		known[contentOf(o)] = true
	}
	for _, o := range list {
		if text := contentOf(o); text == "" || !known[text] {
			rest = append(rest, o)
		}
	}
	return rest
}

// contentOf returns a thing of a plan as text, without where it was made; "" if it has none.
func contentOf[T any](thing T) string {
	var unplaced any = thing
	switch t := unplaced.(type) {
	case plan.Process:
		t.Args, t.Access = append([]plan.Option{}, t.Args...), slices.Clone(t.Access)
		for i := range t.Args {
			t.Args[i].Origin = nil
		}
		for i := range t.Access {
			t.Access[i].Origin = nil
		}
		unplaced = t
	case plan.Tap:
		t.Origin = nil
		unplaced = t
	}
	text, err := json.Marshal(unplaced)
	if err != nil {
		return ""
	}
	return string(text)
}
