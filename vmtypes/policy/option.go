package policy

import (
	"slices"
	"strconv"
	"strings"

	"vmop/vmspec"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// option judges one option of QEMU.
func (c *checker) option(o *plan.Option) {
	c.at = o
	defer func() { c.at = nil }()
	flag := "-" + strings.TrimLeft(o.Flag, "-")
	given := o
	spelled := *o
	spelled.Flag = flag // with one dash
	o = &spelled
	if isReadOtherwise(o) {
		c.deny("QEMU would read it otherwise: it takes a value with an equals sign for a property")
		return
	}
	if c.exactly(o, flag) || c.own.has(given) {
		return
	}
	if !c.allow("flags", flag, "the flag "+flag) {
		return
	}
	switch flag {
	case "-device":
		c.device(o)
	case "-global":
		c.global(o)
	case "-blockdev":
		c.node("blockdev", o.Properties, o.Value)
	case "-drive":
		c.drive(o)
	case "-serial":
		if word := o.Value; o.List || word != "none" && !strings.HasPrefix(word, "chardev:") {
			c.deny("QEMU could open anything for " + strconv.Quote(word) + "; only none and chardev:ID can be allowed")
		}
	case "-vnc":
		c.vnc(o)
	case "-spice":
		c.spice(o)
	case "-netdev":
		c.netdev(o)
	case "-sandbox":
		if _, again := o.Get("enable"); again {
			c.deny("enable could switch the sandbox off; give on as the first value")
		}
		c.plain(flag, o)
	default:
		c.plain(flag, o)
	}
}

// isReadOtherwise reports whether QEMU's parser finds something else in the text of an option than the plan has.
func isReadOtherwise(o *plan.Option) bool {
	if !o.List {
		return false
	}
	value, pairs := qemuopt.Parse(o.Words(func(string) string { return "" })[1])
	return value != o.Value || !slices.EqualFunc(pairs, o.Properties, func(read qemuopt.Pair, p plan.Property) bool {
		return read.Key == p.Key && (read.Value == p.Value || p.Descriptor != "")
	})
}

// plain judges an option by its row in the table.
func (c *checker) plain(flag string, o *plan.Option) {
	name, row := flag, qemuopt.Flag(flag)
	backed := row != nil && row.Backed
	if backed {
		name, row = flag+" "+o.Value, qemuopt.Exactly(flag, o.Value)
	}
	known := row != nil && row.Known
	if !o.List {
		c.raw(flag, name, backed && known && len(o.Properties) == 0, o.Value)
		return
	}
	switch {
	case !known:
		c.deny("what " + name + " does on the host is unknown")
		return
	case backed && flag != "-numa": // which takes part in nothing
		c.allow("backends", name[1:], name[1:])
	case !backed && row.First == qemuopt.Unknown && !inert(o.Value):
		c.deny("what the value " + strconv.Quote(o.Value) + " does on the host is unknown")
	}
	c.properties(row, o.Properties)
	c.endpoint(o)
}

// raw judges a value that is given in one piece, in which commas have a meaning.
func (c *checker) raw(flag, name string, backend bool, value string) {
	effect := qemuopt.Unknown
	if row := qemuopt.Flag(flag); row != nil {
		effect = row.Text
	}
	switch {
	case effect == qemuopt.Alone && value != "":
		c.deny(flag + " has no value; QEMU would take " + strconv.Quote(value) + " for an image")
	case effect != qemuopt.Alone && value == "":
		c.deny(flag + " has no value here; QEMU would take the next option for it")
	case effect != qemuopt.Unknown:
		c.text(effect, value)
	case backend: // "-accel kvm", "-display none"
		c.allow("backends", name[1:], name[1:])
	default:
		c.deny("it is a single text, which can contain any property; give its properties one by one")
	}
}

// properties judges properties by their rows.
func (c *checker) properties(row *qemuopt.Option, list []plan.Property) {
	for _, p := range list {
		c.property(row, p)
	}
}

func (c *checker) property(row *qemuopt.Option, p plan.Property) {
	if p.Descriptor != "" {
		return // of a tap or a listener, which are judged themselves
	}
	known := row.Property(p.Key)
	key := strings.ToLower(p.Key)
	switch effect := known.Host; {
	case effect == qemuopt.Part: // endpoint judges it
	case strings.HasSuffix(key, "fd") || strings.HasSuffix(key, "fds") || key == "fdset":
		c.byNumber(p.Key, p.Value)
	case known.Names == "" && strings.Contains(p.Key, "."):
		c.deny("what the property " + p.Key + " does on the host is unknown")
	case effect == qemuopt.Unknown && !inert(p.Value):
		c.deny("what the property " + p.Key + " does on the host with the text " + strconv.Quote(p.Value) +
			" is unknown")
	case effect == qemuopt.Text && strings.HasPrefix(p.Value, "{"):
		c.deny(p.Key + " is JSON, which can contain any property")
	default:
		c.text(effect, p.Value)
	}
}

func (c *checker) byNumber(key, value string) {
	c.deny(key + "=" + value + " is the number of a file descriptor, which could be any; use tap or listen")
}

// endpoint judges where an option listens or connects, if it does.
func (c *checker) endpoint(o *plan.Option) {
	at, is, err := o.Endpoint()
	switch {
	case !is:
	case err != nil:
		c.deny(err.Error())
	case at.Number != "":
		c.byNumber("fd", at.Number)
	case at.Descriptor != "": // of a listener, which is judged itself
	case at.Abstract:
		c.deny("an abstract socket has no path that a policy could allow")
	case at.Path != "":
		c.file("write", at.Path)
	case at.LastPort != "":
		c.deny("it searches a range of ports, which a policy cannot allow; give one port")
	case at.Server:
		c.listen(at.Host, at.Port)
	default:
		c.deny("it connects to " + at.Host + ":" + at.Port + "; a policy cannot allow outgoing connections")
	}
}

// text judges a text by what it can do.
func (c *checker) text(effect qemuopt.Effect, value string) {
	if value == "" { // no file
		return
	}
	switch effect {
	case qemuopt.Reads, qemuopt.ReadsFolder:
		c.file("read", value)
	case qemuopt.Writes, qemuopt.WritesFolder, qemuopt.Opens:
		c.file("write", value)
	case qemuopt.ReadsEach:
		c.initrd(value)
	case qemuopt.Runs:
		c.deny("it runs a program, which a policy cannot allow")
	case qemuopt.Unknown, qemuopt.Text, qemuopt.Alone, qemuopt.Part:
	}
}

// initrd judges an initial RAM disk. With a multiboot kernel QEMU takes what follows a blank for an argument.
func (c *checker) initrd(name string) {
	if fault := vmspec.InitrdFault(name); fault != "" {
		c.deny(fault)
		return
	}
	c.file("read", name)
	if before, _, argument := strings.Cut(name, " "); argument {
		c.file("read", before)
	}
}

// device judges -device.
func (c *checker) device(o *plan.Option) {
	driver, properties := o.Value, o.Properties
	for i, p := range properties {
		if p.Key == "driver" {
			if driver != "" {
				c.deny("it names two drivers")
			}
			driver = p.Value
			properties = append(append([]plan.Property{}, properties[:i]...), properties[i+1:]...)
			break
		}
	}
	c.driver(driver)
	if !o.List && o.Value != "" && strings.ContainsAny(o.Value, ",={") {
		c.deny("it is a single text, which can contain any property; give its properties one by one")
		return
	}
	c.properties(qemuopt.Flag("-device"), properties)
}

// driver judges the name of a device.
func (c *checker) driver(name string) {
	if name == "" || strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-") != "" {
		c.deny(strconv.Quote(name) + " is not the name of a device")
		return
	}
	c.allow("devices", name, "the device "+name)
}

// global judges -global, which sets a property of all devices of a driver.
func (c *checker) global(o *plan.Option) {
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
				c.deny("-global has no property " + p.Key)
			}
		}
	} else {
		name, text, found := strings.Cut(o.Value, "=")
		dot := strings.Index(name, ".") // as QEMU does (qemu_global_option)
		if !found || dot < 0 || len(o.Properties) > 0 {
			c.deny("want driver.property=value")
			return
		}
		driver, key, value = name[:dot], name[dot+1:], text
	}
	c.driver(driver)
	c.property(ofAnyDevice(), plan.Property{Key: key, Value: value})
}

// netdev judges -netdev.
func (c *checker) netdev(o *plan.Option) {
	if o.Value == "tap" && !slices.ContainsFunc(o.Properties, func(p plan.Property) bool {
		return p.Descriptor != "" && (p.Key == "fd" || p.Key == "fds")
	}) {
		c.deny("QEMU would open the interface itself and run a script; give it the descriptor of a tap")
	}
	if o.Value != "user" {
		c.plain("-netdev", o)
		return
	}
	c.allow("backends", "netdev user", "netdev user")
	c.allow("networks", "user", "the network user")
	for _, p := range o.Properties {
		if p.Key != "hostfwd" {
			c.property(qemuopt.Exactly("-netdev", "user"), p)
			continue
		}
		fields := strings.SplitN(p.Value, ":", 2) // proto:address:port-guest:port
		from, _, _ := strings.Cut(fields[len(fields)-1], "-")
		i := strings.LastIndex(from, ":")
		if i < 0 || fields[0] != "tcp" && fields[0] != "udp" {
			c.deny("hostfwd=" + p.Value + " is not of the form protocol:address:port-address:port")
			continue
		}
		c.listen(from[:i], from[i+1:])
	}
}

// spice judges -spice.
func (c *checker) spice(o *plan.Option) {
	address, unix := "", false
	for _, p := range o.Properties {
		switch p.Key {
		case "addr":
			address = p.Value
		case "unix":
			var known bool
			if unix, known = qemuopt.Bool(p.Value); !known {
				c.deny("unix=" + p.Value + " is no switch; QEMU knows on and off")
			}
		}
	}
	if !o.List || o.Value != "" {
		c.deny("it is a single text, which can contain any property; give its properties one by one")
	}
	for _, p := range o.Properties {
		switch {
		case p.Key == "port" && !unix || p.Key == "tls-port":
			c.listen(address, p.Value)
		case p.Key == "addr" && unix:
			c.file("write", p.Value)
		case p.Key != "port":
			c.property(qemuopt.Flag("-spice"), p)
		}
	}
}

// vnc judges -vnc, whose first value may be given as the property vnc.
func (c *checker) vnc(o *plan.Option) {
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
		c.deny("it is a single text, which can contain any property; give its properties one by one")
	case unix:
		c.file("write", path)
	case where == "none":
	case i < 0:
		c.deny("unknown address to listen on: " + strconv.Quote(where))
	default:
		display, err := strconv.Atoi(where[i+1:])
		if err != nil {
			c.deny("unknown address to listen on: " + strconv.Quote(where))
			return
		}
		c.listen(where[:i], strconv.Itoa(5900+display))
	}
	for _, p := range properties {
		if p.Key == "to" || p.Key == "websocket" || p.Key == "reverse" {
			c.deny(p.Key + " listens or connects elsewhere, which a policy cannot allow")
			continue
		}
		c.property(qemuopt.Flag("-vnc"), p)
	}
}
