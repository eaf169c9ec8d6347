package netsetup

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// A Fault is a reason for which a network cannot be set up and which the user,
// not the program, can remove.
type Fault string

// The faults. Their texts are for logs and tests; what a user reads is made by
// Error.Error.
const (
	// NameInvalid: an interface name is empty, longer than 15 bytes or
	// contains what the kernel refuses (slash, colon, blank).
	NameInvalid Fault = "name invalid"
	// NameTaken: an interface of the name exists and is not a left-over of
	// the same owner, or another process of that owner is still at work.
	NameTaken Fault = "name taken"
	// Gone: the interface of a running machine, or its address, does not exist
	// any more.
	Gone Fault = "gone"
	// NoRight: CAP_NET_ADMIN or CAP_NET_BIND_SERVICE is missing.
	NoRight Fault = "no right"
	// NoTunDevice: /dev/net/tun is missing or may not be opened.
	NoTunDevice Fault = "no tun device"
	// NoBridge: the bridge does not exist.
	NoBridge Fault = "no bridge"
	// NotABridge: the interface exists but is something else.
	NotABridge Fault = "not a bridge"
	// ForwardingOff: net.ipv4.ip_forward is 0 and cannot be set.
	ForwardingOff Fault = "forwarding off"
	// NoNftables: the kernel cannot do what the rules need.
	NoNftables Fault = "no nftables"
	// SubnetInvalid: the prefix is not an IPv4 one with room for two hosts.
	SubnetInvalid Fault = "subnet invalid"
	// SubnetTaken: another interface has addresses in the subnet.
	SubnetTaken Fault = "subnet taken"
	// ForwardInvalid: a forwarded port's protocol, address or number is wrong.
	ForwardInvalid Fault = "forward invalid"
	// PortTaken: another program listens on a port that is to be forwarded.
	PortTaken Fault = "port taken"
	// MACInvalid: the machine's hardware address is missing or a group's.
	MACInvalid Fault = "mac invalid"
)

// Error is what was being done, why it failed and what the user can do about it.
type Error struct {
	Doing  string // what was being done to what: "open tap vm0"
	Fault  Fault  // the kind of reason
	Detail string // the reason: "bridge br0 does not exist"
	Remedy string // an advice, empty if there is none
	Err    error  // the underlying error, nil if there is none
}

// Error returns all of it in one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Doing + ": " + e.Detail)
	if e.Err != nil {
		b.WriteString(" (" + e.Err.Error() + ")")
	}
	if e.Remedy != "" {
		b.WriteString("; " + e.Remedy)
	}
	return b.String()
}

// Unwrap returns the underlying error, nil if there is none.
func (e *Error) Unwrap() error { return e.Err }

// FaultOf returns the fault of the first *Error in err's chain, or "" if there
// is none.
func FaultOf(err error) Fault {
	var e *Error
	if errors.As(err, &e) {
		return e.Fault
	}
	return ""
}

const adminRemedy = "run as root or give the program the capability CAP_NET_ADMIN " +
	"(by a service: the drop-in network.conf; in Kubernetes: securityContext.capabilities.add: [NET_ADMIN])"

// noAdmin turns a refusal by the kernel into the fault NoRight and leaves every
// other error as it is, with what was being done in front.
func noAdmin(doing string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return &Error{
			Doing: doing, Fault: NoRight, Err: err,
			Detail: "the right to administer the network is missing", Remedy: adminRemedy,
		}
	}
	return fmt.Errorf("%s: %w", doing, err)
}
