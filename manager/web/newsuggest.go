package web

import (
	"cmp"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"vmop/manager/web/fleet"
	"vmop/vmspec"
)

// usualImage is the suggested image.
const usualImage = "debian/12"

// Sizes of a new VM of a type without suggested sizes.
const (
	usualCPUs = 2
	usualRAM  = 2 << 30
	usualDisk = 20 << 30
)

// suggestedFields are the fields with suggested values. A suggestion can depend on the type and on earlier fields. It
// changes with them until the user enters another value.
var suggestedFields = []string{originField, "name", "cpus", "ram", "disk", "user", "key"}

// suggestedField begins the name of the hidden field with the suggestion for a field.
const suggestedField = "suggested."

// suggestAll fills in the fields without values. partly omits the choice of what the VM starts from, and its log-in,
// because an address with values describes the VM without them.
func (n *newVM) suggestAll(partly bool) {
	for _, field := range suggestedFields {
		switch omitted := partly && (field == originField || field == "user" || field == "key"); {
		case omitted:
		case n.values[field] == nil:
			n.suggestValue(field)
		case n.values.Get(field) == n.suggestionFor(field):
			n.suggestions[field] = n.values.Get(field)
		}
	}
}

// keepSuggestions reads the suggestions of a form. If renew is set, it replaces those that the user has not changed.
func (n *newVM) keepSuggestions(form url.Values, renew bool) {
	for _, field := range suggestedFields {
		old := form[suggestedField+field]
		switch {
		case old == nil || unixLines(n.values.Get(field)) != unixLines(old[0]):
		case renew:
			n.suggestValue(field)
		default:
			n.suggestions[field] = unixLines(old[0])
		}
	}
}

// suggestValue fills in the suggestion for a field.
func (n *newVM) suggestValue(field string) {
	text := n.suggestionFor(field)
	n.suggestions[field] = text
	if list := n.values[field]; len(list) > 1 { // further disks
		n.values[field] = append([]string{text}, list[1:]...)
		return
	}
	n.values.Set(field, text)
}

// suggestionFor returns the suggestion for a field.
func (n *newVM) suggestionFor(field string) string {
	known := strings.HasPrefix(n.values.Get(originField), fromKnown)
	switch field {
	case originField:
		return n.suggestedOrigin()
	case "name":
		return n.suggestedName()
	case "cpus":
		return strconv.FormatInt(cmp.Or(n.about.CPUs, usualCPUs), 10)
	case "ram":
		return vmspec.Bytes(cmp.Or(n.about.RAM, usualRAM)).String()
	case "disk":
		return vmspec.Bytes(cmp.Or(n.about.Disk, usualDisk)).String()
	case "user":
		if known {
			return n.offer.User
		}
	case "key":
		if known {
			return strings.Join(n.offer.Keys, "\n")
		}
	}
	return ""
}

// suggestedOrigin returns what a VM of this type usually starts from: a CD if its setup needs drivers, otherwise an
// image if the fleet has images with names.
func (n *newVM) suggestedOrigin() string {
	isUsual := func(k fleet.KnownImage) bool { return k.Name == usualImage }
	switch {
	case n.offer.Known != nil && n.about.Drivers != "":
		return fromCD
	case slices.ContainsFunc(n.offer.Known, isUsual):
		return fromKnown + usualImage
	}
	return fromNothing
}

// suggestedName returns a name that no VM has, after what the VM starts from.
func (n *newVM) suggestedName() string {
	origin := n.values.Get(originField)
	base := strings.TrimPrefix(origin, fromKnown)
	if origin == fromFile || origin == fromCD {
		base = path.Base(strings.ReplaceAll(n.values.Get(origin), "\\", "/"))
		base = strings.TrimSuffix(base, path.Ext(base))
	}
	base = regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(base), "-")
	base = cmp.Or(strings.Trim(base[:min(len(base), 40)], "-"), "vm")
	name := base
	for i := 2; n.isTaken(name); i++ {
		name = base + "-" + strconv.Itoa(i)
	}
	return name
}

// isTaken reports whether a VM has this name.
func (n *newVM) isTaken(name string) bool {
	_, err := n.s.opts.Fleet.Get(name)
	return err == nil
}
