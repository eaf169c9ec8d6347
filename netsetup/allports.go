package netsetup

import (
	"bufio"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// AllPorts forwards all ports of a namespace to the VM. The namespace's own traffic is unaffected: packets that it
// sends, packets that arrive on its loopback interface, and answers to its own connections.
type AllPorts struct {
	// Keep lists the TCP and UDP ports that the namespace keeps. It also keeps the ports that a program listens on
	// when the network is opened.
	Keep []int
}

// leaveOut adds the ports that programs in the namespace listen on to Keep.
func (a *AllPorts) leaveOut(doing string, cfg MasqueradeConfig, logger *slog.Logger) error {
	if a == nil {
		return nil
	}
	taken, err := listeningPorts()
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	kept := slices.Clone(a.Keep)
	for _, f := range cfg.Forwards {
		kept = append(kept, int(f.HostPort))
	}
	taken = slices.DeleteFunc(taken, func(port int) bool { return slices.Contains(kept, port) })
	if len(taken) > 0 {
		logger.Info("ports that programs listen on don't lead to the guest", "interface", cfg.Name, "ports", taken)
	}
	a.Keep = append(slices.Clone(a.Keep), taken...)
	return nil
}

// diversionRules redirect the first packet of each connection to the guest. notIn matches packets that don't come from
// the VM. The TCP flags are necessary: without them, an answer on a connection that the namespace opened before
// connection tracking started would count as a first packet.
func (a *AllPorts) diversionRules(notIn rule, guest netip.Addr) (all []rule) {
	if a == nil {
		return nil
	}
	protocols := []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP}
	for _, port := range a.Keep {
		for _, number := range protocols {
			all = append(all, slices.Concat(notIn, toPort(number, uint16(port)),
				rule{&expr.Verdict{Kind: expr.VerdictAccept}}))
		}
	}
	notLoopback := matchDevice(expr.MetaKeyIIFNAME, "lo", false)
	for _, number := range protocols {
		beginning := matchProtocol(number)
		if number == unix.IPPROTO_TCP {
			beginning = append(beginning, synOnly()...)
		}
		all = append(all, slices.Concat(notIn, notLoopback, matchFamily(true), toHere(), beginning, rule{
			&expr.Immediate{Register: 1, Data: guest.AsSlice()},
			&expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV4, RegAddrMin: 1},
		}))
	}
	return all
}

// Flags in the header of TCP (RFC 9293).
const (
	flagsOffset = 13
	flagFIN     = 1
	flagSYN     = 2
	flagRST     = 4
	flagACK     = 16
)

// synOnly matches the first packet of a TCP connection.
func synOnly() rule {
	return rule{
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: flagsOffset, Len: 1},
		&expr.Bitwise{
			SourceRegister: 1, DestRegister: 1, Len: 1,
			Mask: []byte{flagFIN | flagSYN | flagRST | flagACK}, Xor: []byte{0},
		},
		&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{flagSYN}},
	}
}

// listeningPorts returns the ports that programs in the namespace listen on for other hosts, sorted.
func listeningPorts() ([]int, error) {
	ports := map[int]bool{}
	for file, state := range map[string]string{"tcp": "0A", "tcp6": "0A", "udp": "07", "udp6": "07"} {
		f, err := os.Open("/proc/thread-self/net/" + file)
		if os.IsNotExist(err) { // no IPv6
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("see which ports are in use: %w", err)
		}
		lines := bufio.NewScanner(f)
		for lines.Scan() {
			if port, is := listenerPort(lines.Text(), state); is {
				ports[port] = true
			}
		}
		err = lines.Err()
		_ = f.Close()
		if err != nil {
			return nil, fmt.Errorf("see which ports are in use: %w", err)
		}
	}
	return slices.Sorted(maps.Keys(ports)), nil
}

// listenerPort parses a line of /proc/net/tcp or a similar file. It returns the port if the socket is in the given
// state and isn't bound to an IPv4 loopback address.
func listenerPort(line, state string) (int, bool) {
	fields := strings.Fields(line) // 0: 0100007F:1538 00000000:0000 0A …
	if len(fields) < 4 || fields[3] != state {
		return 0, false
	}
	address, text, _ := strings.Cut(fields[1], ":")
	port, err := strconv.ParseUint(text, 16, 16)
	if err != nil || len(address) == 8 && strings.HasSuffix(address, "7F") {
		return 0, false
	}
	return int(port), true
}
