package policy

import (
	"encoding/json"
	"slices"
	"strings"

	"vmop/vmtypes/plan"
)

// receivedLimits is the name, in messages, of the limits for a type from another runner.
const receivedLimits = "the limits for a VM type that came from another runner (docs/concepts/invitations.md)"

// CheckReceived judges a plan from a VM type that another runner sent. own is the plan that this side's type computes
// for the same VM on the same host. Inside the machine, the received type may use all flags, devices and backends of
// the stock types. On the host, it may only use firmware and the same things as the own plan: its QEMU must be the same
// program, in the same sandbox, with the same networks and displays. The error is an *Error.
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
	rest.QEMU.Env = withoutThings(made.QEMU.Env, own.QEMU.Env)
	rest.Helpers = withoutThings(made.Helpers, own.Helpers)
	c.selfConfined(rest.Helpers, own.Helpers)
	c.ownOnly(made.QEMU.Args)
	c.ownTaps(withoutThings(made.Taps, own.Taps))
	rest.Taps = nil
	c.checkPlan(&rest)
	c.checkHotplug(made.Rules)
	if len(c.violations) == 0 {
		return nil
	}
	return &Error{Type: made.Type, Violations: c.violations, Received: true}
}

const sandboxFlag = "-sandbox"

// hostSide returns the options that determine what a guest can reach, and what can reach the guest.
func hostSide() []string { return []string{"-netdev", "-vnc", "-spice", sandboxFlag} }

// ownOnly denies options from hostSide that are missing in the own plan.
func (c *checker) ownOnly(args []plan.Option) {
	for i := range args {
		o := &args[i]
		if slices.Contains(hostSide(), "-"+strings.TrimLeft(o.Flag, "-")) && !c.own.hasOption(o) {
			c.at = o
			c.denyAlways("this side's own type has no such option, which decides what the guest reaches, or who reaches it")
		}
	}
	c.at = nil
}

// ownTaps denies taps that are missing in the own plan.
func (c *checker) ownTaps(others []plan.Tap) {
	for _, t := range others {
		c.at, c.what = &plan.Option{Origin: t.Origin}, "the tap "+t.Name
		c.denyAlways("this side's own type has no such tap")
	}
	c.at = nil
}

// selfConfined denies helpers that confine themselves, unless the own plan contains such a helper with the same
// program.
func (c *checker) selfConfined(helpers, own []plan.Process) {
	for _, h := range helpers {
		if h.Exempt && !slices.ContainsFunc(own, func(p plan.Process) bool {
			return p.Exempt && p.Executable == h.Executable
		}) {
			c.what = "the helper " + h.Name
			c.denyAlways("confined = False of " + h.Executable + " is not accepted from another runner")
		}
	}
}

// checkHotplug judges the drivers of devices that are attached later.
func (c *checker) checkHotplug(rules plan.Rules) {
	c.what = "disks attached while the VM is running"
	for _, r := range rules {
		disks, is := r.(plan.Disks)
		for _, driver := range []string{disks.Driver, disks.CDDriver, disks.CDHolder} {
			if is && driver != "" {
				c.checkDriver(driver)
			}
		}
	}
}

// uses contains what a plan uses: whole options, and words in the lists of a rule.
type uses struct {
	options, words map[string]bool
	learning       bool // record every requested word, and allow it
}

// usesOf returns what a plan uses.
func usesOf(own *plan.Plan, s Subject) *uses {
	u := &uses{options: map[string]bool{}, words: map[string]bool{}, learning: true}
	c := &checker{policy: &Policy{}, subject: s, own: u, rule: &Rule{Helpers: []Helper{{Program: Stock}}}}
	c.checkPlan(own)
	c.checkHotplug(own.Rules)
	u.learning = false
	for i := range own.QEMU.Args {
		u.options[textOf(&own.QEMU.Args[i])] = true
	}
	return u
}

// hasOption reports whether the plan contains exactly this option.
func (u *uses) hasOption(o *plan.Option) bool { return u != nil && u.options[textOf(o)] }

// usesWord reports whether the plan uses a word of a list.
func (u *uses) usesWord(list, word string) bool {
	if u == nil || list == "environment" { // for a variable, its value matters
		return false
	}
	if u.learning {
		u.words[list+" "+word] = true
	}
	return u.words[list+" "+word]
}

// textOf returns an option as it appears on the command line.
func textOf(o *plan.Option) string {
	return strings.Join(o.Words(func(name string) string { return "<" + name + ">" }), "\x00")
}

// withoutThings returns the elements of list that are missing in others. It ignores their origins in the VM type.
func withoutThings[T any](list, others []T) (rest []T) {
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

// contentOf returns an element of a plan as text, without its origins; "" if the encoding fails.
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
