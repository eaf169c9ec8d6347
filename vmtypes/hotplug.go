package vmtypes

import (
	"fmt"

	"go.starlark.net/starlark"

	"vmop/vmtypes/plan"
)

// hotplugModule returns the Starlark module hotplug. Its functions create rules about what may change while the VM is
// running. Rules are data; the runner translates them to QMP commands.
func hotplugModule() *moduleValue {
	return &moduleValue{"hotplug", starlark.StringDict{
		"affinity": withOrigin(starlark.NewBuiltin("hotplug.affinity", hotplugAffinity)),
		"cpus":     withOrigin(starlark.NewBuiltin("hotplug.cpus", hotplugCPUs)),
		"balloon":  withOrigin(starlark.NewBuiltin("hotplug.balloon", hotplugBalloon)),
		"memory":   withOrigin(starlark.NewBuiltin("hotplug.memory", hotplugMemory)),
		"medium":   withOrigin(starlark.NewBuiltin("hotplug.medium", hotplugMedium)),
		"disk":     withOrigin(starlark.NewBuiltin("hotplug.disk", hotplugDisk)),
		"limits":   withOrigin(starlark.NewBuiltin("hotplug.limits", hotplugLimits)),
		"disks":    withOrigin(starlark.NewBuiltin("hotplug.disks", hotplugDisks)),
		"nics":     withOrigin(starlark.NewBuiltin("hotplug.nics", hotplugNICs)),
		"link":     withOrigin(starlark.NewBuiltin("hotplug.link", hotplugLink)),
		"ports":    withOrigin(starlark.NewBuiltin("hotplug.ports", hotplugPorts)),
		"password": withOrigin(starlark.NewBuiltin("hotplug.password", hotplugPassword)),
	}}
}

// withOrigin returns a builtin that also records the origin of the rule that it creates.
func withOrigin(create *starlark.Builtin) *starlark.Builtin {
	return starlark.NewBuiltin(create.Name(), func(
		thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
	) (starlark.Value, error) {
		v, err := create.CallInternal(thread, args, kwargs)
		if r, ok := v.(*ruleValue); ok {
			r.made.at = originOf(thread)
		}
		return v, err
	})
}

func newRule(r plan.Rule) starlark.Value {
	return &ruleValue{value: value{kind: "hotplug rule", text: r.String()}, made: madeRule{rule: r}}
}

func hotplugCPUs(
	_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	r := plan.CPUs{Boot: 1, ID: "cpu-%d"}
	if err := starlark.UnpackArgs(b.Name(), args, kwargs,
		"maximum", &r.Maximum, "boot?", &r.Boot, "id?", &r.ID); err != nil {
		return nil, err
	}
	return newRule(r), nil
}

func hotplugBalloon(
	_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var r plan.Balloon
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "device", &r.Device, "maximum", &r.Maximum); err != nil {
		return nil, err
	}
	return newRule(r), nil
}

func hotplugMemory(
	_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	r := plan.Memory{Block: 2 << 20}
	if err := starlark.UnpackArgs(b.Name(), args, kwargs,
		"device", &r.Device, "base", &r.Base, "maximum", &r.Maximum, "block?", &r.Block); err != nil {
		return nil, err
	}
	return newRule(r), nil
}

func hotplugMedium(
	_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var r plan.Medium
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "drive", &r.Drive, "device", &r.Device); err != nil {
		return nil, err
	}
	return newRule(r), nil
}

func hotplugDisk(
	_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var r plan.Disk
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "drive", &r.Drive, "device", &r.Device); err != nil {
		return nil, err
	}
	return newRule(r), nil
}

func hotplugLimits(
	_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var r plan.Limits
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "drive", &r.Drive, "device", &r.Device); err != nil {
		return nil, err
	}
	return newRule(r), nil
}

func hotplugDisks(
	_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var r plan.Disks
	var buses *starlark.List
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "driver", &r.Driver, "buses", &buses,
		"cd_driver?", &r.CDDriver, "cd_bus?", &r.CDBus, "cd_holder?", &r.CDHolder); err != nil {
		return nil, err
	}
	var err error
	r.Buses, err = stringsOf(b.Name()+": buses", "the id of a device", buses)
	return newRule(r), err
}

// stringsOf returns the strings of a list. what names the list and each its items in errors.
func stringsOf(what, each string, list *starlark.List) (all []string, err error) {
	for i := range list.Len() {
		text, ok := starlark.AsString(list.Index(i))
		if !ok {
			return nil, fmt.Errorf("%s[%d] must be %s as a string, not %s", what, i, each, withArticle(list.Index(i)))
		}
		all = append(all, text)
	}
	return all, nil
}

func hotplugNICs(
	_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var buses, types *starlark.List
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "buses", &buses, "types?", &types); err != nil {
		return nil, err
	}
	r := plan.NICs{Types: plan.NICTypes()}
	var err error
	if r.Buses, err = stringsOf(b.Name()+": buses", "the id of a device", buses); err == nil && types != nil {
		r.Types, err = stringsOf(b.Name()+": types", "a type of networks", types)
	}
	return newRule(r), err
}

func hotplugLink(
	_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var r plan.Link
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "network", &r.Network, "device", &r.Device); err != nil {
		return nil, err
	}
	return newRule(r), nil
}

func hotplugPassword(
	_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var r plan.Password
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "protocol", &r.Protocol, "display?", &r.Display); err != nil {
		return nil, err
	}
	return newRule(r), nil
}

func hotplugPorts(
	_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var r plan.Ports
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "network", &r.Network, "netdev", &r.Netdev); err != nil {
		return nil, err
	}
	return newRule(r), nil
}
