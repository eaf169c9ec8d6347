package runner

import (
	"context"
	"encoding/json"
	"strings"

	"vmop/qmp"
	"vmop/runner/status"
)

// The roles of the agents' sockets in plans.
const (
	guestAgentRole = "guestAgent"
	loginAgentRole = "vmopAgent"
)

// agents follows the agents in the guest: QEMU's own, which tells what runs
// there, and the one that logs users in. Each has a virtio port, and QEMU tells
// when the guest opens and closes it.
type agents struct {
	m     *machine
	login *loginAgent
	ports []*port
}

func newAgents(m *machine) *agents {
	a := &agents{m: m, login: newLoginAgent(m)}
	a.add(guestAgentRole, &guestAgent{m: m})
	a.add(loginAgentRole, a.login)
	return a
}

// add adds the port of a role, if the machine has one.
func (a *agents) add(role string, who attendant) {
	socket, ok := a.m.vm.Plan.SocketOf(role)
	if !ok {
		return
	}
	p := &port{m: a.m, who: who, path: socket.Path, device: socket.Port}
	if p.device == "" {
		a.m.log.Warn("the plan names no port for the agent's socket: the agent's coming and going is not seen", "role", role, "socket", socket.Path)
	}
	a.ports = append(a.ports, p)
}

// attached implements follower. Agents may have come before.
func (a *agents) attached(ctx context.Context) {
	for _, p := range a.ports {
		p.look(ctx)
	}
}

// observe implements follower.
func (a *agents) observe(ctx context.Context, e qmp.Event) {
	switch e.Name {
	case "VSERPORT_CHANGE":
		var change struct {
			ID   string `json:"id"`
			Open bool   `json:"open"`
		}
		if err := json.Unmarshal(e.Data, &change); err != nil {
			return // QEMU's own words are JSON
		}
		for _, p := range a.ports {
			if p.device == change.ID && p.device != "" {
				p.changed(ctx, change.Open)
			}
		}
	case "RESET":
		for _, p := range a.ports {
			p.changed(ctx, false)
		}
		a.m.tell(status.WasReset{})
	}
}

// wanted implements follower.
func (a *agents) wanted(_ context.Context, vm *VM) {
	user := ""
	if vm.Spec.Display != nil {
		user = vm.Spec.Display.LoggedInUser
	}
	a.m.tell(status.WantedUser(user))
	a.login.agent.Want(user)
}

// portIsOpen says whether somebody in the guest has opened the port behind a
// socket: QEMU accepts connections even if nobody will ever answer.
func (m *machine) portIsOpen(ctx context.Context, path string) (bool, error) {
	var chardevs []struct {
		Filename string `json:"filename"`
		Open     bool   `json:"frontend-open"`
	}
	if err := m.query(ctx, "query-chardev", nil, &chardevs); err != nil {
		return false, err
	}
	for _, c := range chardevs {
		if strings.HasPrefix(c.Filename, "unix:"+path+",") || strings.HasPrefix(c.Filename, "disconnected:unix:"+path+",") {
			return c.Open, nil
		}
	}
	return false, nil
}
