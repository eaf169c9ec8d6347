package web

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"vmop/cloudinit"
	"vmop/manager/web/fleet"
)

// readFields makes the draft from the form's values, and records invalid values.
func (n *newVM) readFields() {
	get := func(name string) string { return strings.TrimSpace(n.values.Get(name)) }
	d := &fleet.Draft{
		Name: get("name"), Type: get("type"), Medium: get("cd"), Network: get("network"), User: get("user"),
		RunPolicy: get("policy"), Class: get("vmclass"),
		Screen: get("screen") == yes, Password: get("withpassword") == yes, Options: map[string]string{},
	}
	n.draft = d
	d.CD = d.Medium != "" || get("drive") == yes
	if d.Name == "" {
		n.faults.addFault(fleet.FieldName, n.T("new.noname"))
	}
	var err error
	if d.CPUs, err = strconv.ParseInt(get("cpus"), 10, 64); err != nil || d.CPUs < 1 {
		n.faults.addFault(fleet.FieldCPUs, n.T("new.nonumber"))
	}
	var ok bool
	if d.RAM, ok = parseBytes(get("ram")); !ok || d.RAM < 1<<20 {
		n.faults.addFault(fleet.FieldRAM, n.T("new.nosize"))
	}
	d.RAM = d.RAM >> 20 << 20
	if d.Network == "" && n.vmClass().Network == "" && len(n.offer.Networks) > 0 {
		d.Network = n.offer.Networks[0]
		if n.offer.VMClasses == nil {
			n.values.Set("network", d.Network)
		}
	}
	if text := get("share"); n.offer.VMClasses != nil && text != "" {
		if !regexp.MustCompile(`^([1-9][0-9]?|100)%?$`).MatchString(text) {
			n.faults.addFault(fleet.FieldShare, n.T("new.badshare"))
		}
		d.Fraction = strings.TrimSuffix(text, "%") + "%"
	}
	n.readOrigin()
	n.readDisks()
	n.readUser()
	for _, o := range n.about.Options {
		n.readOption(o)
	}
}

// vmClass returns the chosen or default class. Its name is empty if there is no such class.
func (n *newVM) vmClass() fleet.VMClass {
	name := strings.TrimSpace(n.values.Get("vmclass"))
	for _, c := range n.offer.VMClasses {
		if name == c.Name || name == "" && c.Preset {
			return c
		}
	}
	return fleet.VMClass{}
}

// typeName returns the chosen VM type, or the default of the class.
func (n *newVM) typeName() string {
	name := n.values.Get("type")
	if name == "" && n.offer.VMClasses != nil {
		return cmp.Or(n.vmClass().Type, n.offer.Type)
	}
	return name
}

// readUser parses the user that cloud-init creates.
func (n *newVM) readUser() {
	userName := regexp.MustCompile(`^[a-z_][a-z0-9_-]{0,31}$`)
	keys, err := cloudinit.PublicKeys(unixLines(n.values.Get("key")))
	switch {
	case strings.Contains(n.values.Get("key"), privateKey):
		n.values.Del("key")
		n.faults.addFault("key", n.T("new.privatekey"))
	case err != nil:
		n.faults.addFault("key", n.T("new.badkey"))
	}
	n.draft.Keys = keys
	switch user := n.draft.User; {
	case user == "" && (len(keys) > 0 || n.draft.Password):
		n.faults.addFault(fleet.FieldUser, n.T("new.nouser"))
	case user != "" && !userName.MatchString(user):
		n.faults.addFault(fleet.FieldUser, n.T("new.baduser"))
	}
}

// readOption parses the value of an option of the VM type. The type itself checks whether the value is allowed.
func (n *newVM) readOption(o fleet.Option) {
	field := optionField + o.Name
	if slices.Contains(n.vmClass().Locked, o.Name) {
		return
	}
	text := strings.TrimSpace(unixLines(n.values.Get(field)))
	if text == "" {
		if o.Mandatory && !slices.Contains(n.vmClass().Options, o.Name) {
			n.faults.addFault(field, n.T("new.mandatory"))
		}
		return
	}
	switch o.Kind {
	case "string", "file", "duration", "percent", "rate":
		quoted, _ := json.Marshal(text) // strings always marshal
		text = string(quoted)
	case "int":
		if _, err := strconv.ParseInt(text, 10, 64); err != nil {
			n.faults.addFault(field, n.T("new.nonumber"))
			return
		}
	case "size":
		size, ok := parseBytes(text)
		if !ok {
			n.faults.addFault(field, n.T("new.nosize"))
			return
		}
		text = strconv.FormatInt(size, 10)
	}
	n.draft.Options[o.Name] = text
}
