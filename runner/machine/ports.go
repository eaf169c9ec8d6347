package machine

import (
	"encoding/json"
	"log/slog"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/vmtypes/plan"
)

// ports tracks which agent ports the guest has open. This is necessary because QEMU accepts connections even if
// no agent will ever answer. QEMU's events report changes; the state before them is queried.
type ports struct {
	*line
	all []*port
}

// A port is the virtio port of an agent.
type port struct {
	role   string // of its socket in the plan
	path   string // of the socket at the other end
	device string // the ID in QEMU's events; "" means no events
	open   bool
	events int // number of events seen
}

func newPorts(l *line, p *plan.Plan, roles []string) *ports {
	ports := &ports{line: l}
	for _, role := range roles {
		socket, ok := p.SocketOf(role)
		if !ok {
			continue
		}
		if socket.Port == "" {
			l.addLog(slog.LevelWarn, "the plan names no port for the agent's socket: the agent is not noticed when it comes or leaves",
				"role", role, "socket", socket.Path)
		}
		ports.all = append(ports.all, &port{role: role, path: socket.Path, device: socket.Port})
	}
	return ports
}

// queryPorts asks which ports are open. An event that arrives in the meantime is more recent than the answer.
func (p *ports) queryPorts(now time.Time) {
	if len(p.all) == 0 {
		return
	}
	seen := make([]int, len(p.all))
	for i, port := range p.all {
		seen[i] = port.events
	}
	p.sendCommand(qmp.Command{Execute: "query-chardev"}, now, func(a answer, _ time.Time) {
		open, err := openPorts(a)
		if err != nil {
			p.addLog(slog.LevelWarn, "asking which agents listen", "err", err)
			return
		}
		for i, port := range p.all {
			if port.events == seen[i] {
				p.setPort(port, open(port.path), true)
			}
		}
	})
}

// openPorts decodes QEMU's answer. open reports whether the guest has opened the port behind a socket.
func openPorts(a answer) (open func(path string) bool, err error) {
	var chardevs []struct {
		Filename string `json:"filename"`
		Open     bool   `json:"frontend-open"`
	}
	if err := a.decodeInto(&chardevs); err != nil {
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

// observeEvent processes an event about a port that the guest has opened or closed.
func (p *ports) observeEvent(e qmp.Event) {
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
				p.setPort(port, change.Open, false)
			}
		}
	case "RESET":
		for _, port := range p.all {
			port.events++
			p.setPort(port, false, false)
		}
	}
}

// setPort records that a port is open or closed. QEMU reports each port at most once a second, so an open port may be
// opened again without a report that it was closed.
func (p *ports) setPort(port *port, open, greeted bool) {
	port.open = open
	p.addAction(SetPort{port.role, open, greeted})
}

// findPort returns the port of a role, or nil if the machine has no such port.
func (p *ports) findPort(role string) *port {
	for _, port := range p.all {
		if port.role == role {
			return port
		}
	}
	return nil
}
