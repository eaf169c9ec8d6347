package plan

import (
	"strings"

	"vmop/vmtypes/qemuopt"
)

// checkRules checks that the subject of each rule exists.
func (c *checker) checkRules() {
	var at Origin
	device := func(kind, id string) {
		if _, ok := c.defined[thing{qemuopt.DeviceID, id}]; !ok {
			c.addFault(at, "hotplug.%s: there is no device with the id %q%s", kind, id,
				c.suggestID(qemuopt.DeviceID, id))
		}
	}
	seen := map[string]bool{}
	var memory, affinity, disks, nics Rule
	for i, r := range c.plan.Rules {
		if at = nil; i < len(c.plan.RuleOrigins) {
			at = c.plan.RuleOrigins[i]
		}
		if key := r.String(); seen[key] {
			c.addFault(at, "hotplug.%s is given twice: %s", r.Kind(), key)
		} else {
			seen[key] = true
		}
		switch r := r.(type) {
		case CPUs:
			if strings.Count(r.ID, "%d") != 1 || strings.Count(r.ID, "%") != 1 {
				c.addFault(at, "hotplug.cpus: id = %q must contain one %%d, for the number of the CPU", r.ID)
			}
			if r.Boot < 1 || r.Maximum < r.Boot {
				c.addFault(at, "hotplug.cpus: boot = %d, maximum = %d; required: 1 <= boot <= maximum", r.Boot, r.Maximum)
			}
		case Balloon:
			device("balloon", r.Device)
			c.onlyOne(r, at, &memory, "would both follow vm.currentRam")
		case Memory:
			device("memory", r.Device)
			c.onlyOne(r, at, &memory, "would both follow vm.currentRam")
			if r.Base < 1 || r.Maximum < r.Base || r.Block < 1 {
				c.addFault(at, "hotplug.memory: base = %d, maximum = %d, block = %d; required: 1 <= base <= maximum and "+
					"1 <= block", r.Base, r.Maximum, r.Block)
			}
		case Medium:
			device("medium", r.Device)
		case Disk, Limits:
			device(r.Kind(), Device(r))
		case Disks:
			c.checkPluggable(r, at, device)
			c.onlyOne(r, at, &disks, "would both attach the drives")
		case NICs, Link:
			c.checkNetworkRule(r, at, &nics, device)
		case Affinity:
			c.checkAffinity(r, at)
			c.onlyOne(r, at, &affinity, "would both place the guest's CPUs")
		case Ports:
			c.checkPorts(r, at)
		case Password:
			if r.Protocol != "spice" && r.Protocol != "vnc" {
				c.addFault(at, "hotplug.password: protocol = %q, but must be spice or vnc", r.Protocol)
			}
		}
	}
}

// checkPorts checks that the network of a rule exists.
func (c *checker) checkPorts(r Ports, at Origin) {
	if _, ok := c.defined[thing{qemuopt.Netdev, r.Netdev}]; !ok {
		c.addFault(at, "hotplug.ports: there is no network backend with the id %q%s", r.Netdev,
			c.suggestID(qemuopt.Netdev, r.Netdev))
	}
}

// checkPluggable checks that the buses for disks and CD drives exist.
func (c *checker) checkPluggable(r Disks, at Origin, device func(kind, id string)) {
	for _, bus := range r.Buses {
		device("disks", bus)
	}
	if r.Driver == "" || len(r.Buses) < 1 || len(r.Buses) > MaxPluggedDisks {
		c.addFault(at, "hotplug.disks: driver = %q and %d buses; required: a driver and 1 to %d buses", r.Driver, len(r.Buses),
			MaxPluggedDisks)
	}
	controller, _, isBus := strings.Cut(r.CDBus, ".")
	switch {
	case r.CDDriver == "" && r.CDBus+r.CDHolder == "":
	case r.CDDriver == "" || !isBus:
		c.addFault(at, "hotplug.disks: cd_driver = %q, cd_bus = %q; required: a driver and a bus, such as usb.0", r.CDDriver, r.CDBus)
	default:
		device("disks", controller)
	}
}

// onlyOne rejects a second rule that controls the same thing as first.
func (c *checker) onlyOne(r Rule, at Origin, first *Rule, both string) {
	if *first != nil {
		c.addFault(at, "%s and %s %s; a machine can have one of them", *first, r, both)
	}
	*first = r
}
