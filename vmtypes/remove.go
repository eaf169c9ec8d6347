package vmtypes

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"vmop/vmtypes/plan"
)

// removeAll removes everything that a list of selectors matches, and reports all selectors without a match.
func (p *partValue) removeAll(selectors starlark.Iterable) error {
	if selectors == nil {
		return nil
	}
	var missing []string
	err := walkElements("replace: remove", selectors, 0, `a string such as "-device sound0"`,
		func(v starlark.Value) bool {
			sel, ok := starlark.AsString(v)
			if fault := ""; ok {
				if strings.HasPrefix(sel, "-") {
					fault = p.removeOption(sel)
				} else {
					fault = p.removeThing(sel)
				}
				if fault != "" {
					missing = append(missing, fault)
				}
			}
			return ok
		})
	if err == nil && len(missing) > 0 {
		err = fmt.Errorf("replace: nothing to remove: %s", strings.Join(missing, "; "))
	}
	return err
}

// removeOption removes the options that a selector matches, together with rules and statements about a removed
// device or network. It returns an error message, or "".
func (p *partValue) removeOption(sel string) string {
	known := p.optionSelectors()
	if !dropElements(&p.options, func(o *plan.Option) bool { return selectsOption(sel, o) }) {
		return fmt.Sprintf("no option is %q%s", sel, didYouMeanOption(sel, known))
	}
	device, isDevice := strings.CutPrefix(sel, "-device ")
	netdev, isNetdev := strings.CutPrefix(sel, "-netdev ")
	dropElements(&p.rules, func(r madeRule) bool {
		_, isPorts := r.rule.(plan.Ports)
		about := plan.Device(r.rule)
		return isDevice && !isPorts && about == device || isNetdev && isPorts && about == netdev
	})
	if isDevice {
		p.rules = withoutBus(p.rules, device)
		dropElements(&p.stated, func(s statement) bool { return s.device == device })
	}
	return ""
}

// withoutBus returns the rules without a removed device as a bus for new disks, CD drives and network cards.
func withoutBus(rules []madeRule, device string) (left []madeRule) {
	for _, r := range rules {
		if disks, ok := r.rule.(plan.Disks); ok && strings.HasPrefix(disks.CDBus, device+".") {
			disks.CDDriver, disks.CDBus, disks.CDHolder = "", "", ""
			r.rule = disks
		}
		if disks, ok := r.rule.(plan.Disks); ok && slices.Contains(disks.Buses, device) {
			disks.Buses = slices.DeleteFunc(slices.Clone(disks.Buses), func(bus string) bool { return bus == device })
			if len(disks.Buses) == 0 {
				continue
			}
			r.rule = disks
		}
		if nics, ok := r.rule.(plan.NICs); ok && slices.Contains(nics.Buses, device) {
			nics.Buses = slices.DeleteFunc(slices.Clone(nics.Buses), func(bus string) bool { return bus == device })
			if len(nics.Buses) == 0 {
				continue
			}
			r.rule = nics
		}
		left = append(left, r)
	}
	return left
}

// removeThing removes everything that a selector matches by the first words of its line in the plan, such as
// "helper swtpm". It returns an error message, or "".
func (p *partValue) removeThing(sel string) string {
	s := p.keepUnselectedThings(sel)
	if role, isSocket := strings.CutPrefix(sel, "socket "); isSocket {
		dropElements(&p.stated, func(s statement) bool { return s.role == role })
	}
	kind, _, _ := strings.Cut(sel, " ")
	switch {
	case s.found:
		return ""
	case !slices.Contains(s.kinds, kind):
		return fmt.Sprintf("%q does not begin a line of a plan; use an option, \"-device sound0\", or one of %s "+
			"and a name, \"helper swtpm\"%s", sel, strings.Join(s.kinds, ", "), didYouMean(sel, s.known))
	}
	others := slices.DeleteFunc(s.known, func(name string) bool { return !strings.HasPrefix(name, kind+" ") })
	if hint := didYouMeanOption(sel, others); hint != "" || len(others) == 0 {
		return fmt.Sprintf("there is no %q%s", sel, hint)
	}
	return fmt.Sprintf("there is no %q (there is %s)", sel, strings.Join(others, ", "))
}

// keepUnselectedThings removes all elements that a selector matches, except options.
func (p *partValue) keepUnselectedThings(sel string) *selection {
	s := &selection{selector: sel}
	keepUnselected(s, "helper", &p.helpers, func(h plan.Process) []string { return []string{h.Name} })
	keepUnselected(s, "file", &p.files, func(f plan.CopyOnce) []string { return []string{filepath.Base(f.To), f.To} })
	keepUnselected(s, "tap", &p.taps, func(t plan.Tap) []string { return []string{t.Name} })
	keepUnselected(s, "listen", &p.listeners, func(l plan.Listener) []string { return []string{l.Name} })
	keepUnselected(s, "socket", &p.sockets, func(s plan.Socket) []string { return []string{s.Role} })
	keepUnselected(s, "rule", &p.rules, ruleNames)
	keepUnselected(s, "env", &p.env, func(v plan.Variable) []string { return []string{v.Name} })
	keepUnselected(s, "access", &p.access, func(a plan.Access) []string { return []string{a.Path} })
	return s
}

// Selector returns the name of an option in change(part, …) and in the argument remove of replace: "-device sound0". It
// returns "" for an option that they can't name.
func Selector(o plan.Option) string {
	if o.Flag == "-machine" || len(o.Origin) == 0 { // an argument of part, and options of vmrunner itself
		return ""
	}
	return selectorOf(&o)
}

// Things returns the names of everything in a plan that the argument remove of replace can name, except options:
// "helper swtpm", "rule balloon".
func Things(made *plan.Plan) []string {
	p := &partValue{
		env: made.QEMU.Env, access: made.QEMU.Access, helpers: made.Helpers, files: made.Files, taps: made.Taps,
		listeners: made.Listeners, sockets: made.Sockets,
	}
	for _, r := range made.Rules {
		p.rules = append(p.rules, madeRule{rule: r})
	}
	return slices.Compact(slices.Sorted(slices.Values(p.keepUnselectedThings("").known)))
}

// ruleNames returns the names of a rule: its kind, and its kind together with its subject, such as a device.
func ruleNames(made madeRule) []string {
	r := made.rule
	about := plan.Device(r)
	if password, ok := r.(plan.Password); ok {
		about = password.Protocol
	}
	if about == "" {
		return []string{r.Kind()}
	}
	return []string{r.Kind(), r.Kind() + " " + about}
}

// A selection is the state of a selector while it passes through the lists of a part.
type selection struct {
	selector string
	found    bool
	// kinds are the kinds of the lists; known are the selectors of all their elements.
	kinds, known []string
}

// keepUnselected removes the elements of a list that the selector matches.
func keepUnselected[T any](s *selection, kind string, list *[]T, names func(T) []string) {
	s.kinds = append(s.kinds, kind)
	gone := dropElements(list, func(element T) bool {
		for _, name := range names(element) {
			s.known = append(s.known, kind+" "+name)
			if s.selector == kind+" "+name {
				return true
			}
		}
		return false
	})
	s.found = s.found || gone
}

// dropElements replaces a list with a copy without some elements, and reports whether it removed any. It copies the
// list because other parts can share it.
func dropElements[T any](list *[]T, gone func(T) bool) bool {
	n := len(*list)
	*list = slices.DeleteFunc(slices.Clone(*list), gone)
	return len(*list) < n
}
