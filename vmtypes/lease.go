package vmtypes

import (
	"fmt"

	"go.starlark.net/starlark"

	"vmop/vmtypes/plan"
)

// leaseOf reads a value that looks like vm.network[].lease; nil: there is none.
func leaseOf(t plan.Tap, v starlark.Value) (*plan.Lease, error) {
	if v == nil {
		return nil, nil
	}
	if t.Bridge == "" || t.MAC == "" {
		return nil, fmt.Errorf("tap: %s: lease wants bridge and mac: it is for the guest with that hardware address", t.Name)
	}
	var a attributes
	l := &plan.Lease{Address: a.text(v, "lease", "address"), Gateway: a.text(v, "lease", "gateway")}
	if names := a.get(v, "lease", "nameservers"); names != starlark.None {
		l.Nameservers = a.texts(names, "lease.nameservers", "addresses")
		l.Search = a.texts(names, "lease.nameservers", "search")
	}
	for i, route := range a.list(v, "lease", "routes") {
		at := fmt.Sprintf("lease.routes[%d]", i)
		l.Routes = append(l.Routes, plan.Route{To: a.text(route, at, "to"), Via: a.text(route, at, "via")})
	}
	return l, a.err
}

// attributes reads those of values that are known by a path; err is the first fault.
type attributes struct{ err error }

func (a *attributes) want(path string, v starlark.Value, what string) {
	if a.err == nil {
		a.err = fmt.Errorf("tap: %s is %s, want %s", path, article(v), what)
	}
}

// get returns an attribute of the value at a path, None after a fault.
func (a *attributes) get(v starlark.Value, path, name string) starlark.Value {
	if has, ok := v.(starlark.HasAttrs); ok {
		if found, err := has.Attr(name); err == nil && found != nil {
			return found
		}
	}
	a.want(path, v, "a struct with "+name)
	return starlark.None
}

func (a *attributes) text(v starlark.Value, path, name string) string {
	found := a.get(v, path, name)
	text, ok := starlark.AsString(found)
	if !ok {
		a.want(path+"."+name, found, "a string")
	}
	return text
}

func (a *attributes) list(v starlark.Value, path, name string) (all []starlark.Value) {
	found := a.get(v, path, name)
	items, ok := found.(starlark.Iterable)
	if !ok {
		a.want(path+"."+name, found, "a list")
		return nil
	}
	for item := range starlark.Elements(items) {
		all = append(all, item)
	}
	return all
}

func (a *attributes) texts(v starlark.Value, path, name string) (all []string) {
	for i, item := range a.list(v, path, name) {
		text, ok := starlark.AsString(item)
		if !ok {
			a.want(fmt.Sprintf("%s.%s[%d]", path, name, i), item, "a string")
		}
		all = append(all, text)
	}
	return all
}
