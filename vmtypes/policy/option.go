package policy

import (
	"slices"
	"strconv"
	"strings"

	"vmop/vmspec"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// checkOption judges one option of QEMU.
func (c *checker) checkOption(o *plan.Option) {
	c.at = o
	defer func() { c.at = nil }()
	flag := "-" + strings.TrimLeft(o.Flag, "-")
	given := o
	spelled := *o
	spelled.Flag = flag // with one dash
	o = &spelled
	if isReadOtherwise(o) {
		c.denyAlways("QEMU would read it otherwise: it takes a value with an equals sign for a property")
		return
	}
	if c.isExactlyAllowed(o, flag) || c.own.hasOption(given) {
		return
	}
	if !c.allowWord("flags", flag, "the flag "+flag) {
		return
	}
	switch flag {
	case "-device":
		c.checkDevice(o)
	case "-global":
		c.checkGlobal(o)
	case "-blockdev":
		c.checkNode("blockdev", o.Properties, o.Value)
	case "-drive":
		c.checkDrive(o)
	case "-serial":
		if word := o.Value; o.List || word != "none" && !strings.HasPrefix(word, "chardev:") {
			c.denyAlways("QEMU could open anything for " + strconv.Quote(word) +
				"; only none and chardev:ID can be allowed")
		}
	case "-vnc":
		c.checkVNC(o)
	case "-spice":
		c.checkSPICE(o)
	case "-netdev":
		c.checkNetdev(o)
	case "-sandbox":
		if _, again := o.Get("enable"); again {
			c.denyAlways("enable could switch the sandbox off; give on as the first value")
		}
		c.checkPlain(flag, o)
	default:
		c.checkPlain(flag, o)
	}
}

// isReadOtherwise reports whether QEMU's parser reads the text of an option differently from the plan.
func isReadOtherwise(o *plan.Option) bool {
	if !o.List {
		return false
	}
	value, pairs := qemuopt.Parse(o.Words(func(string) string { return "" })[1])
	return value != o.Value || !slices.EqualFunc(pairs, o.Properties, func(read qemuopt.Pair, p plan.Property) bool {
		return read.Key == p.Key && (read.Value == p.Value || p.Descriptor != "")
	})
}

// checkPlain judges an option using its row in the table.
func (c *checker) checkPlain(flag string, o *plan.Option) {
	name, row := flag, qemuopt.Flag(flag)
	backed := row != nil && row.Backed
	if backed {
		name, row = flag+" "+o.Value, qemuopt.Exactly(flag, o.Value)
	}
	known := row != nil && row.Known
	if !o.List {
		c.checkRaw(flag, name, backed && known && len(o.Properties) == 0, o.Value)
		return
	}
	switch {
	case !known:
		c.denyAlways("what " + name + " does on the host is unknown")
		return
	case backed && flag != "-numa": // policies omit these backends
		c.allowWord("backends", name[1:], name[1:])
	case !backed && row.First == qemuopt.Unknown && !isInert(o.Value):
		c.denyAlways("what the value " + strconv.Quote(o.Value) + " does on the host is unknown")
	}
	c.checkProperties(row, o.Properties)
	c.checkEndpoint(o)
}

// checkRaw judges a value that is a single text. QEMU interprets the commas in it.
func (c *checker) checkRaw(flag, name string, backend bool, value string) {
	effect := qemuopt.Unknown
	if row := qemuopt.Flag(flag); row != nil {
		effect = row.Text
	}
	switch {
	case effect == qemuopt.Alone && value != "":
		c.denyAlways(flag + " has no value; QEMU would take " + strconv.Quote(value) + " for an image")
	case effect != qemuopt.Alone && value == "":
		c.denyAlways(flag + " has no value here; QEMU would take the next option for it")
	case effect != qemuopt.Unknown:
		c.checkText(effect, value)
	case backend: // "-accel kvm", "-display none"
		c.allowWord("backends", name[1:], name[1:])
	default:
		c.denyAlways("it is a single text, which can contain any property; give its properties one by one")
	}
}

// checkProperties judges properties using their rows.
func (c *checker) checkProperties(row *qemuopt.Option, list []plan.Property) {
	for _, p := range list {
		c.checkProperty(row, p)
	}
}

func (c *checker) checkProperty(row *qemuopt.Option, p plan.Property) {
	if p.Descriptor != "" {
		return // taps and listeners are judged separately
	}
	known := row.Property(p.Key)
	key := strings.ToLower(p.Key)
	switch effect := known.Host; {
	case effect == qemuopt.Part: // judged by checkEndpoint
	case strings.HasSuffix(key, "fd") || strings.HasSuffix(key, "fds") || key == "fdset":
		c.byNumber(p.Key, p.Value)
	case known.Names == "" && strings.Contains(p.Key, "."):
		c.denyAlways("what the property " + p.Key + " does on the host is unknown")
	case effect == qemuopt.Unknown && !isInert(p.Value):
		c.denyAlways("what the property " + p.Key + " does on the host with the text " + strconv.Quote(p.Value) +
			" is unknown")
	case effect == qemuopt.Text && strings.HasPrefix(p.Value, "{"):
		c.denyAlways(p.Key + " is JSON, which can contain any property")
	default:
		c.checkText(effect, p.Value)
	}
}

func (c *checker) byNumber(key, value string) {
	c.denyAlways(key + "=" + value + " is the number of a file descriptor, which could be any; use tap or listen")
}

// checkEndpoint judges the address where an option listens or connects, if any.
func (c *checker) checkEndpoint(o *plan.Option) {
	at, is, err := o.Endpoint()
	switch {
	case !is:
	case err != nil:
		c.denyAlways(err.Error())
	case at.Number != "":
		c.byNumber("fd", at.Number)
	case at.Descriptor != "": // listeners are judged separately
	case at.Abstract:
		c.denyAlways("an abstract socket has no path that a policy could allow")
	case at.Path != "":
		c.checkFile("write", at.Path)
	case at.LastPort != "":
		c.denyAlways("it searches a range of ports, which a policy cannot allow; give one port")
	case at.Server:
		c.checkListen(at.Host, at.Port)
	default:
		c.denyAlways("it connects to " + at.Host + ":" + at.Port + "; a policy cannot allow outgoing connections")
	}
}

// checkText judges the effect of a text.
func (c *checker) checkText(effect qemuopt.Effect, value string) {
	if value == "" { // no file
		return
	}
	switch effect {
	case qemuopt.Reads, qemuopt.ReadsFolder:
		c.checkFile("read", value)
	case qemuopt.Writes, qemuopt.WritesFolder, qemuopt.Opens:
		c.checkFile("write", value)
	case qemuopt.ReadsEach:
		c.checkInitrd(value)
	case qemuopt.Runs:
		c.denyAlways("it runs a program, which a policy cannot allow")
	case qemuopt.Unknown, qemuopt.Text, qemuopt.Alone, qemuopt.Part:
	}
}

// checkInitrd judges an initial RAM disk. With a multiboot kernel, QEMU takes the text after a blank as an argument.
func (c *checker) checkInitrd(name string) {
	if fault := vmspec.InitrdFault(name); fault != "" {
		c.denyAlways(fault)
		return
	}
	c.checkFile("read", name)
	if before, _, argument := strings.Cut(name, " "); argument {
		c.checkFile("read", before)
	}
}

// checkDevice judges -device.
func (c *checker) checkDevice(o *plan.Option) {
	driver, properties := o.Value, o.Properties
	for i, p := range properties {
		if p.Key == "driver" {
			if driver != "" {
				c.denyAlways("it names two drivers")
			}
			driver = p.Value
			properties = append(append([]plan.Property{}, properties[:i]...), properties[i+1:]...)
			break
		}
	}
	c.checkDriver(driver)
	if !o.List && o.Value != "" && strings.ContainsAny(o.Value, ",={") {
		c.denyAlways("it is a single text, which can contain any property; give its properties one by one")
		return
	}
	c.checkProperties(qemuopt.Flag("-device"), properties)
}

// checkDriver judges the name of a device.
func (c *checker) checkDriver(name string) {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-") != "" {
		c.denyAlways(strconv.Quote(name) + " is not the name of a device")
		return
	}
	c.allowWord("devices", name, "the device "+name)
}

// checkGlobal judges -global, which sets a property for all devices of a driver.
func (c *checker) checkGlobal(o *plan.Option) {
	driver, key, value := "", "", ""
	if o.List && o.Value == "" {
		for _, p := range o.Properties {
			switch p.Key {
			case "driver":
				driver = p.Value
			case "property":
				key = p.Value
			case "value":
				value = p.Value
			default:
				c.denyAlways("-global has no property " + p.Key)
			}
		}
	} else {
		name, text, found := strings.Cut(o.Value, "=")
		dot := strings.Index(name, ".") // as QEMU does (qemu_global_option)
		if !found || dot < 0 || len(o.Properties) > 0 {
			c.denyAlways("must be driver.property=value")
			return
		}
		driver, key, value = name[:dot], name[dot+1:], text
	}
	c.checkDriver(driver)
	c.checkProperty(ofAnyDevice(), plan.Property{Key: key, Value: value})
}

// checkNetdev judges -netdev.
func (c *checker) checkNetdev(o *plan.Option) {
	if o.Value == "tap" && !slices.ContainsFunc(o.Properties, func(p plan.Property) bool {
		return p.Descriptor != "" && (p.Key == "fd" || p.Key == "fds")
	}) {
		c.denyAlways("QEMU would open the interface itself and run a script; give it the descriptor of a tap")
	}
	if o.Value != "user" {
		c.checkPlain("-netdev", o)
		return
	}
	c.allowWord("backends", "netdev user", "netdev user")
	c.allowWord("networks", "user", "the network user")
	for _, p := range o.Properties {
		if p.Key != "hostfwd" {
			c.checkProperty(qemuopt.Exactly("-netdev", "user"), p)
			continue
		}
		fields := strings.SplitN(p.Value, ":", 2) // proto:address:port-guest:port
		from, _, _ := strings.Cut(fields[len(fields)-1], "-")
		i := strings.LastIndex(from, ":")
		if i < 0 || fields[0] != "tcp" && fields[0] != "udp" {
			c.denyAlways("hostfwd=" + p.Value + " is not of the form protocol:address:port-address:port")
			continue
		}
		c.checkListen(from[:i], from[i+1:])
	}
}

// checkSPICE judges -spice.
func (c *checker) checkSPICE(o *plan.Option) {
	address, unix := "", false
	for _, p := range o.Properties {
		switch p.Key {
		case "addr":
			address = p.Value
		case "unix":
			var known bool
			if unix, known = qemuopt.Bool(p.Value); !known {
				c.denyAlways("unix=" + p.Value + " is not a switch; QEMU supports on and off")
			}
		}
	}
	if !o.List || o.Value != "" {
		c.denyAlways("it is a single text, which can contain any property; give its properties one by one")
	}
	for _, p := range o.Properties {
		switch {
		case p.Key == "port" && !unix || p.Key == "tls-port":
			c.checkListen(address, p.Value)
		case p.Key == "addr" && unix:
			c.checkFile("write", p.Value)
		case p.Key != "port":
			c.checkProperty(qemuopt.Flag("-spice"), p)
		}
	}
}

// checkVNC judges -vnc. The first value can also be given as the property vnc.
func (c *checker) checkVNC(o *plan.Option) {
	where, properties := o.Value, []plan.Property(nil)
	for _, p := range o.Properties {
		if p.Key == "vnc" && where == "" {
			where = p.Value
			continue
		}
		properties = append(properties, p)
	}
	path, unix := strings.CutPrefix(where, "unix:")
	i := strings.LastIndex(where, ":")
	switch {
	case !o.List && strings.Contains(where, ","):
		c.denyAlways("it is a single text, which can contain any property; give its properties one by one")
	case unix:
		c.checkFile("write", path)
	case where == "none":
	case i < 0:
		c.denyAlways("unknown address to listen on: " + strconv.Quote(where))
	default:
		display, err := strconv.Atoi(where[i+1:])
		if err != nil {
			c.denyAlways("unknown address to listen on: " + strconv.Quote(where))
			return
		}
		c.checkListen(where[:i], strconv.Itoa(5900+display))
	}
	for _, p := range properties {
		if p.Key == "to" || p.Key == "websocket" || p.Key == "reverse" {
			c.denyAlways(p.Key + " listens or connects elsewhere, which a policy cannot allow")
			continue
		}
		c.checkProperty(qemuopt.Flag("-vnc"), p)
	}
}
