package machine

import (
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/vmtypes/plan"
)

// ports follows which ports of agents the guest has open: QEMU accepts
// connections even where nothing will ever answer. QEMU's events say so; what
// came before them is asked for.
type ports struct {
	*line
	all []*port
}

// A port is the virtio port of an agent.
type port struct {
	role   string // of its socket in the plan
	path   string // of the socket that is the other end
	device string // the id in QEMU's events; "" means that there are none
	open   bool
	events int // that were seen
}

func newPorts(l *line, p *plan.Plan, roles []string) *ports {
	ports := &ports{line: l}
	for _, role := range roles {
		socket, ok := p.SocketOf(role)
		if !ok {
			continue
		}
		if socket.Port == "" {
			l.log(slog.LevelWarn, "the plan names no port for the agent's socket: the agent is not noticed when it comes or leaves",
				"role", role, "socket", socket.Path)
		}
		ports.all = append(ports.all, &port{role: role, path: socket.Path, device: socket.Port})
	}
	return ports
}

// query asks which ports are open. An event that comes meanwhile knows better.
func (p *ports) query(now time.Time) {
	if len(p.all) == 0 {
		return
	}
	seen := make([]int, len(p.all))
	for i, port := range p.all {
		seen[i] = port.events
	}
	p.send(qmp.Command{Execute: "query-chardev"}, now, func(a answer, _ time.Time) {
		open, err := openPorts(a)
		if err != nil {
			p.log(slog.LevelWarn, "asking which agents listen", "err", err)
			return
		}
		for i, port := range p.all {
			if port.events == seen[i] {
				p.set(port, open(port.path), true)
			}
		}
	})
}

// openPorts reads QEMU's answer: open reports whether the guest has opened the
// port behind a socket.
func openPorts(a answer) (open func(path string) bool, err error) {
	var chardevs []struct {
		Filename string `json:"filename"`
		Open     bool   `json:"frontend-open"`
	}
	if err := a.decode(&chardevs); err != nil {
		return nil, err
	}
	return func(path string) bool {
		for _, c := range chardevs {
			name := strings.TrimPrefix(c.Filename, "disconnected:")
			if strings.HasPrefix(name, "unix:"+path+",") {
				return c.Open
			}
		}
		return false
	}, nil
}

// observe takes in an event: the guest has opened a port, or closed it.
func (p *ports) observe(e qmp.Event) {
	switch e.Name {
	case "VSERPORT_CHANGE":
		var change struct {
			ID   string `json:"id"`
			Open bool   `json:"open"`
		}
		if err := json.Unmarshal(e.Data, &change); err != nil {
			return
		}
		for _, port := range p.all {
			if port.device == change.ID && port.device != "" {
				port.events++
				p.set(port, change.Open, false)
			}
		}
	case "RESET":
		for _, port := range p.all {
			port.events++
			p.set(port, false, false)
		}
	}
}

// set makes a port open or closed. QEMU reports each port once a second at most,
// so that one that is open may be opened again without being closed.
func (p *ports) set(port *port, open, greeted bool) {
	port.open = open
	p.do(SetPort{port.role, open, greeted})
}

// find returns the port of a role; nil if the machine has none.
func (p *ports) find(role string) *port {
	for _, port := range p.all {
		if port.role == role {
			return port
		}
	}
	return nil
}
