package vmtypes

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"go.starlark.net/starlark"

	"vmop/vmtypes/plan"
)

// removeAll takes away what the selectors of a list name, and reports all of those that
// name nothing.
func (p *partValue) removeAll(selectors starlark.Iterable) error {
	if selectors == nil {
		return nil
	}
	var missing []string
	err := walk("replace: remove", selectors, 0, `a string such as "-device sound0"`, func(v starlark.Value) bool {
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

// removeOption drops the options that a selector names, and what is said about a
// device or network that is gone. It returns what is wrong, or "".
func (p *partValue) removeOption(sel string) string {
	known := p.selectors()
	if !drop(&p.options, func(o *plan.Option) bool { return selects(sel, o) }) {
		return fmt.Sprintf("no option is %q%s", sel, didYouMean(sel, known))
	}
	device, isDevice := strings.CutPrefix(sel, "-device ")
	netdev, isNetdev := strings.CutPrefix(sel, "-netdev ")
	drop(&p.rules, func(r plan.Rule) bool {
		_, isPorts := r.(plan.Ports)
		return isDevice && !isPorts && plan.Device(r) == device || isNetdev && isPorts && plan.Device(r) == netdev
	})
	if isDevice {
		p.rules = withoutBus(p.rules, device)
		drop(&p.stated, func(s statement) bool { return s.device == device })
	}
	return ""
}

// withoutBus returns rules by which no disk, and no CD drive, is attached to a device that is gone.
func withoutBus(rules []plan.Rule, device string) (left []plan.Rule) {
	for _, r := range rules {
		if disks, ok := r.(plan.Disks); ok && strings.HasPrefix(disks.CDBus, device+".") {
			disks.CDDriver, disks.CDBus, disks.CDHolder = "", "", ""
			r = disks
		}
		if disks, ok := r.(plan.Disks); ok && slices.Contains(disks.Buses, device) {
			disks.Buses = slices.DeleteFunc(slices.Clone(disks.Buses), func(bus string) bool { return bus == device })
			if len(disks.Buses) == 0 {
				continue
			}
			r = disks
		}
		left = append(left, r)
	}
	return left
}

// removeThing drops what a selector names by the first words of its line in the plan:
// "helper swtpm". It returns what is wrong, or "".
func (p *partValue) removeThing(sel string) string {
	s := &selection{selector: sel}
	keep(s, "helper", &p.helpers, func(h plan.Process) []string { return []string{h.Name} })
	keep(s, "file", &p.files, func(f plan.CopyOnce) []string { return []string{filepath.Base(f.To), f.To} })
	keep(s, "tap", &p.taps, func(t plan.Tap) []string { return []string{t.Name} })
	keep(s, "listen", &p.listeners, func(l plan.Listener) []string { return []string{l.Name} })
	keep(s, "socket", &p.sockets, func(s plan.Socket) []string { return []string{s.Role} })
	keep(s, "rule", &p.rules, ruleNames)
	keep(s, "env", &p.env, func(v plan.Variable) []string { return []string{v.Name} })
	keep(s, "access", &p.access, func(a plan.Access) []string { return []string{a.Path} })
	if role, isSocket := strings.CutPrefix(sel, "socket "); isSocket {
		drop(&p.stated, func(s statement) bool { return s.role == role })
	}
	kind, _, _ := strings.Cut(sel, " ")
	switch {
	case s.found:
		return ""
	case !slices.Contains(s.kinds, kind):
		return fmt.Sprintf("%q is not the beginning of a line of a plan; want an option, \"-device sound0\", or one of %s "+
			"and a name, \"helper swtpm\"%s", sel, strings.Join(s.kinds, ", "), didYouMean(sel, s.known))
	}
	others := slices.DeleteFunc(s.known, func(name string) bool { return !strings.HasPrefix(name, kind+" ") })
	if hint := didYouMean(sel, others); hint != "" || len(others) == 0 {
		return fmt.Sprintf("there is no %q%s", sel, hint)
	}
	return fmt.Sprintf("there is no %q (there is %s)", sel, strings.Join(others, ", "))
}

// ruleNames are the names of a rule: that of its kind, which all of them have, and with
// what it is about.
func ruleNames(r plan.Rule) []string {
	about := plan.Device(r)
	if password, ok := r.(plan.Password); ok {
		about = password.Protocol
	}
	if about == "" {
		return []string{r.Kind()}
	}
	return []string{r.Kind(), r.Kind() + " " + about}
}

// A selection is a selector on its way through the lists of a part.
type selection struct {
	selector string
	found    bool
	// kinds are those of the lists, known the selectors of what is in them.
	kinds, known []string
}

// keep drops what the selector names from a list.
func keep[T any](s *selection, kind string, list *[]T, names func(T) []string) {
	s.kinds = append(s.kinds, kind)
	gone := drop(list, func(element T) bool {
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

// drop makes a list without some of its elements, and reports whether there were such.
// The list is another part's, too.
func drop[T any](list *[]T, gone func(T) bool) bool {
	n := len(*list)
	*list = slices.DeleteFunc(slices.Clone(*list), gone)
	return len(*list) < n
}
