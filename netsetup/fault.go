package netsetup

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// A Fault is a reason why a network cannot be set up that the user, not the program, can remove.
type Fault string

// Faults that an Error can have. Their texts are for logs and tests; users read Error.Error.
const (
	// NameInvalid means that an interface name is empty, longer than 15 bytes, or contains a character that the
	// kernel refuses (slash, colon, blank).
	NameInvalid Fault = "name invalid"
	// NameTaken means that an interface of that name exists and isn't left over from the same owner. It can also
	// mean that another process of the same owner is still running.
	NameTaken Fault = "name taken"
	// Gone means that the interface of a running VM, or its address, no longer exists.
	Gone Fault = "gone"
	// NoRight means that CAP_NET_ADMIN, CAP_NET_BIND_SERVICE or CAP_NET_RAW is missing.
	NoRight Fault = "no right"
	// NoTunDevice means that /dev/net/tun is missing or may not be opened.
	NoTunDevice Fault = "no tun device"
	// NoBridge means that the bridge does not exist.
	NoBridge Fault = "no bridge"
	// NotABridge means that the interface exists but isn't a bridge.
	NotABridge Fault = "not a bridge"
	// ForwardingOff means that net.ipv4.ip_forward is 0 and cannot be set.
	ForwardingOff Fault = "forwarding off"
	// NoNftables means that the kernel lacks a feature that the rules need.
	NoNftables Fault = "no nftables"
	// SubnetInvalid means that the prefix isn't an IPv4 prefix of 8 to 30 bits.
	SubnetInvalid Fault = "subnet invalid"
	// SubnetTaken means that another interface has addresses in the subnet.
	SubnetTaken Fault = "subnet taken"
	// ForwardInvalid means that the protocol, address or number of a forwarded port is wrong.
	ForwardInvalid Fault = "forward invalid"
	// PortTaken means that another program uses a port that should be forwarded.
	PortTaken Fault = "port taken"
	// MACInvalid means that the VM's hardware address is missing or is a group address.
	MACInvalid Fault = "mac invalid"
)

// Error describes a failed operation, its reason, and a remedy for the user.
type Error struct {
	Doing  string // the operation and its object: "open tap vm0"
	Fault  Fault  // the kind of reason
	Detail string // the reason: "bridge br0 does not exist"
	Remedy string // advice for the user; may be empty
	Err    error  // the underlying error; may be nil
}

// Error returns all parts in one line.
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

// Unwrap returns the underlying error, which may be nil.
func (e *Error) Unwrap() error { return e.Err }

// FaultOf returns the Fault of the first *Error in err's chain, or "" if the chain contains no *Error.
func FaultOf(err error) Fault {
	var e *Error
	if errors.As(err, &e) {
		return e.Fault
	}
	return ""
}

const adminRemedy = "run as root or give the program the capability CAP_NET_ADMIN " +
	"(by a service: the drop-in network.conf; in Kubernetes: securityContext.capabilities.add: [NET_ADMIN])"

// noAdmin turns a permission error from the kernel into NoRight. It prefixes every other error with the
// operation.
func noAdmin(doing string, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return &Error{
			Doing: doing, Fault: NoRight, Err: err,
			Detail: "the right to administer the network is missing", Remedy: adminRemedy,
		}
	}
	return fmt.Errorf("%s: %w", doing, err)
}
