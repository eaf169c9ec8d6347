package plan

import (
	"fmt"
	"strings"

	"vmop/vmtypes/qemuopt"
)

// An Endpoint is the address where a character device or a network backend listens or connects, in QEMU's
// interpretation of the option. It contains a path, or a host and a port, or a descriptor.
type Endpoint struct {
	// Server is set if QEMU listens.
	Server bool
	// Path is the path of a unix socket. Abstract is set if it is an abstract socket, without a file.
	Path     string
	Abstract bool
	// Host and Port are a TCP address. LastPort, if set, is the end of a range; QEMU then searches for a free
	// port in this range.
	Host, Port, LastPort string
	// Descriptor is the name of a tap or listener. Number is a descriptor outside the plan.
	Descriptor, Number string
}

// Endpoint returns the endpoint of a structured option with one dash. is reports whether the option has an
// endpoint, as -chardev socket and -netdev stream do. The error means that QEMU would reject the option, or that
// its endpoint is unknown.
func (o Option) Endpoint() (e Endpoint, is bool, err error) {
	switch o.Flag + " " + o.Backend() {
	case "-chardev socket":
		kind := ""
		for _, p := range o.Properties {
			if field := chardevField[p.Key]; field != "" {
				if err := e.setProperty(field, p); err != nil {
					return e, true, err
				}
			}
			switch p.Key {
			case "path", "host", "fd":
				if kind != "" && kind != p.Key {
					return e, true, fmt.Errorf("it has both %s and %s, but QEMU uses only one", kind, p.Key)
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

// chardevField and streamField map keys to their meaning for a socket; "-" is an irrelevant key.
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

// streamEndpoint returns the endpoint of -netdev stream. The type of the address determines which keys QEMU
// accepts.
func (o Option) streamEndpoint() (e Endpoint, err error) {
	kind, _ := o.lastValue("addr.type")
	fields := streamField[kind]
	if fields == nil {
		return e, fmt.Errorf("addr.type=%s must be unix, inet or fd", kind)
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
		if err := e.setProperty(field, p); err != nil {
			return e, err
		}
	}
	return e, nil
}

// setProperty applies a property. If a key is given several times, QEMU takes the last.
func (e *Endpoint) setProperty(field string, p Property) error {
	switch field {
	case "server", "abstract":
		on, known := qemuopt.Bool(p.Value)
		if !known {
			return fmt.Errorf("%s=%s is not a switch; QEMU supports on and off", p.Key, p.Value)
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

// lastValue returns the value of a property. If it is given several times, QEMU takes the last.
func (o Option) lastValue(key string) (value string, ok bool) {
	for _, p := range o.Properties {
		if p.Key == key {
			value, ok = p.Value, true
		}
	}
	return value, ok
}
