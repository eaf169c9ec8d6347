// Package usernet reads and writes the commands by which QEMU forwards ports of the host to a
// guest in a user network. Only the monitor for people has them (HMP), which answers with
// texts. See decision 0068.
package usernet

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"vmop/qmp"
)

// A Forward is a port of the host on which QEMU listens for the guest.
type Forward struct {
	// Protocol is "tcp" or "udp".
	Protocol string
	// Address that QEMU listens on; "0.0.0.0" means all.
	Address string
	// Host is the port there, 0 one that the kernel chooses; Guest is the guest's.
	Host, Guest int
}

// Temporary is the loopback address of ports that the runner opens for one client: nothing
// else is there, so a runner finds those that one before it has left.
const Temporary = "127.86.77.1"

// List is the command that Parse reads the answer of.
func List() qmp.Command { return monitor("info usernet") }

// Add makes QEMU listen. Said has the reason if it refuses.
func Add(netdev string, f Forward) qmp.Command {
	return monitor(fmt.Sprintf("hostfwd_add %s %s:%s:%d-:%d", netdev, f.Protocol, f.Address, f.Host, f.Guest))
}

// Remove makes QEMU listen no longer; connections that exist stay. Said says so when there
// was no such port.
func Remove(netdev string, f Forward) qmp.Command {
	return monitor(fmt.Sprintf("hostfwd_remove %s %s:%s:%d", netdev, f.Protocol, f.Address, f.Host))
}

func monitor(line string) qmp.Command {
	return qmp.Command{Execute: "human-monitor-command", Arguments: map[string]string{"command-line": line}}
}

// Said returns what the monitor has answered; empty means that all is well, or that there
// is nothing to tell.
func Said(reply json.RawMessage) (string, error) {
	var said string
	if err := json.Unmarshal(reply, &said); err != nil {
		return "", fmt.Errorf("read the answer of QEMU's monitor: %w", err)
	}
	return strings.TrimSpace(said), nil
}

// Removed reports whether an answer to Remove means that there is no such port any more.
func Removed(said string) bool {
	return strings.HasSuffix(said, " removed") || strings.HasSuffix(said, " not found")
}

// Parse returns what an answer to List has of forwarded ports, by the id of the network: one
// without ports has an entry, too.
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
		all[netdev] = append(all[netdev], Forward{strings.ToLower(protocol), address, host, guest})
	}
	return all
}
