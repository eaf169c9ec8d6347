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
		"affinity": starlark.NewBuiltin("hotplug.affinity", hotplugAffinity),
		"cpus":     starlark.NewBuiltin("hotplug.cpus", hotplugCPUs),
		"balloon":  starlark.NewBuiltin("hotplug.balloon", hotplugBalloon),
		"memory":   starlark.NewBuiltin("hotplug.memory", hotplugMemory),
		"medium":   starlark.NewBuiltin("hotplug.medium", hotplugMedium),
		"disk":     starlark.NewBuiltin("hotplug.disk", hotplugDisk),
		"disks":    starlark.NewBuiltin("hotplug.disks", hotplugDisks),
		"ports":    starlark.NewBuiltin("hotplug.ports", hotplugPorts),
		"password": starlark.NewBuiltin("hotplug.password", hotplugPassword),
	}}
}

func newRule(r plan.Rule) starlark.Value {
	return &ruleValue{value: value{kind: "hotplug rule", text: r.String()}, rule: r}
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

func hotplugDisks(
	_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple,
) (starlark.Value, error) {
	var r plan.Disks
	var buses *starlark.List
	if err := starlark.UnpackArgs(b.Name(), args, kwargs, "driver", &r.Driver, "buses", &buses,
		"cd_driver?", &r.CDDriver, "cd_bus?", &r.CDBus, "cd_holder?", &r.CDHolder); err != nil {
		return nil, err
	}
	for i := range buses.Len() {
		bus, ok := starlark.AsString(buses.Index(i))
		if !ok {
			return nil, fmt.Errorf("%s: buses[%d] must be the id of a device as a string, not %s", b.Name(), i,
				withArticle(buses.Index(i)))
		}
		r.Buses = append(r.Buses, bus)
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
