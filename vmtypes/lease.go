package vmtypes

import (
	"fmt"

	"go.starlark.net/starlark"

	"vmop/vmtypes/plan"
)

// leaseOf reads a value with the attributes of vm.network[].lease. It returns nil if v is nil.
func leaseOf(t plan.Tap, v starlark.Value) (*plan.Lease, error) {
	if v == nil {
		return nil, nil
	}
	if t.Bridge == "" || t.MAC == "" {
		return nil, fmt.Errorf("tap: %s: lease wants bridge and mac: it is for the guest with that hardware address", t.Name)
	}
	var a attributes
	l := &plan.Lease{Address: a.textAttribute(v, "lease", "address"), Gateway: a.textAttribute(v, "lease", "gateway")}
	if names := a.attributeOf(v, "lease", "nameservers"); names != starlark.None {
		l.Nameservers = a.textsAttribute(names, "lease.nameservers", "addresses")
		l.Search = a.textsAttribute(names, "lease.nameservers", "search")
	}
	for i, route := range a.listAttribute(v, "lease", "routes") {
		at := fmt.Sprintf("lease.routes[%d]", i)
		l.Routes = append(l.Routes, plan.Route{
			To:  a.textAttribute(route, at, "to"),
			Via: a.textAttribute(route, at, "via"),
		})
	}
	return l, a.err
}

// attributes reads nested attributes of Starlark values. err is the first error.
type attributes struct{ err error }

func (a *attributes) reportWanted(path string, v starlark.Value, what string) {
	if a.err == nil {
		a.err = fmt.Errorf("tap: %s must be %s, not %s", path, what, withArticle(v))
	}
}

// attributeOf returns an attribute of the value at a path, or None after an error.
func (a *attributes) attributeOf(v starlark.Value, path, name string) starlark.Value {
	if has, ok := v.(starlark.HasAttrs); ok {
		if found, err := has.Attr(name); err == nil && found != nil {
			return found
		}
	}
	a.reportWanted(path, v, "a struct with "+name)
	return starlark.None
}

func (a *attributes) textAttribute(v starlark.Value, path, name string) string {
	found := a.attributeOf(v, path, name)
	text, ok := starlark.AsString(found)
	if !ok {
		a.reportWanted(path+"."+name, found, "a string")
	}
	return text
}

func (a *attributes) listAttribute(v starlark.Value, path, name string) (all []starlark.Value) {
	found := a.attributeOf(v, path, name)
	items, ok := found.(starlark.Iterable)
	if !ok {
		a.reportWanted(path+"."+name, found, "a list")
		return nil
	}
	for item := range starlark.Elements(items) {
		all = append(all, item)
	}
	return all
}

func (a *attributes) textsAttribute(v starlark.Value, path, name string) (all []string) {
	for i, item := range a.listAttribute(v, path, name) {
		text, ok := starlark.AsString(item)
		if !ok {
			a.reportWanted(fmt.Sprintf("%s.%s[%d]", path, name, i), item, "a string")
		}
		all = append(all, text)
	}
	return all
}
