package cluster

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	v1 "vmop/api/v1"
	"vmop/manager/vm/class"
	"vmop/manager/web/fleet"
)

// vmClasses returns the VirtualMachineClasses that are ready; nil if there are none, or they are not known.
func (f *Fleet) vmClasses() (offered []fleet.VMClass) {
	all, _ := f.opts.Store.Classes()
	preset, _ := class.DefaultOf(all)
	for _, c := range all {
		if c.Status.Phase == v1.ClassReady {
			offered = append(offered, vmClass(c, c == preset))
		}
	}
	slices.SortFunc(offered, func(a, b fleet.VMClass) int { return cmp.Compare(a.Name, b.Name) })
	return offered
}

// vmClass converts a class for forms.
func vmClass(c *v1.VirtualMachineClass, preset bool) fleet.VMClass {
	of := fleet.VMClass{Name: c.Name, Preset: preset, Sizes: class.Sizes(c)}
	for _, p := range c.Spec.SizingPolicies {
		allowed, preset := class.Fractions(&p)
		if allowed != nil || preset != "" {
			of.Fractions = append(of.Fractions, fleet.Fractions{
				Least: int64(p.Cores.Min), Most: int64(p.Cores.Max), Allowed: allowed, Preset: preset,
			})
		}
	}
	for _, name := range c.Spec.LockedOptions {
		of.Locked = append(of.Locked, string(name))
	}
	if c.Spec.VMType != nil {
		of.Type = c.Spec.VMType.Source
	}
	d := c.Spec.Defaults
	if d == nil {
		return of
	}
	if d.Options != nil {
		var options map[string]json.RawMessage
		_ = json.Unmarshal(d.Options.Raw, &options) // the API server has validated it
		of.Options = slices.Sorted(maps.Keys(options))
	}
	if len(d.Networks) > 0 {
		switch n := d.Networks[0]; {
		case n.Tap != nil:
			of.Network = "tap"
		case n.Masquerade != nil:
			of.Network = "masquerade"
		default:
			of.Network = "user"
		}
	}
	return of
}
