// Package usernet creates QEMU's commands that forward ports of the host to a guest in a user network, and
// decodes the answers. Only the human monitor (HMP) has these commands; it answers with text. See decision 0068.
package usernet

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"vmop/qmp"
	"vmop/vmtypes/plan"
)

// A Forward is a port of the host on which QEMU listens for the guest.
type Forward = plan.Forward

// Temporary is the loopback address of ports that the runner opens for one client. It is used for this purpose
// only, so a runner can find the ports that an earlier runner has left.
const Temporary = "127.86.77.1"

// List returns the command with the answer that Parse decodes.
func List() qmp.Command { return monitorCommand("info usernet") }

// Networks returns the command with the answer that Names decodes.
func Networks() qmp.Command { return monitorCommand("info network") }

// Names returns the names of all network cards and backends in an answer to Networks.
func Names(said string) (names []string) {
	for line := range strings.Lines(said) {
		name, _, is := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "\\ "), ": ")
		if is {
			names = append(names, name)
		}
	}
	return names
}

// Add makes QEMU listen. If QEMU refuses, Said returns the reason.
func Add(netdev string, f Forward) qmp.Command {
	return monitorCommand(fmt.Sprintf("hostfwd_add %s %s:%s:%d-:%d", netdev, f.Protocol, f.Address, f.Host, f.Guest))
}

// Remove makes QEMU stop listening. Existing connections stay. If the port did not exist, Said returns that
// message.
func Remove(netdev string, f Forward) qmp.Command {
	return monitorCommand(fmt.Sprintf("hostfwd_remove %s %s:%s:%d", netdev, f.Protocol, f.Address, f.Host))
}

func monitorCommand(line string) qmp.Command {
	return qmp.Command{Execute: "human-monitor-command", Arguments: map[string]string{"command-line": line}}
}

// Said returns the monitor's answer. Empty means success, or no message.
func Said(reply json.RawMessage) (string, error) {
	var said string
	if err := json.Unmarshal(reply, &said); err != nil {
		return "", fmt.Errorf("read the answer of QEMU's monitor: %w", err)
	}
	return strings.TrimSpace(said), nil
}

// Removed reports whether the answer to Remove means that the port no longer exists.
func Removed(said string) bool {
	return strings.HasSuffix(said, " removed") || strings.HasSuffix(said, " not found")
}

// Parse returns the forwarded ports in an answer to List, by network ID. A network without ports has an entry as
// well.
func Parse(said string) map[string][]Forward {
	all := map[string][]Forward{}
	netdev := ""
	for line := range strings.Lines(said) {
		if _, name, is := strings.Cut(strings.TrimSpace(line), " ("); is && strings.HasPrefix(line, "Hub ") {
			netdev = strings.TrimSuffix(name, "):")
			all[netdev] = nil
			continue
		}
		// TCP[HOST_FORWARD]  9  127.0.0.1  35275  10.0.2.15  22  0  0
		f := strings.Fields(line)
		if len(f) < 6 {
			continue
		}
		protocol, isForward := strings.CutSuffix(f[0], "[HOST_FORWARD]")
		host, e1 := strconv.Atoi(f[3])
		guest, e2 := strconv.Atoi(f[5])
		if !isForward || e1 != nil || e2 != nil {
			continue
		}
		address := f[2]
		if address == "*" {
			address = "0.0.0.0"
		}
		all[netdev] = append(all[netdev], Forward{
			Protocol: strings.ToLower(protocol), Address: address, Host: host, Guest: guest,
		})
	}
	return all
}
