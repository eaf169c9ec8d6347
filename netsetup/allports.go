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

// AllPorts hands the ports of a namespace to the machine. What the namespace itself sends,
// and what comes in by its loopback interface, is not diverted, nor are answers to what it
// has sent.
type AllPorts struct {
	// Keep are the ports, of TCP and UDP, that stay the namespace's; and so do those that
	// something listens on when the network is opened.
	Keep []int
}

// leaveOut adds the ports that something listens on.
func (a *AllPorts) leaveOut(doing string, cfg MasqueradeConfig, logger *slog.Logger) error {
	if a == nil {
		return nil
	}
	taken, err := listening()
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

// rules divert what begins a connection; notIn are the conditions for what isn't the
// machine's own. Without the flags, an answer to a connection that the namespace began before
// its connections were tracked would count as a beginning.
func (a *AllPorts) rules(notIn rule, guest netip.Addr) (all []rule) {
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
	notLoopback := name(expr.MetaKeyIIFNAME, "lo", false)
	for _, number := range protocols {
		beginning := protocol(number)
		if number == unix.IPPROTO_TCP {
			beginning = append(beginning, synOnly()...)
		}
		all = append(all, slices.Concat(notIn, notLoopback, family(true), toHere(), beginning, rule{
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

// synOnly looks for the first packet of a TCP connection.
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

// listening returns the ports on which something in the namespace listens for others, sorted.
func listening() ([]int, error) {
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
			if port, is := listener(lines.Text(), state); is {
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

// listener returns the port of a line of /proc/net/tcp or its like, if the socket is in the
// state and not at a loopback address of IPv4.
func listener(line, state string) (int, bool) {
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
