package plan

import (
	"strconv"
	"strings"
)

// PasstForward reads an option of passt that forwards one port to the guest, in the form that the stock types
// use: --tcp-ports address/port:port.
func PasstForward(o Option) (f Forward, ok bool) {
	protocol, _ := strings.CutPrefix(o.Flag, "--")
	f.Protocol, ok = strings.CutSuffix(protocol, "-ports")
	if !ok || o.List || f.Protocol != "tcp" && f.Protocol != "udp" {
		return Forward{}, false
	}
	address, ports, _ := strings.Cut(o.Value, "/")
	host, guest, _ := strings.Cut(ports, ":")
	from, e1 := strconv.ParseUint(host, 10, 16)
	to, e2 := strconv.ParseUint(guest, 10, 16)
	if e1 != nil || e2 != nil {
		return Forward{}, false
	}
	f.Address, f.Host, f.Guest = address, int(from), int(to)
	return f, true
}
