package plan

import (
	"fmt"
	"strings"

	"vmop/vmtypes/qemuopt"
)

// An Endpoint is where a character device or a network backend listens or connects, as QEMU understands the option. It
// has a path, or a host and a port, or a descriptor.
type Endpoint struct {
	// Server is set if QEMU waits for connections there.
	Server bool
	// Path is that of a unix socket, Abstract if it is no file.
	Path     string
	Abstract bool
	// Host and Port are of TCP. LastPort, if set, is the end of a range in which QEMU searches a free port.
	Host, Port, LastPort string
	// Descriptor is the name of a tap or listener; Number a descriptor that is no part of the plan.
	Descriptor, Number string
}

// Endpoint returns the endpoint of a structured option with one dash, and whether the option
// has one: -chardev socket and -netdev stream have. The error says what QEMU would refuse, or what is not understood.
func (o Option) Endpoint() (e Endpoint, is bool, err error) {
	switch o.Flag + " " + o.Backend() {
	case "-chardev socket":
		kind := ""
		for _, p := range o.Properties {
			if field := chardevField[p.Key]; field != "" {
				if err := e.set(field, p); err != nil {
					return e, true, err
				}
			}
			switch p.Key {
			case "path", "host", "fd":
				if kind != "" && kind != p.Key {
					return e, true, fmt.Errorf("it has both %s and %s, of which QEMU takes one", kind, p.Key)
				}
				kind = p.Key
			}
		}
		return e, true, nil
	case "-netdev stream":
		e, err = o.streamEndpoint()
		return e, true, err
	}
	return e, false, nil
}

// chardevField and streamField are what a key says of a socket; "-" is nothing that matters.
var (
	chardevField = map[string]string{
		"server": "server", "path": "path", "abstract": "abstract", "host": "host", "port": "port", "to": "to",
		"fd": "fd",
	}
	streamField = map[string]map[string]string{
		"unix": {"addr.path": "path", "addr.abstract": "abstract", "addr.tight": "-"},
		"inet": {
			"addr.host": "host", "addr.port": "port", "addr.to": "to", "addr.ipv4": "-", "addr.ipv6": "-",
			"addr.numeric": "-", "addr.keep-alive": "-", "addr.mptcp": "-",
		},
		"fd": {"addr.str": "fd"},
	}
)

// streamEndpoint returns the endpoint of -netdev stream, whose keys QEMU takes by the type of the address.
func (o Option) streamEndpoint() (e Endpoint, err error) {
	kind, _ := o.last("addr.type")
	fields := streamField[kind]
	if fields == nil {
		return e, fmt.Errorf("addr.type=%s is none of unix, inet and fd", kind)
	}
	for _, p := range o.Properties {
		field := fields[p.Key]
		switch {
		case p.Key == "server":
			field = "server"
		case p.Key == "addr.type", field == "-", !strings.HasPrefix(p.Key+".", "addr."):
			continue
		case field == "":
			return e, fmt.Errorf("%s does not belong to an address of the type %s", p.Key, kind)
		}
		if err := e.set(field, p); err != nil {
			return e, err
		}
	}
	return e, nil
}

// set takes over a property; of several with one key QEMU takes the last.
func (e *Endpoint) set(field string, p Property) error {
	switch field {
	case "server", "abstract":
		on, known := qemuopt.Bool(p.Value)
		if !known {
			return fmt.Errorf("%s=%s is no switch; QEMU knows on and off", p.Key, p.Value)
		}
		*map[string]*bool{"server": &e.Server, "abstract": &e.Abstract}[field] = on
	case "fd":
		e.Descriptor, e.Number = p.Descriptor, p.Value
	case "path":
		e.Path = p.Value
	case "host":
		e.Host = p.Value
	case "port":
		e.Port = p.Value
	case "to":
		e.LastPort = p.Value
	}
	return nil
}

// last returns the value of a property, of several the last, which QEMU takes.
func (o Option) last(key string) (value string, ok bool) {
	for _, p := range o.Properties {
		if p.Key == key {
			value, ok = p.Value, true
		}
	}
	return value, ok
}
